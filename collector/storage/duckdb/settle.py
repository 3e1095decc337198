"""Values of a record that its trace tells after the record was accepted.

These are its session, and the context of a derived record. They are the only values of stored
records that change.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import duckdb

from collector.storage.duckdb.database import run
from collector.storage.duckdb.stored_keys import text_hash
from collector.store.json_text import dump_json
from collector.store.rows import SettledRecord

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_KEYS: Final = (
    "(SELECT unnest($2::BIGINT[]) AS uid_hash, unnest($3::VARCHAR[]) AS uid,"
    " unnest($4::VARCHAR[]) AS value) k WHERE records.space = $1 AND records.seq >= $5"
    " AND records.uid_hash = k.uid_hash AND records.uid = k.uid"
)


def settle_records(connection: duckdb.DuckDBPyConnection, settled: Iterable[SettledRecord]) -> None:
    """Write what is settled into the rows of records; one that is not stored is passed over.

    Args:
        connection: In a transaction.
        settled: Each record once.
    """
    by_space: defaultdict[str, list[SettledRecord]] = defaultdict(list)
    for each in settled:
        by_space[each.space].append(each)
    for space, rows in by_space.items():
        _update(connection, "session_id", space, rows, [each.session_id for each in rows])
        contexts = [each for each in rows if each.has_context]
        if contexts:
            texts = [dump_json(each.context) for each in contexts]
            _update(connection, "context", space, contexts, texts)


def _update(
    connection: duckdb.DuckDBPyConnection,
    column: str,
    space: str,
    rows: Sequence[SettledRecord],
    values: Sequence[str],
) -> None:
    """Write a column of some records."""
    uids = [each.uid for each in rows]
    run(
        connection,
        f"UPDATE records SET {column} = k.value FROM {_KEYS}",
        [space, list(map(text_hash, uids)), uids, values, min(each.seq for each in rows)],
    )


def superseded_sql() -> str:
    """SQL for derived records beside which a sender's record of trace and profile stands."""
    return (
        "SELECT DISTINCT d.space, d.uid FROM records d JOIN records r ON r.space = d.space"
        " AND r.trace_id = d.trace_id AND r.alias = d.alias"
        " WHERE regexp_full_match(d.uid, 'trace:[0-9a-f]{32}')"
        " AND NOT regexp_full_match(r.uid, 'trace:[0-9a-f]{32}')"
    )
