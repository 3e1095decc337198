"""Counts of evaluations by value: outcome, profile, task, service and tag."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from collector.storage.duckdb.commit_ranges import Stretch, within
from collector.storage.duckdb.database import Database, literal
from collector.storage.duckdb.evaluations import (
    conditions,
    evaluation_conditions,
    profile_filter,
    service_filters,
    task_conditions,
)
from collector.storage.duckdb.facets import Counts, IsOver, count_in_steps, reached_ns
from collector.storage.duckdb.stored_keys import TRACE_HASH
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.facets import Facets

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_SERVICE: Final = ("service_name", "service_version", "environment")
_NAMES: Final = ", ".join(_SERVICE)
_TRACE_HASH: Final = f"{TRACE_HASH}::BIT::BIGINT"
_NOT_OF_RESULTS: Final = (*_SERVICE, "outcome", "record_id", "session_id", "trace_id", "tags")
"""Filters that the results of tasks cannot answer by themselves."""
_Part: TypeAlias = tuple[str, list[object]]
"""SQL, and its values."""


def read_evaluation_facets(database: Database, query: EvaluationQuery, is_over: IsOver) -> Facets:
    """Count evaluations by outcome, profile, task, service and tag.

    Args:
        database: The open file.
        query: The filter; says as of when.
        is_over: Ends the search.

    Cost: linear in the evaluations that are looked at, 0.1 µs for each; where a filter is one that
        results of tasks do not have, 0.5 µs; and where some of them looked at no spans, linear in
        the spans of the store.
    """
    counts, first = count_in_steps(
        database,
        "evaluations",
        query.as_of or 0,
        is_over,
        lambda stretch: _count(database, query, stretch),
    )
    at = reached_ns(database, "evaluations", "evaluated_ns", query.space, first)
    return Facets(counts=counts, looked_until_ns=at)


def _count(database: Database, query: EvaluationQuery, stretch: Stretch) -> Counts:
    if len(dict(query.tags)) < len(set(query.tags)):
        return {}  # one key with two values
    where, given = _chosen(database, query, stretch)
    rows = database.read(
        f"SELECT e.tags, e.reads_spans, e.outcome, e.alias, {_NAMES}, count(*)"
        f" FROM evaluations e WHERE {where} GROUP BY ALL",
        given,
    )
    if query.tags:  # the condition has looked for the text of the tag alone
        wanted = dict(query.tags).items()
        rows = [row for row in rows if wanted <= json.loads(row[0]).items()]
        where += " AND e.tags IN (SELECT unnest(?::VARCHAR[]))"
        given = [*given, sorted({row[0] for row in rows})]
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, value, n in (
        *_by_group(query, rows),
        *(_by_unread(database, query, (where, given)) if not all(row[1] for row in rows) else ()),
        *(("task_id", *each) for each in _by_task(database, query, stretch, (where, given))),
    ):
        if value:
            counts[name][value] += n
    return counts


def _by_group(
    query: EvaluationQuery, rows: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[str, str, int]]:
    """By all that an evaluation itself tells."""
    asked = {name: getattr(query, name) for name in _SERVICE if getattr(query, name) is not None}
    for tags, reads_spans, outcome, alias, *service, n in rows:
        yield "outcome", outcome, n
        yield "profile", alias, n
        for key, value in json.loads(tags or "{}").items():
            if key and "=" not in key:  # the filter cannot take others
                yield "tag", f"{key}={value}", n
        own = dict(zip(_SERVICE, service, strict=True))
        if reads_spans and asked.items() <= own.items():
            yield from ((name, value, n) for name, value in own.items())


def _chosen(database: Database, query: EvaluationQuery, stretch: Stretch) -> _Part:
    """The evaluations `e` of some commits that the filter names, as a condition."""
    where, given = evaluation_conditions(query, None, profile_filter(database, query.profile))
    parts = [within([stretch]), where, *_latest(database, query, stretch)]
    known = service_filters(query, "e")
    if known:
        own, values = conditions(*known)
        given += values
        if _has_unread(database, query, stretch):
            in_span, values = conditions(("s.space = ?", query.space), *service_filters(query, "s"))
            own += (
                f" OR NOT e.reads_spans AND {_TRACE_HASH} IN"
                f" (SELECT s.trace_hash FROM spans s WHERE {in_span})"
            )
            given += values
        parts.append(f"({own})")
    if query.task_id is not None or query.task_outcome is not None:
        of_task, values = _task_part(database, query, stretch)
        parts.append(f"e.evaluation_id IN (SELECT e.evaluation_id FROM task_results e {of_task})")
        given += values
    return " AND ".join(parts), given


def _latest(database: Database, query: EvaluationQuery, stretch: Stretch) -> Sequence[str]:
    """The condition that no later revision is known; none where nothing was evaluated again."""
    again = (
        f"newer.revision > 1 AND newer.seq BETWEEN {stretch.first} AND {query.as_of}"
        f" AND newer.space = {literal(query.space)}"
    )
    if not database.read(f"SELECT 1 FROM evaluations newer WHERE {again} LIMIT 1"):
        return ()
    return (
        f"NOT EXISTS (SELECT 1 FROM evaluations newer WHERE {again}"
        " AND newer.record_uid = e.record_uid AND newer.revision > e.revision)",
    )


def _has_unread(database: Database, query: EvaluationQuery, stretch: Stretch) -> bool:
    """Say whether some evaluation has looked at no spans, and does not know its service."""
    return bool(
        database.read(
            "SELECT 1 FROM evaluations e WHERE NOT e.reads_spans AND e.space = ?"
            f" AND {within([stretch])} LIMIT 1",
            [query.space],
        )
    )


def _task_part(database: Database, query: EvaluationQuery, stretch: Stretch) -> _Part:
    where, given = task_conditions(query, None, profile_filter(database, query.profile))
    return f"WHERE {within([stretch])} AND {where}", given


def _by_task(
    database: Database, query: EvaluationQuery, stretch: Stretch, chosen: _Part
) -> list[tuple[str, int]]:
    """By task: an evaluation has one result of each."""
    of_task, given = _task_part(database, query, stretch)
    if any(getattr(query, name) not in (None, ()) for name in _NOT_OF_RESULTS):
        where, values = chosen
        more = [f"e.evaluation_id IN (SELECT e.evaluation_id FROM evaluations e WHERE {where})"]
        given = [*given, *values]
    else:
        more = list(_latest(database, query, stretch))
    return database.read(
        f"SELECT e.task_id, count(*) FROM task_results e {' AND '.join([of_task, *more])}"
        " GROUP BY e.task_id",
        given,
    )


def _by_unread(
    database: Database, query: EvaluationQuery, chosen: _Part
) -> list[tuple[str, str, int]]:
    """By service, those that looked at no spans: the spans of their traces tell it."""
    where, given = chosen
    asked, values = conditions(*service_filters(query, "t"))
    return database.read(
        f"WITH e AS MATERIALIZED (SELECT evaluation_id, {_NAMES}, {_TRACE_HASH} AS trace_hash"
        f" FROM evaluations e WHERE NOT e.reads_spans AND {where}),"
        f" s AS (SELECT DISTINCT trace_hash, {_NAMES} FROM spans"
        " WHERE space = ? AND trace_hash IN (SELECT trace_hash FROM e)),"
        f" t AS (SELECT evaluation_id, {_NAMES} FROM e UNION ALL"
        f" SELECT e.evaluation_id, s.{', s.'.join(_SERVICE)} FROM e JOIN s USING (trace_hash))"
        " SELECT name, value, count(DISTINCT evaluation_id) FROM (SELECT evaluation_id,"
        f" unnest({list(_SERVICE)}) AS name, unnest([{_NAMES}]) AS value FROM t"
        f" WHERE {asked or 'true'}) GROUP BY ALL",
        [*given, query.space, *values],
    )
