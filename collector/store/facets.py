"""Counts beside a list: how many of its items have which value.

A count is the length of the list that the value leaves, if it joins the filter. Commits are looked
at from the newest one backwards, in steps that grow, for as long as there is time. Each step counts
everything anew that it reaches: so one query counts without having to remember what it has seen,
and the steps before the last one cost a seventh of it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from collector.store.reads import Reads
from scouter.errors import TransientError

_FREE: Final = 2000
"""Rows that are counted whatever the time: to plan a query takes longer."""
_STEP: Final = 16
"""Commits of the first step."""
_GROWTH: Final = 8
_LEAP: Final = 16
"""Times as many rows that a step looks at as the one before, at most, and twice those that are
free: behind commits without any there may be a million in the next ones."""
_ANY: Final = 2**62
"""More rows than there are."""
TAG: Final = "tag"
"""Name of the counts whose values are tags as the store has them."""

Counts: TypeAlias = Mapping[str, Mapping[str, int]]
IsOver: TypeAlias = Callable[[float], bool]
"""Is called before each step, but the first, with how many times as many rows the step looks at as
the one before; if it is true of a step behind the first 2,000 rows, the counts so far are the
answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """Counts by name of a filter and by value, as far as they were taken."""

    counts: Counts
    """An item counts once for each of its values; the empty value is left out."""
    looked_until_ns: int | None
    """Only what was stored from about then on is counted; None where everything is."""


def counts_of(rows: Iterable[tuple[str, str | None, int]]) -> Counts:
    """Counts by name and value, made of rows of both and a number; no value is left out."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, value, n in rows:
        if name == TAG and value is not None:
            if not value.startswith("="):  # as a filter takes it
                counts[TAG][value] += n
        elif value:
            counts[name][value] += n
    return counts


def count_in_steps(
    reads: Reads,
    table: str,
    time: str,
    space: str,
    as_of: int,
    is_over: IsOver,
    count: Callable[[int], Counts],
) -> Facets:
    """Count the newest rows of a table, then more and more of them.

    Args:
        reads: Answers the queries.
        table: Its rows tell how much a step looks at.
        time: The column that tells how far the counts reach.
        space: Of the rows.
        as_of: The last commit that counts.
        is_over: Ends the search.
        count: Counts what the commits from one on hold, up to `as_of`.
    """
    counts: Counts = {}
    reached, size, width = as_of + 1, 0, _STEP
    while reached > 0:
        first, most = max(0, reached - width), max(_LEAP * size, 2 * _FREE)
        more = _rows(reads, table, first, as_of, most)
        while more > most and first < reached - 1:
            first = (first + reached) // 2
            more = _rows(reads, table, first, as_of, most)
        if more > most:  # all of one commit
            more = _rows(reads, table, first, as_of, _ANY)
        if size and is_over(more / size) and size >= _FREE:
            return _partial(reads, table, time, space, reached, counts)
        if more > size:
            try:
                counts = count(first)
            except TransientError:  # no memory for so many
                if not size:
                    raise
                return _partial(reads, table, time, space, reached, counts)
        reached, size, width = first, more, (reached - first) * _GROWTH
    return Facets(counts=counts, looked_until_ns=None)


def _rows(reads: Reads, table: str, first: int, last: int, most: int) -> int:
    """Rows of some commits; one more than most of them stands for any number above."""
    rows = f"SELECT 1 FROM {table} WHERE seq BETWEEN $1 AND $2 LIMIT $3::BIGINT"
    ((count,),) = reads.read(f"SELECT count(*) FROM ({rows}) r", [first, last, most + 1])
    return count


def _partial(reads: Reads, table: str, time: str, space: str, first: int, counts: Counts) -> Facets:
    """Counts from a commit on, with the time of the first one from then on with rows of a space.

    Where there is none, it is the time of the last one before. None where there is none either:
    then everything is counted.
    """
    for earliest, of_commits in (("min", "seq >= $1"), ("max", "seq < $1")):
        sql = (
            f"SELECT {earliest}({time}) FROM {table} WHERE space = $2 AND seq = ("
            f"SELECT {earliest}(seq) FROM {table} WHERE space = $2 AND {of_commits})"
        )
        ((at,),) = reads.read(sql, [first, space])
        if at is not None:
            return Facets(counts=counts, looked_until_ns=at)
    return Facets(counts=counts, looked_until_ns=None)
