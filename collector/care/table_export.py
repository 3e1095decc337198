"""Every table of a store as a Parquet file, written in parts of bounded memory.

DuckDB's own COPY holds a row group of the file in memory, two thousand rows at the least: of texts
of megabytes more than there is. Rows are read by their numbers instead, as few at a time as
fit, and are let go once they are written.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from collector.care.check import OfflineStore
from collector.store.schema import COLUMNS, NOT_COPIED
from collector.store.span_export import span_tables
from collector.store.task_results import EVALUATIONS, result_table
from scouter.errors import ConfigError, TransientError

EXPORTED: Final = tuple(name for name in COLUMNS if name not in NOT_COPIED and name != "bodies")
"""Tables that are written. What `bodies` has is in the file of spans."""
_FIRST: Final = 16
_GROWTH: Final = 4
_MOST: Final = 2048
"""Rows that are read together; DuckDB has so many in memory at once, however many are wanted."""
_PART_BYTES: Final = 4 * 2**20
_GROUP_BYTES: Final = 16 * 2**20
_GROUP_ROWS: Final = 100_000
"""Rows of a row group of a file, before it is compressed."""
_SQL: Final = {
    "evaluations": "SELECT * EXCLUDE (body) FROM evaluations WHERE rowid >= $1 AND rowid < $2",
    "task_results": EVALUATIONS,
}
"""Tables that are no good to read as they are stored."""
_ROWS_OF: Final = {"task_results": "evaluations"}
"""Tables that are read from the rows of another one."""


def export_tables(
    source: Path,
    folder: Path,
    tell: Callable[[str], None] = lambda text: None,
    memory_bytes: int = 128 * 10**6,
) -> list[Path]:
    """Write every table as a Parquet file, all as of one commit.

    Spans and task results come with all that is known of them: attributes, events and links, what
    was expected and found. The files are called `TABLE.parquet.partial` until all are complete.

    Args:
        source: A data folder that nobody has open.
        folder: Gets `TABLE.parquet` for each table; older ones are overwritten.
        tell: Is called with how far it is.
        memory_bytes: Memory that DuckDB may use.

    Raises:
        ConfigError: There is no store, or the folder cannot be written; nothing is left.
        TransientError: The store cannot be read, for instance for want of memory; the same.

    Cost: linear; beside DuckDB's memory about 100 MB, more where one row takes more.
    """
    partials = {table: folder / f"{table}.parquet.partial" for table in EXPORTED}
    with OfflineStore(source, memory_bytes) as store:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for table, partial in partials.items():
                partial.touch(mode=0o600)
                _write(partial, _tables(store, table, tell))
            return [partial.replace(partial.with_suffix("")) for partial in partials.values()]
        except OSError as error:
            raise ConfigError(f"cannot write {folder}: {error.strerror or error}") from error
        finally:
            for partial in partials.values():
                partial.unlink(missing_ok=True)


def _tables(store: OfflineStore, table: str, tell: Callable[[str], None]) -> Iterator[pa.Table]:
    """A table in parts; the first one is there even if it has no rows."""
    if table == "spans":
        tell("spans")
        yield from span_tables(store, store.last_seq())
        return
    sql = _SQL.get(table, f"SELECT * FROM {table} WHERE rowid >= $1 AND rowid < $2")
    for part in _parts(store, sql, _ROWS_OF.get(table, table), table, tell):
        yield result_table(part) if table == "task_results" else part


def _parts(
    store: OfflineStore, sql: str, source: str, table: str, tell: Callable[[str], None]
) -> Iterator[pa.Table]:
    """Read all rows that a query selects from a table, a range of rows at a time.

    A range shrinks where rows are long, or if DuckDB has no memory for it.
    """
    ((begin, end),) = store.read(
        f"SELECT coalesce(min(rowid), 0), coalesce(max(rowid), -1) + 1 FROM {source}"
    )
    yield store.arrow(sql, [0, 0])
    at, count = begin, _FIRST
    while at < end:
        tell(f"{table}: {at - begin:,} of {end - begin:,} rows")
        try:
            part = store.arrow(sql, [at, at + count])
        except TransientError:
            if count == 1:
                raise
            count = max(1, count // _GROWTH)
            continue
        at += count
        if part.num_rows:
            yield part
        else:  # rows that were taken out leave holes
            ((following,),) = store.read(f"SELECT min(rowid) FROM {source} WHERE rowid >= $1", [at])
            at = end if following is None else following
        fitting = _PART_BYTES * count // max(1, part.nbytes)
        count = max(1, min(_MOST, count * _GROWTH, fitting))


def _write(path: Path, parts: Iterator[pa.Table]) -> None:
    """Write parts of one table, several to a row group where they are small."""
    first = next(parts)
    group: list[pa.Table] = [first]
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        for part in parts:
            group.append(part)
            is_full = sum(each.nbytes for each in group) >= _GROUP_BYTES
            if is_full or sum(each.num_rows for each in group) >= _GROUP_ROWS:
                writer.write_table(pa.concat_tables(group))
                group.clear()
        if group:
            writer.write_table(pa.concat_tables(group))
