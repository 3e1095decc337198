"""Rates of judges in the words that all tables share."""

from dataclasses import dataclass
from typing import Final

from scouter.evaluate.intervals import Interval
from scouter.evaluate.results.judge_rate import JudgeRate

TITLE: Final = "Judge tasks: as the judge says, and as people would"
COLUMNS: Final = (
    "Task", "Judge says", "95% interval", "People would say", "95% interval", "Sensitivity",
    "Specificity", "Labels",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeText:
    """One judge task as the row of a table."""

    name: str
    says: str
    says_interval: str
    people: str
    """The corrected rate; where none can be told, why in few words."""
    people_interval: str
    sensitivity: str
    specificity: str
    labels: str
    kinds: str
    """Number of good and of bad labels, as `12 good, 8 bad`."""
    why: str
    """Reason why there is no corrected rate, such as too few labels; empty if there is one."""

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of the row, in the order of `COLUMNS`."""
        labels = f"{self.labels} ({self.kinds})" if self.labels else ""
        return (
            self.name, self.says, self.says_interval, self.people, self.people_interval,
            self.sensitivity, self.specificity, labels,
        )  # fmt: skip

    @property
    def note(self) -> str:
        """A line of its own below a table; empty where there is nothing to say."""
        return f"{self.name}: {self.people}: {self.why}" if self.why else ""


def judge_text(found: JudgeRate) -> JudgeText:
    """Write a judge's rate."""
    known = found.calibration
    says = f"{_share(found.judge_rate)} ({found.passed}/{found.judged})" if found.judged else "–"
    is_plain = found.standing in ("corrected", "not_calibrated")
    return JudgeText(
        name=f"{found.alias} · {found.task_id}" if found.alias else found.task_id,
        says=says,
        says_interval=_between(found.judge_interval if found.judged else None),
        people=found.standing_text if found.rate is None else _share(found.rate),
        people_interval=_between(found.interval),
        sensitivity="" if known is None else _share(known.sensitivity),
        specificity="" if known is None else _share(known.specificity),
        labels="" if known is None else str(known.labels),
        kinds="" if known is None else f"{known.good} good, {known.bad} bad",
        why="" if is_plain else found.why,
    )


def _share(rate: float | None) -> str:
    return "not known" if rate is None else f"{rate:.1%}"


def _between(bounds: Interval | None) -> str:
    return "" if bounds is None else f"{bounds[0]:.1%} to {bounds[1]:.1%}"
