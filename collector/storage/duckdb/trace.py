"""One trace with the evaluations on its records."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from collector.storage.duckdb.commit_ranges import within_parameters
from collector.storage.duckdb.database import Query
from collector.storage.duckdb.read import StoredSpans, read_whole_evaluations
from collector.storage.log.span_codec import READ_COLUMNS, decode_spans, trace_hash
from collector.store.evaluation_codec import decode_evaluation
from collector.store.rows import EvaluationRow, StoredTrace

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_SPAN: Final = ", ".join(READ_COLUMNS)


def read_trace(stored: StoredSpans, space: str, trace_id: str, limit: int) -> StoredTrace:
    """All spans of a trace, and the latest evaluation on each of its records.

    A record has one trace, so what was superseded is seen from the evaluations themselves.
    """
    stretches = stored.evaluation_traces.stretches([trace_hash(trace_id)])
    of_evaluations, bounds = within_parameters(stretches)
    is_evaluation = f"{of_evaluations} AND e.trace_id = ? AND e.space = ?"
    of_trace = (*bounds, trace_id, space)
    wanted = Query(
        f"SELECT e.seq, e.ordinal, e.body FROM evaluations e WHERE {is_evaluation} LIMIT ?",
        (*of_trace, limit + 1),
    )
    rows, evaluations = stored.database.read_both(_of_trace(stored, space, trace_id), wanted)
    return StoredTrace(
        spans=[  # a hash may be another's
            span for span in decode_spans(rows, stored.log) if span.trace_id == trace_id
        ],
        evaluations=_latest(
            _newest_first(evaluations)
            if len(evaluations) <= limit
            else read_whole_evaluations(stored.database, is_evaluation, of_trace, limit)
        ),
    )


def _of_trace(stored: StoredSpans, space: str, trace_id: str) -> Query:
    number = trace_hash(trace_id)
    of_spans, bounds = within_parameters(stored.traces.stretches([number]))
    return Query(
        f"SELECT {_SPAN} FROM spans WHERE {of_spans} AND trace_hash = ? AND space = ?",
        (*bounds, number, space),
    )


def _newest_first(rows: Sequence[tuple[Any, ...]]) -> list[EvaluationRow]:
    return [decode_evaluation(row[-1]) for row in sorted(rows, key=itemgetter(0, 1), reverse=True)]


def _latest(evaluations: Sequence[EvaluationRow]) -> tuple[EvaluationRow, ...]:
    """Without those that a later one of their record superseded."""
    latest: dict[str, int] = {}
    for row in evaluations:
        latest[row.record_uid] = max(row.revision, latest.get(row.record_uid, 0))
    return tuple(row for row in evaluations if row.revision == latest[row.record_uid])
