"""Accepted records that nothing was decided about."""

from collections.abc import Sequence
from typing import Final

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.read import OUTLINE, UNSETTLED, record_row
from collector.store.rows import RecordPlace, WaitingRecord, WaitingSpace

_PLACES: Final = """
    SELECT r.seq, r.space, r.uid
    FROM records r
    ANTI JOIN (SELECT space, record_uid FROM evaluations WHERE seq >= $1) e
        ON e.space = r.space AND e.record_uid = r.uid
    ANTI JOIN (SELECT space, uid FROM dead_letters WHERE was_accepted AND seq >= $1) d
        ON d.space = r.space AND d.uid = r.uid
    WHERE r.seq >= $1
        AND (r.seq > $1 OR r.space > $2 OR (r.space = $2 AND r.uid > $3))
    ORDER BY r.seq, r.space, r.uid LIMIT $4
"""
"""Nothing is decided about a record before it is accepted: what is older need not be looked at.
Places alone: the joins and the order take all memory there is with the other columns."""
_ROWS: Final = f"""
    SELECT r.seq, strlen(r.context), {OUTLINE}
    FROM records r
    SEMI JOIN (SELECT unnest($3::VARCHAR[]) AS uid) k ON k.uid = r.uid
    WHERE r.seq BETWEEN $1 AND $2
"""  # noqa: S608 our own names


def read_waiting(database: Database, after: RecordPlace, limit: int) -> list[WaitingRecord]:
    """The next records by their places, without their contexts.

    Cost: linear in what was stored since that place; no more memory for more of it.
    """
    found: list[WaitingRecord] = []
    while len(found) < limit:
        wanted = limit - len(found)
        places = [RecordPlace(*row) for row in database.read(_PLACES, [*after, wanted])]
        found += _records(database, places)
        if len(places) < wanted:
            break
        after = places[-1]  # go on, if some of them were taken out in between
    return found


def _records(database: Database, places: Sequence[RecordPlace]) -> list[WaitingRecord]:
    """Read the records that are still stored, in the order of their places."""
    if not places:
        return []
    rows = database.read(_ROWS, [places[0].seq, places[-1].seq, [each.uid for each in places]])
    found = {
        place: WaitingRecord(place=place, record=record_row(values), context_bytes=size_bytes)
        for seq, size_bytes, *values in rows
        for place in (RecordPlace(seq, values[0], values[1]),)
    }
    return [found[place] for place in places if place in found]


def read_waiting_spaces(database: Database) -> list[WaitingSpace]:
    """By space how many there are, and the oldest one."""
    rows = database.read(
        "SELECT r.space, count(*)::BIGINT, arg_min(r.uid, r.seq), min(r.received_ns)"
        f" {UNSETTLED} GROUP BY r.space ORDER BY r.space"
    )
    return [
        WaitingSpace(space=space, count=count, uid=uid, received_ns=received_ns)
        for space, count, uid, received_ns in rows
    ]


def count_waiting(database: Database) -> int:
    """Count the waiting records of all spaces."""
    ((count,),) = database.read(f"SELECT count(*) {UNSETTLED}")
    return count
