"""Counts of a list's items by value, from the newest ones backwards for as long as there is time.

A count is the length of the list that the value leaves, if it joins the filter. Commits are looked
at in steps that grow. Each step counts everything anew that it reaches: so one query counts without
having to remember what it has seen, and the steps before the last one cost a seventh of it.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from collector.storage.duckdb.commit_ranges import Stretch, within
from collector.storage.duckdb.database import Database, NoMemoryError
from collector.storage.duckdb.judged_traces import count_judged
from collector.storage.duckdb.read import StoredSpans
from collector.storage.duckdb.search import commit_steps, span_conditions
from collector.storage.port.facets import Facets
from collector.storage.port.search import SpanQuery
from scouter.model.span import StatusCode

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_SERVICE: Final = ("service_name", "service_version", "environment")
_OF_SPANS: Final = (*_SERVICE, "agent_name", "tool_name", "response_model", "error_type")
_STATUS: Final = "status"

_FREE: Final = 2000
"""Rows that are counted whatever the time: to plan a query takes longer."""

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
    reached, size = as_of, 0
    for (step,) in commit_steps(as_of):
        stretch = Stretch(step.first, as_of)
        ((more,),) = database.read(f"SELECT count(*) FROM {table} WHERE {within([stretch])}")
        if size and is_over(more / size) and size >= _FREE:
            return counts, reached
        if more > size:
            try:
                counts = count(stretch)
            except NoMemoryError:
                if not size:
                    raise
                return counts, reached
        reached, size = step.first, more
    return counts, None


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


def read_trace_facets(stored: StoredSpans, query: SpanQuery, is_over: IsOver) -> Facets:
    """Count traces by the values of their matching spans, and by the evaluations on their records.

    Args:
        stored: The spans.
        query: The filter; says as of when. Of `attributes` a span counts that has one with the same
            hash, which one in four thousand million others has.
        is_over: Ends the search.

    Cost: linear in the spans that are looked at.
    """
    where, given = span_conditions(query, None)
    counts, first = count_in_steps(
        stored.database,
        "spans",
        query.as_of or 0,
        is_over,
        lambda stretch: {
            **_by_column(stored.database, where, given, stretch),
            **count_judged(
                stored.database,
                query,
                (f"SELECT trace_hash FROM spans WHERE {within([stretch])} AND {where}", given),
                stretch.first,
            ),
        },
    )
    at = reached_ns(stored.database, "spans", "received_ns", query.space, first)
    return Facets(counts=counts, looked_until_ns=at)


def _by_column(
    database: Database, where: str, given: Sequence[object], stretch: Stretch
) -> Mapping[str, Mapping[str, int]]:
    """Counts by name and value; a query for each column is half as dear as one that unfolds all."""
    columns = {_STATUS: "status::VARCHAR", **{name: name for name in _OF_SPANS}}
    rows = database.read(
        " UNION ALL ".join(
            f"SELECT '{name}', {value} AS value, count(DISTINCT trace_hash) FROM spans"
            f" WHERE {within([stretch])} AND {where} AND {value} <> '' GROUP BY value"
            for name, value in columns.items()
        ),
        [*given] * len(columns),
    )
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, value, count in rows:
        told = StatusCode(int(value)).name.lower() if name == _STATUS else value
        counts[name][told] = count
    return counts
