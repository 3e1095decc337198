"""The DuckDB file: one connection that writes, and a pool of those that read."""

import queue
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import duckdb

from collector.store.arrow import arrow_table
from collector.store.reads import Rows
from collector.store.schema import duckdb_tables
from scouter.errors import ConfigError, TransientError

FILE_NAME: Final = "store.duckdb"
"""Name of the file inside a data folder."""
MEMORY_BYTES: Final = 512 * 2**20
"""Memory that DuckDB may use."""
_CHECKPOINT_BYTES: Final = 64 * 10**6
"""Size of DuckDB's log at which it is written into the file proper: a start after a crash has to
read so much."""
_ROW_GROUP: Final = 32_768
"""Rows that are stored, and given back, together."""
_READERS: Final = 3
"""Reads of people at a time: what each takes comes out of the same memory."""
_PAGE_ROWS: Final = 1001
"""Rows of the largest page, and one that tells whether more follow."""


def _config(folder: Path, memory_bytes: int) -> dict[str, Any]:
    return {
        "memory_limit": f"{memory_bytes}B",
        "temp_directory": str(folder / "spill"),
        # Commits and reads run beside each other anyway; waking a helper for the few rows of a
        # commit costs up to a tenth of all the CPU.
        "threads": 1,
        # Joining small row groups writes everything several times, and stalls commits.
        "max_vacuum_tasks": 0,
        # Of rows that are listed in order only those of the page are read whole.
        "late_materialization_max_rows": _PAGE_ROWS,
    }


class Database:
    """An open DuckDB file.

    Args:
        folder: Its folder, which is made if it is not there.
        memory_bytes: Memory that DuckDB may use.

    Raises:
        ConfigError: The folder cannot be written, another process has the file open, or it is none
            of this program's.
    """

    def __init__(self, folder: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        self._path = folder / FILE_NAME
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root = duckdb.connect(config=_config(folder, memory_bytes))
            self._attach()
        except (OSError, duckdb.Error) as error:
            raise ConfigError(f"cannot open the store {self._path}: {error}") from error
        self._writer = self._connect()
        for statement in duckdb_tables():
            self._writer.execute(statement)
        self._warm_up()
        self._worker: queue.SimpleQueue[duckdb.DuckDBPyConnection] = queue.SimpleQueue()
        self._worker.put(self._connect())
        self._people: queue.SimpleQueue[duckdb.DuckDBPyConnection] = queue.SimpleQueue()
        for _ in range(_READERS):
            self._people.put(self._connect())

    def _attach(self) -> None:
        path = str(self._path).replace("'", "''")
        self._root.execute(f"SET checkpoint_threshold = '{_CHECKPOINT_BYTES}B'")
        self._root.execute(f"ATTACH '{path}' AS store (ROW_GROUP_SIZE {_ROW_GROUP})")

    def _connect(self) -> duckdb.DuckDBPyConnection:
        connection = self._root.cursor()
        connection.execute("USE store")
        return connection

    def _warm_up(self) -> None:
        """Let DuckDB import what it needs for the first Arrow table: 0.5 s."""
        insert(self._writer, "counts", arrow_table("counts", 0, [[], [], []], 0))

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read of people's and fetch everything; it waits for its turn.

        Raises:
            TransientError: There is no memory or disk for it, or the file cannot be read.
        """
        return self._read(self._people, sql, parameters)

    def read_for_work(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """The same for the worker, which waits for nobody."""
        return self._read(self._worker, sql, parameters)

    def _read(
        self,
        pool: "queue.SimpleQueue[duckdb.DuckDBPyConnection]",
        sql: str,
        parameters: Sequence[object],
    ) -> Rows:
        connection = pool.get()
        try:
            return connection.execute(sql, list(parameters)).fetchall()
        except (duckdb.OperationalError, duckdb.OutOfMemoryException) as error:
            raise TransientError(f"the store cannot be read: {first_line(error)}") from error
        finally:
            pool.put(connection)

    @contextmanager
    def transaction(self) -> Generator[duckdb.DuckDBPyConnection]:
        """The connection that writes, inside a transaction; one thread at a time.

        Raises:
            TransientError: It cannot be written now; nothing has changed.
        """
        writer = self._writer
        try:
            writer.execute("BEGIN")
            yield writer
            writer.execute("COMMIT")
        except BaseException as error:
            with suppress(duckdb.Error):  # what cannot be rolled back is over already
                writer.execute("ROLLBACK")
            if isinstance(error, duckdb.OperationalError | duckdb.OutOfMemoryException | OSError):
                raise TransientError(f"the store takes nothing: {first_line(error)}") from error
            raise

    def size_bytes(self) -> int:
        """Size on disk of file and log."""
        files = (self._path, self._path.with_name(f"{FILE_NAME}.wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Write everything into the file proper and close it."""
        self._writer.close()
        for pool in (self._worker, self._people):
            while not pool.empty():
                pool.get().close()
        self._root.close()


def insert(connection: duckdb.DuckDBPyConnection, table: str, rows: object) -> None:
    """Insert the rows of an Arrow table."""
    connection.register("new_rows", rows)
    try:
        connection.execute(f"INSERT INTO {table} SELECT * FROM new_rows")  # noqa: S608 our own names
    finally:
        connection.unregister("new_rows")


def first_line(error: BaseException) -> str:
    """The first line of an error's text; DuckDB adds pages of help."""
    return str(error).partition("\n")[0] or type(error).__name__
