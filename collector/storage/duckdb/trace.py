"""One trace with the verdicts on its records."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from collector.storage.duckdb.block_filters import within_parameters
from collector.storage.duckdb.database import Query, Rows
from collector.storage.duckdb.read import StoredSpans, read_verdicts
from collector.storage.duckdb.task_codec import decode_verdict
from collector.storage.log.span_codec import READ_COLUMNS, decode_spans, trace_hash
from collector.storage.port.rows import EvaluationRow, StoredTrace

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_SPAN: Final = ", ".join(READ_COLUMNS)


def read_trace(stored: StoredSpans, space: str, trace_id: str, limit: int) -> StoredTrace:
    """All spans of a trace, and the latest verdict on each of its records.

    A record has one trace, so what was superseded is seen from the verdicts themselves.
    """
    stretches = stored.filters.of_traces(space, [trace_id], "evaluations")
    of_verdicts, bounds = within_parameters(stretches)
    is_verdict = f"{of_verdicts} AND e.trace_id = ? AND e.space = ?"
    of_trace = (*bounds, trace_id, space)
    wanted = Query(
        f"SELECT e.seq, e.ordinal, e.body FROM evaluations e WHERE {is_verdict} LIMIT ?",
        (*of_trace, limit + 1),
    )
    rows = _looked_up(stored, space, trace_id)
    if rows is None:
        rows, verdicts = stored.database.read_both(_of_trace(stored, space, trace_id), wanted)
    else:
        verdicts = stored.database.read(*wanted)
    return StoredTrace(
        spans=[  # a hash may be another's
            span for span in decode_spans(rows, stored.log) if span.trace_id == trace_id
        ],
        verdicts=_latest(
            _newest_first(verdicts)
            if len(verdicts) <= limit
            else read_verdicts(stored.database, is_verdict, of_trace, limit)
        ),
    )


def _looked_up(stored: StoredSpans, space: str, trace_id: str) -> Rows | None:
    """The rows of a trace from files alone; None if the database has to be asked."""
    if stored.tail.may_have(trace_id):  # before the filters are asked, which know what leaves it
        return None
    _, *blocks = stored.filters.of_traces(space, [trace_id])
    rows: Rows = []
    for block in blocks:
        found = stored.places.find(block, space, trace_id)
        if found is None:
            return None
        rows += found
    return rows


def _of_trace(stored: StoredSpans, space: str, trace_id: str) -> Query:
    of_spans, places = within_parameters(stored.filters.of_traces(space, [trace_id]))
    return Query(
        f"SELECT {_SPAN} FROM spans WHERE {of_spans} AND trace_hash = ? AND space = ?",
        (*places, trace_hash(trace_id), space),
    )


def _newest_first(rows: Sequence[tuple[Any, ...]]) -> list[EvaluationRow]:
    return [decode_verdict(row[-1]) for row in sorted(rows, key=itemgetter(0, 1), reverse=True)]


def _latest(verdicts: Sequence[EvaluationRow]) -> tuple[EvaluationRow, ...]:
    """Without those that a later one of their record superseded."""
    latest: dict[str, int] = {}
    for row in verdicts:
        latest[row.record_uid] = max(row.revision, latest.get(row.record_uid, 0))
    return tuple(row for row in verdicts if row.revision == latest[row.record_uid])
