"""Copies what can be read of a damaged database."""

import logging
from pathlib import Path
from typing import Final

import duckdb

from collector.metrics import LOG_APPLIED
from collector.storage.duckdb.database import (
    FILE_NAME,
    ROW_GROUP,
    Database,
    is_damage,
    migrate,
    quoted,
    run,
)
from collector.storage.duckdb.schema import TABLES

# All SQL is put together from this module's own words.
# ruff: noqa: S608

_log: Final = logging.getLogger(__name__)
_COLUMNS: Final = """
    SELECT column_name FROM duckdb_columns() WHERE database_name = 'store' AND table_name = ?
"""


def salvage(database: Database) -> Path | None:
    """Copy every row group that can be read into a new file; the old one stays.

    Args:
        database: The open store, to which nobody writes.

    Returns:
        The new file; None where every block can be read.

    Cost: reads every block of the database.
    """
    connection = database.connection()
    if all(_is_whole(connection, table) for table in TABLES):
        return None
    fresh = database.path.with_name(f"{FILE_NAME}.salvaged")
    for each in (fresh, fresh.with_name(f"{fresh.name}.wal")):
        each.unlink(missing_ok=True)
    run(connection, f"ATTACH '{quoted(fresh)}' AS salvaged (ROW_GROUP_SIZE {ROW_GROUP})")
    try:
        migrate(connection, "salvaged", fresh)
        lost = {table: _copy(connection, table) for table in TABLES}
        if lost["spans"]:  # have them all taken from the span log again
            run(connection, "DELETE FROM salvaged.totals WHERE name = ?", [LOG_APPLIED.name])
        run(connection, "CHECKPOINT salvaged")
    finally:
        run(connection, "USE store")
        run(connection, "DETACH salvaged")
    return fresh


def _is_whole(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    try:
        for (column,) in run(connection, _COLUMNS, [table]):
            run(connection, f"SELECT bit_xor(hash({column})) FROM store.{table}")
    except duckdb.Error as error:
        if not is_damage(error):
            raise
        _log.warning("the table %s is damaged: %s", table, str(error).splitlines()[0])
        return False
    return True


def _copy(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    """Copy a table; tells whether rows of it were lost."""
    is_damaged = False
    ((end,),) = run(connection, f"SELECT coalesce(max(rowid) + 1, 0) FROM store.{table}")
    for at in range(0, end, ROW_GROUP):
        try:
            run(
                connection,
                f"INSERT INTO salvaged.{table} BY NAME SELECT * FROM store.{table}"
                f" WHERE rowid >= {at} AND rowid < {at + ROW_GROUP}",
            )
        except duckdb.Error as error:
            if not is_damage(error):
                raise
            is_damaged = True
            _log.warning("%s: rows %d to %d are lost", table, at, min(end, at + ROW_GROUP) - 1)
    return is_damaged
