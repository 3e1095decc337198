"""What a trace tells of a record after the record was accepted: its session, a derived context.

These are the only values of stored records that change. The filters of blocks are made of sessions,
so those of older blocks grow with them.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import duckdb

from collector.storage.duckdb.block_filters import SESSION, BlockFilters, key_of, value_hash
from collector.storage.duckdb.block_values import set_bits
from collector.storage.duckdb.database import run
from collector.storage.duckdb.json_text import dump_json
from collector.storage.duckdb.known_keys import text_hash
from collector.storage.port.rows import SettledRecord

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_RECORDS: Final = "records"
_KEYS: Final = (
    "(SELECT unnest($2::BIGINT[]) AS uid_hash, unnest($3::VARCHAR[]) AS uid,"
    " unnest($4::VARCHAR[]) AS value) k WHERE records.space = $1 AND records.seq >= $5"
    " AND records.uid_hash = k.uid_hash AND records.uid = k.uid"
)


def settle_records(
    connection: duckdb.DuckDBPyConnection,
    filters: BlockFilters,
    settled: Iterable[SettledRecord],
) -> None:
    """Write what is settled into the rows of records; one that is not stored is passed over.

    Args:
        connection: In a transaction.
        filters: Are told of blocks that get new sessions.
        settled: Each record once.
    """
    by_space: defaultdict[str, list[SettledRecord]] = defaultdict(list)
    for each in settled:
        by_space[each.space].append(each)
    for space, rows in by_space.items():
        seqs = _update(connection, "session_id", space, rows, [each.session_id for each in rows])
        contexts = [each for each in rows if each.has_context]
        if contexts:
            texts = [dump_json(each.context) for each in contexts]
            _update(connection, "context", space, contexts, texts)
        named = [
            (seqs[each.uid], value_hash(space, SESSION, each.session_id))
            for each in rows
            if each.session_id and each.uid in seqs
        ]
        if named:
            _widen(connection, filters, sorted(named))


def _update(
    connection: duckdb.DuckDBPyConnection,
    column: str,
    space: str,
    rows: Sequence[SettledRecord],
    values: Sequence[str],
) -> dict[str, int]:
    """Write a column of some records; returns the commits that accepted them, by uid."""
    uids = [each.uid for each in rows]
    found = run(
        connection,
        f"UPDATE records SET {column} = k.value FROM {_KEYS} RETURNING records.uid, records.seq",
        [space, list(map(text_hash, uids)), uids, values, min(each.seq for each in rows)],
    )
    return dict(found)


def _widen(
    connection: duckdb.DuckDBPyConnection,
    filters: BlockFilters,
    named: Sequence[tuple[int, int]],
) -> None:
    """Put sessions into the filters of the blocks that have one already."""
    blocks = run(
        connection,
        "SELECT seq, first_seq, bits_0 FROM blocks"
        " WHERE of_table = ? AND seq >= ? AND first_seq <= ? ORDER BY seq",
        [_RECORDS, named[0][0], named[-1][0]],
    )
    for last, first, bits in blocks:
        begin, end = bisect_left(named, (first, 0)), bisect_left(named, (last + 1, 0))
        if begin == end or not bits:
            continue
        ids = bytearray(bits)
        set_bits(ids, [key_of(number)[1:] for _, number in named[begin:end]])
        run(
            connection,
            "UPDATE blocks SET bits_0 = ? WHERE of_table = ? AND seq = ?",
            [bytes(ids), _RECORDS, last],
        )
        filters.widen(_RECORDS, last, bytes(ids))


def superseded_sql() -> str:
    """SQL for derived records beside which a sender's record of trace and profile stands."""
    return (
        "SELECT DISTINCT d.space, d.uid FROM records d JOIN records r ON r.space = d.space"
        " AND r.trace_id = d.trace_id AND r.alias = d.alias"
        " WHERE regexp_full_match(d.uid, 'trace:[0-9a-f]{32}')"
        " AND NOT regexp_full_match(r.uid, 'trace:[0-9a-f]{32}')"
    )
