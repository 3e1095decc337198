"""Counts of a list's items by value, from the newest ones backwards for as long as there is time.

A count is the length of the list that the value leaves, if it joins the filter. Commits are looked
at in steps that grow. Each step counts everything anew that it reaches: so one query counts without
having to remember what it has seen, and the steps before the last one cost a seventh of it.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from collector.storage.duckdb.commit_ranges import Stretch, within
from collector.storage.duckdb.database import Database, NoMemoryError

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_FREE: Final = 2000
"""Rows that are counted whatever the time: to plan a query takes longer."""
_STEP: Final = 16
"""Commits of the first step."""
_GROWTH: Final = 8
_LEAP: Final = 16
"""Times as many rows that a step looks at as the one before, at most: behind commits without any
there may be a million in the next ones."""

Counts: TypeAlias = Mapping[str, Mapping[str, int]]
IsOver: TypeAlias = Callable[[float], bool]
"""Is asked before each step, but the first, with how many times as many rows the step looks at as
the one before; if it is true of a step behind the first 2,000 rows, the counts so far are the
answer."""


def count_in_steps(
    database: Database,
    table: str,
    as_of: int,
    is_over: IsOver,
    count: Callable[[Stretch], Counts],
) -> tuple[Counts, int | None]:
    """Count the newest rows of a table, then more and more of them.

    Args:
        database: The open file.
        table: Its rows tell how much a step looks at.
        as_of: The last commit that counts.
        is_over: Ends the search.
        count: Counts what some commits hold.

    Returns:
        The counts, and the first commit that they cover; None where they cover all. They also end
        before a step for which there is no memory.
    """
    counts: Counts = {}
    reached, size, width = as_of + 1, 0, _STEP
    while reached > 0:
        first = max(0, reached - width)
        more = _rows(database, table, first, as_of)
        while more > _LEAP * max(size, _FREE) and first < reached - 1:
            first = (first + reached) // 2
            more = _rows(database, table, first, as_of)
        if size and is_over(more / size) and size >= _FREE:
            return counts, reached
        if more > size:
            try:
                counts = count(Stretch(first, as_of))
            except NoMemoryError:
                if not size:
                    raise
                return counts, reached
        reached, size, width = first, more, (reached - first) * _GROWTH
    return counts, None


def _rows(database: Database, table: str, first: int, last: int) -> int:
    ((count,),) = database.read(
        f"SELECT count(*) FROM {table} WHERE {within([Stretch(first, last)])}"
    )
    return count


def reached_ns(
    database: Database, table: str, column: str, space: str, first: int | None
) -> int | None:
    """The time from which on a space's rows are counted, if those from a commit on are.

    Where none of these is the space's, it is the time of the newest one before. None where there is
    none either, or where `first` is None: then everything is counted.
    """
    if first is None:
        return None
    of_space = f"SELECT %s({column}) FROM {table} WHERE space = $2 AND seq %s $1"
    earliest, newest = of_space % ("min", ">="), of_space % ("max", "<")
    sql = f"SELECT coalesce(({earliest}), ({newest}))"
    return database.read(sql, [first, space])[0][0]
