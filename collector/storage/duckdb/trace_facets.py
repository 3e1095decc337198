"""Counts of traces by the values of their spans."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from collector.storage.duckdb.commit_ranges import Stretch, within
from collector.storage.duckdb.database import Database
from collector.storage.duckdb.facets import Counts, IsOver, count_in_steps, reached_ns
from collector.storage.duckdb.judged_traces import count_judged
from collector.storage.duckdb.read import StoredSpans
from collector.storage.duckdb.search import span_conditions
from collector.storage.duckdb.value_bits import MOST_VALUES, Numbers, Texts, count_keys
from collector.storage.port.facets import Facets
from collector.storage.port.search import SpanQuery
from scouter.model.span import StatusCode

# All SQL is put together from this module's own words; values always travel as parameters.

_STATUS: Final = "status"
_COLUMNS: Final = (
    "service_name", "service_version", "environment", "agent_name", "tool_name", "response_model",
    "error_type",
)  # fmt: skip


def read_trace_facets(stored: StoredSpans, query: SpanQuery, is_over: IsOver) -> Facets:
    """Count traces by the values of their matching spans, and by the evaluations on their records.

    Args:
        stored: The spans.
        query: The filter; says as of when. Of `attributes` a span counts that has one with the same
            hash, which one in four thousand million others has.
        is_over: Ends the search.

    Cost: linear in the spans that are looked at, 0.07 µs for each.
    """
    where, given = span_conditions(query, None)
    counts, first = count_in_steps(
        stored.database,
        "spans",
        query.as_of or 0,
        is_over,
        lambda stretch: _of_stretch(stored.database, query, (where, given), stretch),
    )
    at = reached_ns(stored.database, "spans", "received_ns", query.space, first)
    return Facets(counts=counts, looked_until_ns=at)


def _of_stretch(
    database: Database, query: SpanQuery, conditions: tuple[str, Sequence[object]], stretch: Stretch
) -> Counts:
    """Counts of a stretch of commits, in whose spans the conditions hold."""
    where, given = conditions
    spans = f"FROM spans WHERE {within([stretch])} AND {where}"
    traces = f"SELECT trace_hash {spans}", [*given]
    return {
        **_count(database, spans, given),
        **count_judged(database, query, traces, stretch.first),
    }


def _count(database: Database, spans: str, given: Sequence[object]) -> Counts:
    """Counts by column and value, of spans that some SQL selects with its values."""
    known = _values(database, spans, given)
    few = [
        Texts(name, (name,), values) for name, values in known.items() if len(values) <= MOST_VALUES
    ]
    status = Numbers(_STATUS, _STATUS, [each.name.lower() for each in sorted(StatusCode)])
    counts = count_keys(database, "trace_hash", spans, given, [status, *few])
    for name in known.keys() - {each.name for each in few}:
        rows = database.read(
            f"SELECT {name}, count(DISTINCT trace_hash) {spans} AND {name} <> '' GROUP BY {name}",
            given,
        )
        counts[name] = dict(rows)
    return counts


def _values(database: Database, spans: str, given: Sequence[object]) -> Mapping[str, Sequence[str]]:
    """The values of each column that has some."""
    names, sets = ", ".join(_COLUMNS), ", ".join(f"({name})" for name in _COLUMNS)
    rows = database.read(f"SELECT {names} {spans} GROUP BY GROUPING SETS ({sets})", given)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:  # of one column; the others are NULL
        for name, value in zip(_COLUMNS, row, strict=True):
            if value:
                found[name].append(value)
    return found
