"""Windows of gold items: a judge's agreement with people over time."""

import datetime
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from collector.judging.gold_items import Schedule
from collector.store.judges import GoldOutcome
from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.identity import Identity
from scouter.agent.calibration.known import Calibrations, Unfit
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.gold_items import JudgeDrift, judge_drift


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldWindow:
    """The gold outcomes of one window."""

    start_ns: int
    end_ns: int
    is_complete: bool
    """Its time is over."""
    confusion: Confusion
    undecided: int
    """Items that the judge neither passed nor failed."""
    drift: JudgeDrift | None
    """Against the calibration that was in force; None in a window that goes on, without one, and if
    its labels were drawn by the judge's outcome or say nothing of how they were chosen."""


def gold_windows(
    outcomes: Sequence[GoldOutcome],
    schedule: Schedule,
    now_ns: int,
    identity: Identity,
    calibrations: Calibrations,
) -> list[GoldWindow]:
    """Sum outcomes up by window.

    Only a window whose time is over is held against the calibration, and once: looked at after
    every item, a steady judge would be called drifting far more often than the level says.

    Args:
        outcomes: Of one judge.
        schedule: That they were made by.
        now_ns: Tells which window goes on.
        identity: Of the judge.
        calibrations: All there are.

    Returns:
        Windows with an outcome, the oldest first.
    """
    by_window: defaultdict[int, list[GoldOutcome]] = defaultdict(list)
    for each in outcomes:
        by_window[schedule.first_of_window(each.slot)].append(each)
    found: list[GoldWindow] = []
    for first, rows in sorted(by_window.items()):
        end_ns = schedule.start_ns(first + schedule.window)
        confusion, undecided = _confusion(rows)
        known = calibrations.at(identity, _time(rows[0].at_ns))
        is_complete = now_ns >= end_ns
        found.append(
            GoldWindow(
                start_ns=schedule.start_ns(first),
                end_ns=end_ns,
                is_complete=is_complete,
                confusion=confusion,
                undecided=undecided,
                drift=_drift(known, confusion) if is_complete else None,
            )
        )
    return found


def _drift(known: Calibration | Unfit, gold: Confusion) -> JudgeDrift | None:
    """Compare gold items with labels that, as they do, do not depend on the judge's outcome."""
    if isinstance(known, Unfit) or known.drawn is None or known.drawn.order == "outcome":
        return None
    return judge_drift(known.drawn.counts, gold) if gold.total else None


def last_complete(windows: Sequence[GoldWindow]) -> GoldWindow | None:
    """The latest window whose time is over."""
    return next((each for each in reversed(windows) if each.is_complete), None)


def _confusion(rows: Sequence[GoldOutcome]) -> tuple[Confusion, int]:
    counts = Counter((each.is_good, each.outcome) for each in rows)
    confusion = Confusion(
        good_passed=counts[True, Outcome.PASSED],
        good_failed=counts[True, Outcome.FAILED],
        bad_passed=counts[False, Outcome.PASSED],
        bad_failed=counts[False, Outcome.FAILED],
    )
    return confusion, len(rows) - confusion.total


def _time(ns: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ns / 10**9, datetime.UTC)
