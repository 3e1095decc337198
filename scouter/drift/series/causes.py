"""Causes: which falls of one agent are one alert, and which of them is its headline.

A record fails if a task of it fails, and a slice is a part of the records. So one cause makes
several series fall, each proven at its own time.
"""

from collections.abc import Iterable
from typing import NamedTuple

from scouter.drift.series.series import Kind, SeriesKey


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
    may be the same. A fall of whole records has the cause of any of their parts: another cause
    would make another task fall. Errors are apart from failures: they are told with another
    severity.

    Args:
        fall: As it was proven.
        opened: The falls of the alert that go on.
    """
    is_error = fall.key.kind is Kind.ERROR
    is_whole = not fall.key.task and not fall.key.slice
    return any(
        fall.key[:3] == each.key[:3]
        and is_error is (each.key.kind is Kind.ERROR)
        and (is_whole or fall.since_ns <= each.at_ns + (each.at_ns - each.since_ns))
        for each in opened
    )


def specificity(key: SeriesKey) -> int:
    """Rank series by how narrow they are: a slice before a task, a task before whole records."""
    return 2 if key.slice else 1 if key.task else 0
