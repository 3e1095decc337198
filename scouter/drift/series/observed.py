"""Results as the series take them: who was judged, in which conversation, and the outcomes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from scouter.drift.series.series import Agent, Kind
from scouter.evaluate.outcome import Outcome

RECORD: Final = ""
"""Stands for the whole record where a task is named."""


class Place(NamedTuple):
    """The place of a result in the order of completion."""

    seq: int
    ordinal: int


BEFORE_ALL: Final = Place(0, -1)


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

    def counted(self) -> Iterator[tuple[str, Kind, bool]]:
        """Each series that the result belongs to, and whether it is a good outcome there.

        An error is no failure of the agent: it is in a series of its own, and a task that was
        skipped or awaits its judge is in none.
        """
        for task, outcome in self.outcomes:
            is_decided = outcome in (Outcome.PASSED, Outcome.FAILED)
            if is_decided:
                yield task, Kind.PASS, outcome is Outcome.PASSED
            if is_decided or outcome is Outcome.ERRORED:
                yield task, Kind.ERROR, is_decided
