"""Causes: which falls of one agent are one alert, and which of them is its headline.

A record fails if a task of it fails, and a slice is a part of the records. So one cause makes
several series fall, each proven at its own time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from scouter.drift.series.group import Turn
from scouter.drift.series.series import Kind, SeriesKey

_NEAR_NS: Final = 300 * 10**9
"""Many results come at once after an outage: their times say little of the order of falls."""


class Proven(NamedTuple):
    """A fall of one series."""

    key: SeriesKey
    since_ns: int
    """Time at which the change most likely began."""
    at_ns: int
    """Time of the result that proved it."""


def is_one_cause(fall: Proven, opened: Iterable[Proven]) -> bool:
    """Tell whether a fall has the cause of others whose alert is open.

    It has if it began before one of them was proven, or so soon after that the estimated beginnings
    may be the same; five minutes are soon in any case. A fall of whole records has the cause of any
    of their parts: another cause would make another task fall. Errors, and costs and durations, are
    apart from failures: they are reported with another severity.

    Args:
        fall: As it was proven.
        opened: The falls of the alert that go on.
    """
    kind = _side(fall.key)
    is_whole = not fall.key.task and not fall.key.slice
    return any(
        fall.key[:3] == each.key[:3]
        and kind is _side(each.key)
        # Records are taken in order of creation: a result may be older than the one before it.
        and (is_whole or fall.since_ns <= each.at_ns + _soon_ns(each))
        for each in opened
    )


def _side(key: SeriesKey) -> Kind:
    """The kind of an alert that a series belongs to: scores belong to failures."""
    return Kind.PASS if key.kind is Kind.SCORE else key.kind


def _soon_ns(fall: Proven) -> int:
    return max(abs(fall.at_ns - fall.since_ns), _NEAR_NS)


def specificity(key: SeriesKey) -> int:
    """Rank series by how narrow they are: a slice before a task, a task before whole records."""
    return 2 if key.slice else 1 if key.task else 0


@dataclass(slots=True, kw_only=True)
class Cause:
    """Falls that are one alert."""

    falls: dict[SeriesKey, Proven]
    """In the order in which they were proven."""
    going_on: set[SeriesKey]
    ended_ns: int | None = None
    """Time at which the last of them was over; None while one goes on."""

    @property
    def opened_ns(self) -> int:
        """Time at which the first one was proven."""
        return min(each.at_ns for each in self.falls.values())

    @property
    def headline(self) -> SeriesKey:
        """The most specific one; of several that was proven first."""
        return max(self.falls, key=specificity)


class Causes:
    """Puts falls together, as the alerts do."""

    def __init__(self) -> None:
        self.found: list[Cause] = []
        """In the order in which they were opened."""

    def take(self, turn: Turn) -> None:
        """Take the next series that fell or recovered."""
        key, fall = turn.series.key, turn.fall
        current = next((each for each in self.found if key in each.going_on), None)
        if fall is None:
            if current is not None:
                current.going_on.discard(key)
                current.ended_ns = None if current.going_on else turn.at_ns
        elif current is None:
            proven = Proven(key, fall.since_ns, turn.at_ns)
            joined = [each for each in self.found if is_one_cause(proven, _going_on(each))]
            if not joined:
                joined = [Cause(falls={}, going_on=set())]
                self.found += joined
            joined[-1].falls[key] = proven
            joined[-1].going_on.add(key)


def _going_on(cause: Cause) -> list[Proven]:
    return [cause.falls[key] for key in cause.going_on]
