"""Counts of a list's items by value, from the newest ones backwards for as long as there is time.

A count is the length of the list that the value leaves, if it joins the filter.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from collector.storage.duckdb.commit_ranges import Stretch, within
from collector.storage.duckdb.database import Database
from collector.storage.duckdb.evaluations import (
    EvaluationPlace,
    conditions,
    newest_evaluations,
    service_filters,
)
from collector.storage.duckdb.read import StoredSpans
from collector.storage.duckdb.search import commit_steps, span_conditions
from collector.storage.port.facets import Facets
from collector.storage.port.lists import EvaluationQuery
from collector.storage.port.search import SpanQuery
from scouter.model.span import StatusCode

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_SERVICE: Final = ("service_name", "service_version", "environment")
_OF_SPANS: Final = (*_SERVICE, "agent_name", "tool_name", "response_model", "error_type")
_STATUS: Final = "status"
_TAG: Final = "tag"
_FIRST: Final = 2000
"""Evaluations that are looked at before anybody asks for the time."""


def read_evaluation_facets(
    database: Database, query: EvaluationQuery, is_over: Callable[[], bool]
) -> Facets:
    """Count evaluations by outcome, profile, task, service and tag.

    Args:
        database: The open file.
        query: The filter; says as of when.
        is_over: Is asked between two parts; if it is true the counts so far are the answer.

    Cost: linear in the evaluations that are looked at, and where some of a part looked at no spans
    in the spans of the store.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    reached: int | None = None
    for part in newest_evaluations(database, replace(query, limit=_FIRST, before=None)):
        if not part:
            continue
        if reached is not None and is_over():
            at = _evaluated_at(database, query, reached)
            return Facets(counts=counts, looked_until_ns=at)
        reached = part[-1].seq
        counts[_TAG].update(_tags(part))
        ids = [each.evaluation_id for each in part]
        stretch = Stretch(reached, part[0].seq)
        for rows in (
            _by_result(database, query, ids, stretch),
            _by_service(database, query, ids, stretch),
        ):
            for name, value, count in rows:
                counts[name][value] += count
    return Facets(counts=counts, looked_until_ns=None)


def _tags(part: Iterable[EvaluationPlace]) -> Iterator[str]:
    """Tags as the filter takes them; a key that is empty or holds `=` it cannot take."""
    for each in part:
        for key, value in json.loads(each.tags or "{}").items():
            if key and "=" not in key:
                yield f"{key}={value}"


def read_trace_facets(
    stored: StoredSpans, query: SpanQuery, is_over: Callable[[float], bool]
) -> Facets:
    """Count traces by the values of their matching spans.

    Args:
        stored: The spans.
        query: The filter; says as of when. Of `attributes` a span counts that has one with the same
            hash, which one in four thousand million others has.
        is_over: Is asked before each step, with how many times as many spans the step looks at as
            the one before; if it is true the counts so far are the answer.

    Cost: linear in the spans that are looked at.
    """
    where, given = span_conditions(query, None)
    counts: Mapping[str, Mapping[str, int]] = {}
    last = first = query.as_of or 0
    size = 0
    for (step,) in commit_steps(replace(query, before=None), 0):
        more = _spans(stored.database, Stretch(step.first, last))
        if size and is_over(more / size):
            return Facets(counts=counts, looked_until_ns=_received_at(stored, query, first))
        if more > size:
            counts = _by_column(stored.database, where, given, Stretch(step.first, last))
        first, size = step.first, more
    return Facets(counts=counts, looked_until_ns=None)


def _spans(database: Database, stretch: Stretch) -> int:
    return database.read(f"SELECT count(*) FROM spans WHERE {within([stretch])}")[0][0]


def _by_result(
    database: Database, query: EvaluationQuery, ids: Sequence[str], stretch: Stretch
) -> list[tuple[str, str, int]]:
    of_task, values = conditions(
        ("e.space = ?", query.space), ("e.task_id = ?", query.task_id),
        ("e.outcome = ?", query.task_outcome and query.task_outcome.value),
    )  # fmt: skip
    return database.read(
        "WITH k AS (SELECT unnest(?::VARCHAR[]) AS id)"
        " SELECT name, value, count(*) FROM (SELECT unnest(['outcome', 'profile']) AS name,"
        " unnest([e.outcome, e.alias]) AS value FROM evaluations e"
        f" SEMI JOIN k ON k.id = e.evaluation_id WHERE {within([stretch])} AND e.space = ?)"
        " WHERE value <> '' GROUP BY ALL UNION ALL"
        " SELECT 'task_id', e.task_id, count(DISTINCT e.evaluation_id) FROM task_results e"
        f" SEMI JOIN k ON k.id = e.evaluation_id WHERE {within([stretch])} AND {of_task}"
        " GROUP BY ALL",
        [list(ids), query.space, *values],
    )


def _by_service(
    database: Database, query: EvaluationQuery, ids: Sequence[str], stretch: Stretch
) -> list[tuple[str, str, int]]:
    """By service: an evaluation's own, or those of the spans of its trace."""
    names = ", ".join(_SERVICE)
    asked, values = conditions(*service_filters(query, "t"))
    return database.read(
        "WITH k AS (SELECT unnest(?::VARCHAR[]) AS id),"
        f" e AS (SELECT evaluation_id, {names},"
        " CASE WHEN NOT reads_spans THEN trace_id END AS trace_id FROM evaluations e"
        f" SEMI JOIN k ON k.id = e.evaluation_id WHERE {within([stretch])} AND e.space = ?),"
        f" s AS (SELECT DISTINCT trace_id, {names} FROM spans WHERE space = ? AND trace_id IN"
        " (SELECT trace_id FROM e WHERE trace_id IS NOT NULL)),"
        f" t AS (SELECT evaluation_id, {names} FROM e UNION ALL"
        f" SELECT e.evaluation_id, s.{', s.'.join(_SERVICE)} FROM e JOIN s USING (trace_id))"
        f" SELECT name, value, count(DISTINCT evaluation_id) FROM (SELECT evaluation_id,"
        f" unnest({list(_SERVICE)}) AS name, unnest([{names}]) AS value FROM t"
        f" WHERE {asked or 'true'}) WHERE value <> '' GROUP BY ALL",
        [list(ids), query.space, query.space, *values],
    )


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


def _evaluated_at(database: Database, query: EvaluationQuery, seq: int) -> int | None:
    sql = "SELECT min(evaluated_ns) FROM evaluations WHERE seq >= ? AND space = ?"
    return database.read(sql, [seq, query.space])[0][0]


def _received_at(stored: StoredSpans, query: SpanQuery, first: int) -> int | None:
    """Arrival of the spans of the first commit from one on."""
    sql = "SELECT min(received_ns) FROM spans WHERE seq >= ? AND space = ?"
    return stored.database.read(sql, [first, query.space])[0][0]
