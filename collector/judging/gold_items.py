"""Gold items: records that people have labelled, when a judge is called, and how far both agree."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from collector.items.times import time_at
from collector.store.judges import GoldOutcome
from scouter.agent.calibration.asking import votes_on
from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.drawn import confusion_of
from scouter.agent.calibration.identity import Identity
from scouter.agent.calibration.labels import LabelFile, gather, read_labels
from scouter.agent.calibration.rates import Calibrations, Unfit
from scouter.errors import ConfigError
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.gold_items import JudgeDrift, judge_drift
from scouter.evaluate.tasks.judge import LLMJudgeTask

DAY_NS: Final = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class GoldItem:
    """A record that people have judged."""

    digest: str
    """Digest of its context."""
    context: JsonValue
    is_good: bool


class GoldFile:
    """A file of labels with contexts, as `scouter judge calibrate` reads it.

    Args:
        path: The file.

    Raises:
        ConfigError: A line is no label, or has no context that a judge could read;
            names it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._labels: LabelFile = read_labels(path)
        for problem in self._labels.problems:
            raise problem
        for line, label in self._labels.labels:
            if label.context is None:
                raise ConfigError(f"{path}, line {line}: a gold item needs its context")

    def items(self, task: LLMJudgeTask) -> list[GoldItem]:
        """The items of a judge task: those that name it, and those that name none.

        Returns:
            Each record once, in an order that nobody chose and that stays; what as many people
            pass as fail is left out.

        Raises:
            ConfigError: A score is not on the task's scale, or a rater says two things of one
                record; names the lines.
        """
        problems: list[Exception] = []
        path = str(self.path)
        found = gather(votes_on(self._labels.labels, task, path, problems), path, problems)
        for problem in problems:
            raise problem
        items = [
            GoldItem(_digest(each.key), each.context, each.is_good)
            for each in found
            if each.is_good is not None
        ]
        return sorted(items, key=lambda item: _digest(f"{task.id} {item.digest}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Rule that says which gold item is judged at which time.

    It follows from the time alone, so that a restart changes nothing. Slots follow each other
    evenly, and each takes the next item.

    Args:
        per_day: Items a day.
        window: Slots that are compared together with the calibration; at most as many as items, so
            that a window has no item twice.
    """

    per_day: float
    window: int

    def slot_at(self, now_ns: int) -> int:
        """The slot of a time."""
        slots, days = self.per_day.as_integer_ratio()
        return now_ns * slots // (days * DAY_NS)

    def start_ns(self, slot: int) -> int:
        """Start of a slot: the first nanosecond in it, since the epoch."""
        slots, days = self.per_day.as_integer_ratio()
        return -(-slot * days * DAY_NS // slots)

    def first_of_window(self, slot: int) -> int:
        """The first slot of the window that a slot lies in."""
        return slot // self.window * self.window


def item_of(items: Sequence[GoldItem], slot: int) -> GoldItem:
    """The item of a slot."""
    return items[slot % len(items)]


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


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

    Only a window whose time is over is compared with the calibration, and once: looked at after
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
        confusion = confusion_of(
            (each.is_good, each.outcome is Outcome.PASSED)
            for each in rows
            if each.outcome in (Outcome.PASSED, Outcome.FAILED)
        )
        known = calibrations.at(identity, time_at(rows[0].at_ns))
        is_complete = now_ns >= end_ns
        found.append(
            GoldWindow(
                start_ns=schedule.start_ns(first),
                end_ns=end_ns,
                is_complete=is_complete,
                confusion=confusion,
                undecided=len(rows) - confusion.total,
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
