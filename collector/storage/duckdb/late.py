"""Queries of the join about spans that come after an evaluation."""

from collections.abc import Callable
from typing import Final

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.read import SESSION_TRACES
from collector.storage.duckdb.stored_keys import TRACE_HASH, read_filter
from collector.storage.log.span_codec import trace_hash
from collector.store.rows import TraceKey
from scouter.model.evaluation_event import RESULT_EVENT

# ruff: noqa: S608 the SQL is put together from the package's own words

_BITS: Final = 1 << 25


def read_judged_traces(database: Database, since_ns: int) -> Callable[[str], bool]:
    """A test for the traces of evaluations that read spans; it is true of a few others.

    Args:
        database: The open file.
        since_ns: Only evaluations from then on.

    Cost: 4 MiB; with a million traces it is true of 1 other in 50,000, with five of 1 in 20.
    """
    rows = (
        "(SELECT trace_id FROM evaluations"
        " WHERE reads_spans AND trace_id IS NOT NULL AND evaluated_ns >= $1"
        f" UNION ALL SELECT r.trace_id {SESSION_TRACES} AND e.evaluated_ns >= $1)"
    )
    seen = read_filter(database.read, TRACE_HASH, rows, [since_ns], _BITS)
    return lambda trace_id: seen.maybe(trace_hash(trace_id))


def read_late_traces(database: Database, since_ns: int) -> list[TraceKey]:
    """Traces with spans that the latest evaluation on one of their records has not seen.

    Args:
        database: The open file.
        since_ns: Only evaluations from then on.
    """
    rows = database.read(
        f"""
        SELECT DISTINCT seen.space, seen.trace_id FROM (
            SELECT space, trace_id, record_uid, max(input_seq) AS input_seq FROM (
                SELECT space, trace_id, record_uid, input_seq FROM evaluations
                WHERE reads_spans AND trace_id IS NOT NULL AND evaluated_ns >= $1
                UNION ALL
                SELECT r.space, r.trace_id, e.record_uid, e.input_seq {SESSION_TRACES}
                AND e.evaluated_ns >= $1
            ) GROUP BY space, trace_id, record_uid
        ) seen
        JOIN spans s ON s.space = seen.space AND s.trace_id = seen.trace_id
            AND s.seq > seen.input_seq AND NOT (s.is_event IS TRUE AND s.name = '{RESULT_EVENT}')
        """,
        [since_ns],
    )
    return [(space, trace_id) for space, trace_id in rows]


def read_stored_until(database: Database, seq: int) -> int | None:
    """Time of the newest span, record or evaluation of the commits up to `seq`; None without any.

    Spans and records count by the time of receipt, evaluations by the time of their evaluation.

    Cost: 10 ms for five million spans.
    """
    ((newest_ns,),) = database.read(
        "SELECT max(newest) FROM ("
        " SELECT max(received_ns) AS newest FROM spans WHERE seq <= $1"
        " UNION ALL SELECT max(received_ns) FROM records WHERE seq <= $1"
        " UNION ALL SELECT max(evaluated_ns) FROM evaluations WHERE seq <= $1)",
        [seq],
    )
    return newest_ns
