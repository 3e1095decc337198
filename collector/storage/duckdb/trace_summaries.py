"""Traces in one line each: their spans, and the evaluations on their records, counted."""

from collections.abc import Sequence
from typing import Any, Final

from collector.storage.duckdb.commit_ranges import within
from collector.storage.duckdb.database import Query
from collector.storage.duckdb.read import StoredSpans
from collector.storage.log.span_codec import IS_SPAN, trace_hash
from collector.store.span_queries import TraceRecords, TraceSummary
from scouter.evaluate.outcome import Outcome
from scouter.model.span import StatusCode

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_CALLS: Final = 200
"""Tool calls of a trace that are looked at, the first ones."""


def read_summaries(
    stored: StoredSpans, space: str, trace_ids: Sequence[str]
) -> dict[str, TraceSummary]:
    """Traces by id, counted over all of their spans and records.

    Cost: a look at the commits that have them, about 10 ms.
    """
    if not trace_ids:
        return {}
    hashes = list(map(trace_hash, trace_ids))
    of_root = ", ".join(
        f"coalesce(arg_min({name}, start_ns) FILTER (parent_span_id IS NULL),"
        f" arg_min({name}, start_ns))"
        for name in ("name", "service_name", "service_version")
    )
    of_spans = Query(
        f"""
        SELECT trace_id, {of_root},
            min(start_ns), max(end_ns), count(*), count(*) FILTER (status = ?),
            sum(input_tokens)::BIGINT, sum(output_tokens)::BIGINT,
            list(tool_name ORDER BY start_ns) FILTER (tool_name <> '')[:{_CALLS}]
        FROM spans
        SEMI JOIN (SELECT unnest(?::BIGINT[]) AS trace_hash) k USING (trace_hash)
        WHERE {within(stored.traces.stretches(hashes))} AND space = ? AND {IS_SPAN}
        GROUP BY trace_id
        """,
        [StatusCode.ERROR.value, hashes, space],
    )
    rows, evaluated = stored.database.read_both(of_spans, _evaluated(stored, space, trace_ids))
    records = {trace_id: _records(*told) for trace_id, *told in evaluated}
    fields = tuple(TraceSummary.__dataclass_fields__)
    found: dict[str, TraceSummary] = {}
    for row in rows:
        tools = tuple(dict.fromkeys(row[-1] or ()))
        values: tuple[Any, ...] = (*row[:-1], tools, records.get(row[0]), None)
        found[row[0]] = TraceSummary(**dict(zip(fields, values, strict=True)))
    return {each: found[each] for each in trace_ids if each in found}  # a hash may be another's


def _evaluated(stored: StoredSpans, space: str, trace_ids: Sequence[str]) -> Query:
    """A query for the evaluated records of some traces, by the latest evaluation of each."""
    commits = within(stored.evaluation_traces.stretches(map(trace_hash, trace_ids)))
    return Query(
        f"""
        SELECT trace_id, arg_max(record_uid, seq), arg_max(record_id, seq), count(*),
            list(DISTINCT outcome)
        FROM (
            SELECT e.trace_id, e.record_uid, max(e.seq) AS seq,
                arg_max(e.record_id, e.revision) AS record_id,
                arg_max(e.outcome, e.revision) AS outcome
            FROM evaluations e
            SEMI JOIN (SELECT unnest(?::VARCHAR[]) AS trace_id) k ON k.trace_id = e.trace_id
            WHERE {commits} AND e.space = ?
            GROUP BY e.trace_id, e.record_uid
        ) GROUP BY trace_id
        """,
        [list(trace_ids), space],
    )


def _records(uid: str, record_id: str, count: int, outcomes: Sequence[str]) -> TraceRecords:
    told = tuple(each for each in Outcome if each.value in outcomes)
    return TraceRecords(uid=uid, record_id=record_id, count=count, outcomes=told)
