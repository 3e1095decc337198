"""Conditions on whole sessions as SQL: outcome, tasks, tags, and the spans of their traces."""

from collections.abc import Iterable
from typing import Final

from collector.store.commit import tag_texts
from collector.store.reads import Values
from collector.store.record_queries import SessionQuery
from collector.store.records import SESSION

# All SQL is put together from this module's own words; values travel as parameters.
# ruff: noqa: S608

SPANS_OF_TRACES: Final = "spans s JOIN traces ON traces.trace_id = s.trace_id"
"""The spans `s` of the sessions `sid`, log events among them."""
RESULTS_OF_LATEST: Final = "task_results t JOIN latest ON latest.evaluation_id = t.evaluation_id"
"""The results `t` of the latest evaluations on the sessions `sid`."""
OF_SPANS: Final = ("tool_name", "response_model")
"""Columns of spans by which sessions are found."""
_N: Final = "BIGINT"


def session_tables(query: SessionQuery, wanted: str, values: Values) -> str:
    """SQL of common table expressions that tell of some sessions.

    Their names: `own` (records), `latest` (evaluations), `outcomes` (those by which a session is
    found) and `traces`; all have the column `sid`, the session's id.

    Args:
        query: Says in which space and as of when.
        wanted: A query for the ids `sid` of the sessions.
        values: Gets the values of parameters.

    Cost: a look at the session ids of all records, and at the keys of all evaluations.
    """
    known = _known(query, values)
    columns = "e.record_uid, e.revision, e.outcome, e.evaluation_id"
    return f"""
        wanted AS MATERIALIZED ({wanted}),
        own AS MATERIALIZED (
            SELECT {SESSION} AS sid, r.uid, r.tags, r.trace_id FROM records r
            WHERE r.{known} AND {SESSION} IN (SELECT sid FROM wanted)
        ),
        latest AS MATERIALIZED (
            SELECT DISTINCT ON (record_uid) sid, record_uid, outcome, evaluation_id FROM (
                SELECT own.sid, {columns} FROM evaluations e JOIN own ON own.uid = e.record_uid
                WHERE e.scope = 'record' AND e.{known}
                UNION ALL
                SELECT e.session_id, {columns} FROM evaluations e
                WHERE e.scope = 'session' AND e.{known}
                  AND e.session_id IN (SELECT sid FROM wanted)
            ) made ORDER BY record_uid, revision DESC
        ),
        told AS (
            SELECT sid, outcome FROM latest
            UNION ALL
            SELECT sid, 'pending' FROM own
            WHERE NOT EXISTS (SELECT 1 FROM latest WHERE latest.record_uid = own.uid)
        ),
        outcomes AS MATERIALIZED (
            SELECT DISTINCT sid, outcome FROM told
            WHERE outcome IN ('failed', 'errored', 'pending')
            UNION ALL
            SELECT sid, CASE WHEN bool_or(outcome = 'passed') THEN 'passed' ELSE 'skipped' END
            FROM told GROUP BY sid HAVING bool_and(outcome IN ('passed', 'skipped'))
        ),
        traces AS MATERIALIZED (
            SELECT DISTINCT sid, trace_id FROM own WHERE trace_id IS NOT NULL
        )"""


def session_conditions(query: SessionQuery, values: Values) -> str:
    """The conditions on sessions `sid` beside these tables, as SQL."""
    found: list[str] = []
    if query.outcome is not None:
        found.append(f"outcomes WHERE outcome = {values.of(query.outcome.value)}")
    if query.task_id is not None or query.task_outcome is not None:
        found.append(f"{RESULTS_OF_LATEST} WHERE {task_conditions(query, values)}")
    if query.tags:
        found.append(f"own WHERE {tag_condition(query.tags, values)}")
    found += [
        f"{SPANS_OF_TRACES} WHERE {span_conditions(query, column, values)}"
        for column in OF_SPANS
        if getattr(query, column) is not None
    ]
    if query.min_duration_ns is not None or query.min_tokens is not None:
        duration = values.of(query.min_duration_ns or 0, _N)
        tokens = values.of(query.min_tokens or 0, _N)
        found.append(
            f"{SPANS_OF_TRACES} WHERE s.is_event = 0 AND s.{_known(query, values)} GROUP BY sid"
            f" HAVING max(s.end_ns) - min(s.start_ns) >= {duration} AND"
            f" coalesce(sum(s.input_tokens), 0) + coalesce(sum(s.output_tokens), 0) >= {tokens}"
        )
    return " AND ".join(f"sid IN (SELECT sid FROM {each})" for each in found) or "true"


def span_conditions(query: SessionQuery, column: str, values: Values) -> str:
    """The filter of spans `s` by one of `OF_SPANS`, as SQL."""
    value = getattr(query, column)
    where = f"s.is_event = 0 AND s.{_known(query, values)} AND s.{column} <> ''"
    return where if value is None else f"{where} AND s.{column} = {values.of(value)}"


def task_conditions(query: SessionQuery, values: Values) -> str:
    """The filter of results `t` by their task, as SQL."""
    where = [f"t.{_known(query, values)}"]
    if query.task_id is not None:
        where.append(f"t.task_id = {values.of(query.task_id)}")
    if query.task_outcome is not None:
        where.append(f"t.outcome = {values.of(query.task_outcome.value)}")
    return " AND ".join(where)


def tag_condition(tags: Iterable[tuple[str, str]], values: Values) -> str:
    """The filter of rows by their column `tags`, as SQL."""
    texts = [text for pair in tags for text in tag_texts(dict([pair]))]
    return f"tags @> {values.of(texts, 'TEXT[]')}"


def _known(query: SessionQuery, values: Values) -> str:
    """What the query is about, as SQL; a table's name and a dot come before it."""
    return f"seq <= {values.of(query.as_of, _N)} AND space = {values.of(query.space)}"
