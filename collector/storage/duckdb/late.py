"""What the join asks about spans that come after a verdict."""

from typing import Final

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.known_keys import SeenFilter, TraceKey
from collector.storage.duckdb.read import SESSION_TRACES
from scouter.model.evaluation_event import RESULT_EVENT

# ruff: noqa: S608 the SQL is put together from the package's own words

_TRACE_HASH: Final = "try_cast('0x' || trace_id[17:] AS UBIGINT)"
"""`trace_hash`, without its sign."""


def read_judged_traces(database: Database, since_ns: int) -> SeenFilter:
    """Traces of verdicts that read spans, by their hashes.

    Args:
        database: The open file.
        since_ns: Only verdicts from then on.
    """
    rows = (
        "(SELECT trace_id FROM evaluations"
        " WHERE reads_spans AND trace_id IS NOT NULL AND evaluated_ns >= $1"
        f" UNION ALL SELECT r.trace_id {SESSION_TRACES} AND e.evaluated_ns >= $1)"
    )
    return SeenFilter.load(database.read, _TRACE_HASH, rows, [since_ns])


def read_late_traces(database: Database, since_ns: int) -> list[TraceKey]:
    """Traces with spans that the latest verdict on one of their records has not seen.

    Args:
        database: The open file.
        since_ns: Only verdicts from then on.
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
    """When the newest span, record or verdict of the commits up to one came or was made.

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
