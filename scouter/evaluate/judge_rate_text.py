"""Rates of judges in the words that all tables share."""

from dataclasses import dataclass
from typing import Final

from scouter.evaluate.intervals import Interval
from scouter.evaluate.judge_rate import JudgeRate

TITLE: Final = "Judge tasks: as the judge says, and as people would"
COLUMNS: Final = (
    "Task", "Judge says", "95% interval", "People would say", "95% interval", "Sensitivity",
    "Specificity", "Labels",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeText:
    """One judge task as the row of a table."""

    cells: tuple[str, ...]
    """As in `COLUMNS`; where no rate can be told, the fourth says why in few words."""
    why: str
    """The same at length: what is missing, or in what the judge differs; empty if nothing."""


def judge_text(found: JudgeRate) -> JudgeText:
    """Write a judge's rate."""
    known = found.calibration
    name = f"{found.alias} · {found.task_id}" if found.alias else found.task_id
    says = f"{_share(found.judge_rate)} ({found.passed}/{found.judged})" if found.judged else "–"
    cells = (
        name,
        says,
        _between(found.judge_interval if found.judged else None),
        found.standing_text if found.rate is None else _share(found.rate),
        _between(found.interval),
        "" if known is None else _share(known.sensitivity),
        "" if known is None else _share(known.specificity),
        "" if known is None else f"{known.labels} ({known.good} good, {known.bad} bad)",
    )
    is_plain = found.standing in ("corrected", "not_calibrated")
    return JudgeText(
        cells=cells, why="" if is_plain else f"{name}: {found.standing_text}: {found.why}"
    )


def _share(rate: float | None) -> str:
    return "not known" if rate is None else f"{rate:.1%}"


def _between(bounds: Interval | None) -> str:
    return "" if bounds is None else f"{bounds[0]:.1%} to {bounds[1]:.1%}"
