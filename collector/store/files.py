"""The files of a store: names, version, what DuckDB says of them, and reads while nobody writes."""

import os
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import duckdb

from collector.store.reads import Change, Reads, Rows
from collector.store.schema import COLUMNS, VERSION
from scouter.errors import ConfigError, TransientError

_DAMAGE: Final = re.compile(
    r"(IO Error: )?(Corrupt |Could not read enough bytes|Failed to deserialize"
    r"|Failure while replaying WAL file|The file .* exists, but it is not a valid DuckDB)"
)
"""Beginnings of its errors about damage; they have no type of their own."""
_NO_DAMAGE: Final = ("Out of Memory", "No space left", "Permission denied")
"""May hinder reading its log, too."""
_HOLDER: Final = re.compile(r"PID (\d+)")
FIRST_FILE: Final = "store-1.duckdb"
_OTHER_VERSION: Final = (
    "{path} was written by another version of the collector ({version}; this one writes "
    f"{VERSION}): start that one on this folder, as before, or have its `scouter collector export` "
    "write the tables, and give this one another --data"
)


class DamagedStoreError(ConfigError):
    """A file of the store cannot be opened, as bytes of it are wrong or missing."""


def number_of(file: Path) -> int:
    """The number in the name of a file."""
    return int(file.stem.partition("-")[2])


def store_files(folder: Path) -> list[Path]:
    """The files of a store, without their logs; more than one where a copy was interrupted."""
    return sorted(folder.glob("store-*[0-9].duckdb"), key=number_of)


_STORED: Final = """
    SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns()
    WHERE database_name = current_database() GROUP BY table_name
"""


def check_version(connection: duckdb.DuckDBPyConnection, path: Path) -> dict[str, list[str]]:
    """Refuse a file that another version has written; one without a table is new.

    Returns:
        The names of its columns, in order, by table.

    Raises:
        ConfigError: It has.
    """
    tables = dict(connection.execute(_STORED).fetchall())
    found = (
        connection.execute("SELECT version FROM identity").fetchall()
        if "identity" in tables
        else [("another",)]
        if tables
        else []
    )
    for (version,) in found:
        if version != VERSION:
            raise ConfigError(_OTHER_VERSION.format(path=path, version=version))
    return tables


def missing_columns(stored: Mapping[str, Sequence[str]], path: Path) -> Iterator[tuple[str, str]]:
    """Columns that were added to the schema since the tables were made, behind all others."""
    for table, columns in COLUMNS.items():
        found = stored.get(table)
        if found is None:
            continue  # a new table has them all
        if found != [name for name, _ in columns[: len(found)]]:
            raise ConfigError(_OTHER_VERSION.format(path=path, version=f"with another {table}"))
        for name, kind in columns[len(found) :]:
            yield table, f"{name} {kind}"


def sync_folder(folder: Path) -> None:
    """Make the names of a folder's files durable."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def is_damage(error: BaseException) -> bool:
    """Say whether an error of DuckDB's is about bytes that are wrong or missing."""
    text = str(error)
    return (
        isinstance(error, duckdb.Error)
        and _DAMAGE.match(text) is not None
        and not any(each in text for each in _NO_DAMAGE)
    )


def explain(error: BaseException) -> str:
    """Say in our words what DuckDB says at length."""
    if "Conflicting lock" in str(error):
        holder = _HOLDER.search(str(error))
        by = f" (process {holder[1]})" if holder else ""
        return f"another collector{by} has it open; end that one, or give this one another --data"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "the path is a file and no folder"
    return first_line(error)


def first_line(error: BaseException) -> str:
    """The first line of an error's text; DuckDB adds pages of help."""
    return str(error).partition("\n")[0] or type(error).__name__


MEMORY_BYTES: Final = 256 * 10**6
"""Memory that DuckDB may use."""


class OfflineReads(Reads):
    """Opens the newest whole file of a folder for reading.

    Args:
        folder: The data folder.
        memory_bytes: Memory that DuckDB may use.

    Raises:
        ConfigError: There is no store, a collector has it open, or another version wrote it.
        DamagedStoreError: It cannot be opened, as it is damaged.
    """

    def __init__(self, folder: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        self.folder: Final = folder
        self._connection = duckdb.connect(config={"memory_limit": f"{memory_bytes}B", "threads": 2})
        try:
            self.path: Final = self._open(store_files(folder))
        except duckdb.Error as error:
            self._connection.close()
            kind = DamagedStoreError if is_damage(error) else ConfigError
            raise kind(f"cannot open the store in {folder}: {explain(error)}") from error
        except ConfigError:
            self._connection.close()
            raise

    def _open(self, files: Sequence[Path]) -> Path:
        for path in reversed(files):
            quoted = str(path).replace("'", "''")
            self._connection.execute(f"ATTACH '{quoted}' AS store (READ_ONLY)")
            self._connection.execute("USE store")
            check_version(self._connection, path)
            if self.read("SELECT 1 FROM whole"):
                return path
            self._connection.execute("USE memory")
            self._connection.execute("DETACH store")  # a copy that was never finished
        raise ConfigError(f"no store in {self.folder}: there is no store-1.duckdb; see --data")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a query and fetch everything.

        Raises:
            DamagedStoreError: Bytes are wrong or missing.
            TransientError: There is no memory or disk for it.
        """
        with self._reading():
            return self._connection.execute(sql, list(parameters)).fetchall()

    def arrow(self, sql: str, parameters: Sequence[object] = ()) -> Any:  # noqa: ANN401 no types
        """The same as an Arrow table; raises as `read` does."""
        with self._reading():
            return self._connection.sql(sql, params=list(parameters)).to_arrow_table()

    @contextmanager
    def _reading(self) -> Generator[None]:
        try:
            yield
        except duckdb.Error as error:
            if not isinstance(error, duckdb.OperationalError) and not is_damage(error):
                raise
            kind = DamagedStoreError if is_damage(error) else TransientError
            raise kind(f"the store in {self.folder} cannot be read: {explain(error)}") from error

    read_for_work = read

    def last_seq(self) -> int:
        """Number of the last commit; 0 of an empty store."""
        ((seq,),) = self.read("SELECT coalesce(max(seq), 0) FROM offsets")
        return seq

    def alone(self) -> AbstractContextManager[None]:
        """Nobody writes."""
        return nullcontext()

    def write(
        self,
        tables: Mapping[str, Sequence[Sequence[object]]],
        changes: Sequence[Change] = (),
        low_seq: int | None = None,
    ) -> int:
        """Refuse it.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(f"{self.path} is open for reading alone: start a collector to write")
