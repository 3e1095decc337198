"""Stretches of commits as conditions of SQL: DuckDB passes over row groups of other commits."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

LAST: Final = 2**62
"""Behind all commits."""
_RANGES: Final = 32
"""That a query names at most: looking at each row's commit costs more than a few rows in vain."""


class Stretch(NamedTuple):
    """Commits from the first to the last one."""

    first: int
    last: int


def within(stretches: Sequence[Stretch]) -> str:
    """SQL that is true of the commits of some stretches, and maybe of some between them.

    Args:
        stretches: Newest first; neighbours may have a commit in common.
    """
    ranges = _few(stretches)
    return (
        f"({' OR '.join(f'seq BETWEEN {first} AND {last}' for first, last in ranges) or 'false'})"
    )


def within_parameters(stretches: Sequence[Stretch]) -> tuple[str, list[int]]:
    """The same with parameters, and their values: the text is mostly that of an earlier query."""
    ranges = _few(stretches)
    sql = " OR ".join(["seq BETWEEN ? AND ?"] * len(ranges)) or "false"
    return f"({sql})", [bound for each in ranges for bound in each]


def _few(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Few ranges that hold all of some stretches."""
    gaps = [above.first - below.last for above, below in pairwise(stretches)]
    least = max([1, *sorted(gaps, reverse=True)[_RANGES - 1 : _RANGES]])
    ranges: list[Stretch] = []
    for each in stretches:
        if ranges and ranges[-1].first - each.last <= least:
            ranges[-1] = Stretch(each.first, ranges[-1].last)
        else:
            ranges.append(each)
    return ranges
