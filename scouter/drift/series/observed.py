"""Results as the series take them: who was judged, in which conversation, and the outcomes."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scouter.drift.series.series import Agent, Kind
from scouter.drift.series.yardstick import Yardstick
from scouter.evaluate.outcome import Outcome

RECORD: Final = ""
"""Stands for the whole record where a task is named."""


class Place(NamedTuple):
    """The place of a result in the order of completion."""

    seq: int
    ordinal: int


BEFORE_ALL: Final = Place(0, -1)


class Counted(NamedTuple):
    """One result in one series."""

    task: str
    kind: Kind
    outcome: float
    """In [0, 1]; 1 is best."""
    is_failed: bool
    """Counts among the ones that failed, or erred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The first final result of one record, or of one session that is judged as a whole."""

    place: Place
    space: str
    profile_uid: str
    agent: Agent
    session: str
    """Empty where the result stands for itself."""
    at_ns: int
    evaluation_id: str
    outcomes: tuple[tuple[str, Outcome], ...]
    """By task; `RECORD` for the whole."""
    numbers: tuple[tuple[str, float], ...] = ()
    """Numbers beside decided outcomes, by task: scores, and what trace assertions measured."""
    yardsticks: Mapping[str, Yardstick] = field(default_factory=dict[str, Yardstick])
    """Measures of the tasks whose numbers count; the other tasks are in no series."""

    def counted(self) -> "Iterator[Counted]":
        """Each series that the result belongs to, with its outcome there.

        An error is no failure of the agent: it is in a series of its own, and a task that was
        skipped or awaits its judge is in none.
        """
        failed: set[str] = set()
        for task, outcome in self.outcomes:
            is_decided = outcome in (Outcome.PASSED, Outcome.FAILED)
            if is_decided:
                is_good = outcome is Outcome.PASSED
                if not is_good:
                    failed.add(task)
                yield Counted(task, Kind.PASS, float(is_good), not is_good)
            if is_decided or outcome is Outcome.ERRORED:
                yield Counted(task, Kind.ERROR, float(is_decided), not is_decided)
        for task, number in self.numbers:
            yardstick = self.yardsticks.get(task)
            if yardstick is not None and not math.isnan(number):  # one would end all evidence
                yield Counted(task, Kind.SCORE, yardstick.outcome(number), task in failed)
