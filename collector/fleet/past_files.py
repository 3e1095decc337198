"""Parquet files of the days that are over: written whole, and written anew without some rows."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from collector.store.files import sync_folder

MANIFEST: Final = "_manifest.json"
"""Says up to which commit a day goes; lake readers pass over names with such a beginning."""
_GROUP_BYTES: Final = 16 * 2**20
_GROUP_ROWS: Final = 100_000
"""Rows of a row group of a file, before it is compressed."""


def day_folders(folder: Path) -> list[Path]:
    """The folders of all days that are complete, in order."""
    return sorted(each.parent for each in folder.glob(f"day=*/{MANIFEST}"))


def files_of(folder: Path, table: str) -> list[Path]:
    """The files of a table, in their order."""
    found = folder.glob(f"{table}-*.parquet")
    return sorted(found, key=lambda each: int(each.stem.rpartition("-")[2]))


class Rolling:
    """Writes tables of one form into files of bounded size, `TABLE-N.parquet`.

    Args:
        folder: Gets the files; one at the least, which may have no rows.
        table: Name of the table.
        schema: Of all tables.
        rows: A file with so many rows is full.
        nbytes: A file of so many bytes, before they are compressed, is full.
    """

    def __init__(
        self,
        folder: Path,
        table: str,
        schema: pa.Schema,
        *,
        rows: int = 1 << 62,
        nbytes: int = 256 * 2**20,
    ) -> None:
        self._folder, self._table, self._schema = folder, table, schema
        self._most_rows, self._most_bytes = rows, nbytes
        self._number = self._rows = self._bytes = 0
        self._path, self._writer = folder, cast("Any", None)
        self._group: list[pa.Table] = []
        """Tables that are a row group together, as they are small."""

    def write(self, table: pa.Table) -> None:
        """Write a table."""
        if not table.num_rows:
            return
        self._open()
        self._group.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes
        is_full = sum(each.nbytes for each in self._group) >= _GROUP_BYTES
        if is_full or sum(each.num_rows for each in self._group) >= _GROUP_ROWS:
            self._flush()
        if self._rows >= self._most_rows or self._bytes >= self._most_bytes:
            self._close()

    def _open(self) -> Any:  # noqa: ANN401 no types
        if self._writer is None:
            self._path = self._folder / f"{self._table}-{self._number}.parquet"
            self._path.touch(mode=0o600)
            self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd")
            self._number += 1
            self._rows = self._bytes = 0
        return self._writer

    def _flush(self) -> None:
        if self._group:
            self._open().write_table(pa.concat_tables(self._group))
            self._group.clear()

    def _close(self) -> None:
        self._flush()
        self._open().close()
        self._writer = None
        _sync(self._path)

    def __enter__(self) -> "Rolling":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._writer is not None or not self._number:
            self._close()


def keys(path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Some columns of each row of a file. Cost: a row group's columns in memory."""
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, columns=list(columns))
            yield from zip(*(table[name].to_pylist() for name in columns), strict=True)


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write a file anew, in the place of the old one once it is complete.

    Args:
        path: The file.
        change: Makes what is written of each row group.
    """
    partial = path.with_name(f"{path.name}.partial")
    partial.touch(mode=0o600)
    with (
        pq.ParquetFile(path) as file,
        pq.ParquetWriter(partial, file.schema_arrow, compression="zstd") as writer,
    ):
        for number in range(file.num_row_groups):
            table = change(file.read_row_group(number))
            if table.num_rows:
                writer.write_table(table)
    _sync(partial)
    partial.replace(path)
    sync_folder(path.parent)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
