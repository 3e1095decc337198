"""Conditions on whole sessions as SQL: outcome, tasks, tags, and the spans of their traces."""

from typing import Final

from collector.storage.duckdb.database import literal
from collector.storage.duckdb.evaluations import conditions
from collector.storage.duckdb.stored_keys import TRACE_HASH
from collector.storage.duckdb.tag_counts import tag_conditions
from collector.storage.log.span_codec import IS_SPAN
from collector.store.record_queries import SessionQuery

# All SQL is put together from this module's own words; values travel as parameters, or as `literal`
# writes them.
# ruff: noqa: S608

SESSION: Final = "coalesce(nullif(r.session_id, ''), r.uid)"
"""The session of a record `r`."""
SID: Final = f"hash({SESSION})"
"""The number by which queries know it: a fifth of the memory that a text takes."""
SPANS_OF_TRACES: Final = "spans s JOIN traces ON traces.trace_hash = s.trace_hash"
"""The spans `s` of the sessions `sid`, log events among them."""
OF_SPANS: Final = ("tool_name", "response_model")
"""Columns of spans by which sessions are found."""


def session_tables(query: SessionQuery, wanted: str) -> str:
    """SQL of common table expressions that tell of some sessions.

    Their names: `own` (records), `latest` (evaluations), `outcomes` (those by which a session is
    found) and `traces`; all have the column `sid`.

    Args:
        query: Says in which space and as of when.
        wanted: A query for the numbers `sid` of the sessions.

    Cost: a look at the session ids of all records, and at the keys of all evaluations.
    """
    known = f"space = {literal(query.space)} AND seq <= {query.as_of:d}"
    columns = "e.uid_hash, e.revision, e.outcome, e.evaluation_id"
    return f"""
        wanted AS MATERIALIZED ({wanted}),
        own AS MATERIALIZED (
            SELECT {SID} AS sid, r.uid_hash, r.tags, {TRACE_HASH}::BIT::BIGINT AS trace_hash
            FROM records r WHERE {known} AND {SID} IN (SELECT sid FROM wanted)
        ),
        latest AS MATERIALIZED (
            SELECT sid, uid_hash, arg_max(outcome, revision) AS outcome,
                arg_max(evaluation_id, revision) AS evaluation_id
            FROM (
                SELECT own.sid, {columns} FROM evaluations e JOIN own ON own.uid_hash = e.uid_hash
                WHERE e.scope = 'record' AND {known}
                UNION ALL SELECT hash(e.session_id) AS sid, {columns} FROM evaluations e
                WHERE e.scope = 'session' AND {known}
                  AND hash(e.session_id) IN (SELECT sid FROM wanted)
            ) GROUP BY sid, uid_hash
        ),
        told AS (
            SELECT sid, outcome FROM latest
            UNION ALL SELECT sid, 'pending' FROM own
            WHERE uid_hash NOT IN (SELECT uid_hash FROM latest)
        ),
        outcomes AS MATERIALIZED (
            SELECT DISTINCT sid, outcome FROM told
            WHERE outcome IN ('failed', 'errored', 'pending')
            UNION ALL
            SELECT sid, CASE WHEN bool_or(outcome = 'passed') THEN 'passed' ELSE 'skipped' END
            FROM told GROUP BY sid HAVING bool_and(outcome IN ('passed', 'skipped'))
        ),
        traces AS MATERIALIZED (
            SELECT DISTINCT sid, trace_hash FROM own WHERE trace_hash IS NOT NULL
        )"""


def session_conditions(query: SessionQuery) -> tuple[str, list[object]]:
    """The conditions on sessions `sid` beside these tables, as SQL, and their values."""
    where, given = ["true"], list[object]()

    def add(sql: str, *values: object) -> None:
        where.append(f"sid IN (SELECT sid FROM {sql})")
        given.extend(values)

    if query.outcome is not None:
        add("outcomes WHERE outcome = ?", query.outcome.value)
    if query.task_id is not None or query.task_outcome is not None:
        sql, values = task_conditions(query)
        add(f"task_results t JOIN latest USING (evaluation_id) WHERE {sql}", *values)
    if query.tags:
        sql, values = tag_conditions(query.tags)
        add(f"own WHERE {sql}", *values)
    for column in OF_SPANS:
        if getattr(query, column) is not None:
            sql, values = span_conditions(query, column)
            add(f"{SPANS_OF_TRACES} WHERE {sql}", *values)
    if query.min_duration_ns is not None or query.min_tokens is not None:
        add(
            f"{SPANS_OF_TRACES} WHERE {_of_spans(query)} GROUP BY sid"
            " HAVING max(s.end_ns) - min(s.start_ns) >= ?"
            " AND coalesce(sum(s.input_tokens), 0) + coalesce(sum(s.output_tokens), 0) >= ?",
            query.min_duration_ns or 0,
            query.min_tokens or 0,
        )
    return " AND ".join(where), given


def span_conditions(query: SessionQuery, column: str) -> tuple[str, list[object]]:
    """The filter of spans `s` by one of `OF_SPANS`, as SQL, and its values."""
    value = getattr(query, column)
    where = f"{_of_spans(query)} AND s.{column} <> ''"
    return (where, []) if value is None else (f"{where} AND s.{column} = ?", [value])


def _of_spans(query: SessionQuery) -> str:
    return f"s.space = {literal(query.space)} AND s.seq <= {query.as_of:d} AND s.{IS_SPAN}"


def task_conditions(query: SessionQuery) -> tuple[str, list[object]]:
    """The filter of results `t` by their task, as SQL, and its values."""
    return conditions(
        ("t.space = ?", query.space),
        ("t.task_id = ?", query.task_id),
        ("t.outcome = ?", query.task_outcome and query.task_outcome.value),
    )
