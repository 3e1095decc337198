"""Every table of a store as a Parquet file, written in parts of bounded memory.

DuckDB's own COPY holds a row group of the file in memory, two thousand rows at the least: of texts
of megabytes more than there is. Rows are asked for by their numbers instead, as few at a time as
fit, and are let go once they are written.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from collector.storage.care.result_export import EVALUATIONS, result_table
from collector.storage.care.span_export import SPANS, span_tables
from collector.storage.duckdb.database import Database, run
from collector.storage.duckdb.schema import TABLES
from collector.storage.log.span_log import SpanLog
from scouter.errors import ConfigError, TransientError

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_FIRST: Final = 16
_GROWTH: Final = 4
_MOST: Final = 2048
"""Rows that are asked for together; DuckDB holds so many at once, however many are asked for."""
_PART_BYTES: Final = 4 * 2**20
_GROUP_BYTES: Final = 16 * 2**20
_GROUP_ROWS: Final = 100_000
"""Rows of a row group of a file, before it is compressed."""
_SQL: Final = {
    "spans": SPANS,
    "evaluations": "SELECT * EXCLUDE (body) FROM evaluations WHERE rowid >= $1 AND rowid < $2",
    "task_results": EVALUATIONS,
}
"""Tables that are no good to read as they are stored."""
_ROWS_OF: Final = {"task_results": "evaluations"}
"""Tables that are read from the rows of another one."""


def export_tables(
    database: Database,
    log: SpanLog,
    folder: Path,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """Write every table as a Parquet file; nobody may write to the store meanwhile.

    Spans come with what their rows leave in the span log: attributes, events and links as JSON. The
    files are called `TABLE.parquet.partial` until all of them are complete.

    Args:
        database: The open store.
        log: Its spans.
        folder: Gets `TABLE.parquet` for each table; older ones are overwritten.
        tell: Is told how far it is.

    Raises:
        ConfigError: The folder cannot be written; nothing is left of the files.
        TransientError: The store cannot be read, for instance for want of memory; the same.

    Cost: linear; beside DuckDB's memory about 100 MB, more where one row takes more.
    """
    partials = {table: folder / f"{table}.parquet.partial" for table in TABLES}
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with database.in_use() as connection, log.pinned():
            for table, partial in partials.items():
                _write(partial, _tables(connection, log, table, tell))
        return [partial.replace(partial.with_suffix("")) for partial in partials.values()]
    except OSError as error:
        raise ConfigError(f"cannot write {folder}: {error.strerror or error}") from error
    except duckdb.OutOfMemoryException as error:
        raise TransientError(
            f"the export into {folder} failed, as one row takes more memory than there is: give a "
            f"larger --memory-limit: {str(error).splitlines()[0]}"
        ) from error
    except duckdb.Error as error:
        raise TransientError(f"the export into {folder} failed: {error}") from error
    finally:
        for partial in partials.values():
            partial.unlink(missing_ok=True)


def _tables(
    connection: duckdb.DuckDBPyConnection, log: SpanLog, table: str, tell: Callable[[str], None]
) -> Iterator[pa.Table]:
    """A table in parts; the first one is there even if it has no rows."""
    sql = _SQL.get(table, f"FROM {table} WHERE rowid >= $1 AND rowid < $2")
    for part in _parts(connection, sql, _ROWS_OF.get(table, table), table, tell):
        if table == "spans":
            yield from span_tables(part, log)
        else:
            yield result_table(part) if table == "task_results" else part


def _parts(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    source: str,
    table: str,
    tell: Callable[[str], None],
) -> Iterator[pa.Table]:
    """Read all rows that a query selects from a table, a range of rows at a time.

    A range shrinks where rows are long, or if DuckDB has no memory for it.
    """
    begin, end = run(connection, f"SELECT coalesce(min(rowid), 0), coalesce(max(rowid), -1) + 1"
                     f" FROM {source}")[0]  # fmt: skip
    yield connection.sql(sql, params=[0, 0]).to_arrow_table()
    at, count = begin, _FIRST
    while at < end:
        tell(f"{table}: {at - begin:,} of {end - begin:,} rows")
        try:
            part = connection.sql(sql, params=[at, at + count]).to_arrow_table()
        except duckdb.OutOfMemoryException:
            if count == 1:
                raise
            count = max(1, count // _GROWTH)
            continue
        at += count
        if part.num_rows:
            yield part
        else:  # rows that were taken out leave holes
            at = run(connection, f"SELECT min(rowid) FROM {source} WHERE rowid >= ?", [at])[0][0]
            at = end if at is None else at
        fitting = _PART_BYTES * count // max(1, part.nbytes)
        count = max(1, min(_MOST, count * _GROWTH, fitting))


def _write(path: Path, parts: Iterator[pa.Table]) -> None:
    """Write parts of one table, several to a row group where they are small."""
    first = next(parts)
    group: list[pa.Table] = []
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        for part in parts:
            group.append(part)
            is_full = sum(each.nbytes for each in group) >= _GROUP_BYTES
            if is_full or sum(each.num_rows for each in group) >= _GROUP_ROWS:
                writer.write_table(pa.concat_tables(group))
                group.clear()
        if group:
            writer.write_table(pa.concat_tables(group))
