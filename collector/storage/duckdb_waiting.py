"""Accepted records that nothing was decided about."""

from typing import Final

from collector.storage.database import Database
from collector.storage.duckdb_read import RECORD, UNSETTLED, record_row
from collector.storage.rows import RecordPlace, WaitingRecord

_PAGE: Final = """
    FROM records r
    ANTI JOIN (SELECT space, record_uid FROM evaluations WHERE seq >= $1) e
        ON e.space = r.space AND e.record_uid = r.uid
    ANTI JOIN (SELECT space, uid FROM dead_letters WHERE was_accepted AND seq >= $1) d
        ON d.space = r.space AND d.uid = r.uid
    WHERE r.seq >= $1
        AND (r.seq > $1 OR r.space > $2 OR (r.space = $2 AND r.uid > $3))
    ORDER BY r.seq, r.space, r.uid LIMIT $4
"""
"""Nothing is decided about a record before it is accepted: what is older need not be looked at."""


def read_waiting(database: Database, after: RecordPlace, limit: int) -> list[WaitingRecord]:
    """The next records by their places, without their contexts.

    Cost: linear in what was stored since that place.
    """
    columns = ", ".join("'null'" if name == "context" else f"r.{name}" for name in RECORD)
    rows = database.read(
        f"SELECT r.seq, strlen(r.context), {columns} {_PAGE}",
        [*after, limit],
    )
    return [
        WaitingRecord(
            place=RecordPlace(seq, values[0], values[1]),
            record=record_row(values),
            context_bytes=size_bytes,
        )
        for seq, size_bytes, *values in rows
    ]


def count_waiting(database: Database) -> int:
    """How many there are, in all spaces."""
    ((count,),) = database.read(f"SELECT count(*) {UNSETTLED}")
    return count
