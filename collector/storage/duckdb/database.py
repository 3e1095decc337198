"""The DuckDB file: opening it, bringing it up to date, and a connection for each reader."""

import itertools
import logging
import os
import re
import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import duckdb

from collector.storage.duckdb.arrow import read_schemas
from collector.storage.duckdb.gate import Gate
from collector.storage.duckdb.new_tables import statements, tables_after
from collector.storage.duckdb.profile_uids import ProfileUids
from collector.storage.duckdb.schema import MIGRATIONS, TABLES
from collector.storage.duckdb.turns import Turns
from collector.storage.log.span_log import sync_folder
from collector.store.limits import NoMemoryError
from scouter.errors import ConfigError, TransientError

_HOLDER: Final = re.compile(r"PID (\d+)")
_log: Final = logging.getLogger(__name__)
FILE_NAME: Final = "scouter.duckdb"
"""Name of the file inside a data folder."""
_LOG_BYTES: Final = 24 * 10**6
"""Size of the log at which it is written into the file proper: a commit then takes longer, about
0.1 s, and a start after a crash has to read so much."""
ROW_GROUP: Final = 32_768
"""Rows that are stored, and given back, together."""
RENEW_ROWS: Final = 1_000_000
"""Rows that are written before the file is closed and opened again."""
_LATER_ROWS: Final = 50_000
_RENEW_WAIT_S: Final = 0.1
_READERS: Final = 3
"""Queries at a time. Forty lists of a thousand rows at once took more than DuckDB may have."""
_PAGE_ROWS: Final = 1001
"""Rows of the largest page, and one that tells whether more follow."""
_NO_LIMIT: Final = "RESET memory_limit"
"""To what DuckDB takes by default, four fifths of the machine's memory."""
_REWRITE_WAIT_S: Final = 2.0
_FRESH: Final = ".fresh"
_SPILL: Final = "spill"
_UNWRITTEN: Final = re.compile(r"checkpoint(ing)? failed", re.IGNORECASE)
"""Text in DuckDB's errors after a checkpoint that it could not write.

All later errors have it until the file is opened again.
"""
_DAMAGE: Final = re.compile(
    r"(IO Error: )?(Corrupt |Could not read enough bytes|Failed to deserialize"
    r"|Failure while replaying WAL file|The file .* exists, but it is not a valid DuckDB)"
)
"""Beginnings of DuckDB's errors about damage; they have no type of their own."""
_NO_DAMAGE: Final = ("Out of Memory", "No space left", "Permission denied")
"""May hinder reading the log, too."""
_copies: Final = itertools.count(1)
"""Numbers of the copies that this process makes, some of them at the same time."""


_PARSED: Final = 64
"""Statements that are known as DuckDB has read them."""
_PARSED_LENGTH: Final = 3_000
"""Characters of the longest of them: a list of a thousand parameters would take a megabyte."""
Rows: TypeAlias = list[tuple[Any, ...]]


class Query(NamedTuple):
    """SQL with the values of its parameters."""

    sql: str
    parameters: Sequence[object] = ()


class Reads(Protocol):
    """An object that can run queries on a store."""

    def read(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a query and fetch everything."""
        ...


class DamagedBlockError(TransientError):
    """A part of the file cannot be read; others can."""


class DamagedStoreError(ConfigError):
    """The file or its log is not as DuckDB wrote it, or not all there."""


def _config(folder: Path, memory_limit_bytes: int) -> dict[str, Any]:
    return {
        "memory_limit": f"{memory_limit_bytes}B",
        "temp_directory": str(folder / _SPILL),
        # Each connection's own thread and no further one: commits and queries run beside each
        # other anyway, and waking a helper for the few rows of a commit cost up to a tenth of all
        # the CPU. A scan that has the machine to itself takes about half as long again.
        "threads": 1,
        # Joining small row groups writes everything log(n) times, and stalls writers: 1.7 s with
        # contexts of 20 kB. Row groups that a checkpoint finds may stay small.
        "max_vacuum_tasks": 0,
        # Of rows that are listed in order only those of the page are read whole: in a third of the
        # time and a quarter of the memory, where most rows match.
        "late_materialization_max_rows": _PAGE_ROWS,
    }


class Database:
    """One open DuckDB file. Connections that it gives out belong to the thread that asked.

    Args:
        folder: Folder of the file, which is made if it is not there.
        memory_limit_bytes: Most memory that DuckDB may use.
        may_be_new: False where a file without tables is one that lost them.

    Raises:
        ConfigError: The folder cannot be written, another process has the file open, or a newer
            version of the program wrote it.
        DamagedStoreError: The file is damaged; it stays as it is.
    """

    def __init__(self, folder: Path, memory_limit_bytes: int, *, may_be_new: bool = True) -> None:
        self.path = folder / FILE_NAME
        with ExitStack() as half_open:  # what fails is closed, so that it can be opened again
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._keep_private()
                self._root = duckdb.connect(config=_config(folder, memory_limit_bytes))
                half_open.callback(self._let_go)
                run(self._root, f"SET checkpoint_threshold = '{_LOG_BYTES}B'")
                self._attach()
                if not may_be_new and not run(self._root, "SHOW TABLES FROM store"):
                    raise DamagedStoreError(f"there is nothing in {self.path}")
                self._remove_rests()  # now that no other process has the store open
                run(self._root, _NO_LIMIT)  # a new column of all rows may take more
                with self._root.cursor() as cursor:
                    migrate(cursor, "store", self.path)
                self._limit = f"SET memory_limit = '{memory_limit_bytes}B'"
                run(self._root, self._limit)
                self._has_room = False
            except (OSError, duckdb.Error) as error:
                kind = DamagedStoreError if is_damage(error) else ConfigError
                raise kind(f"cannot open the store {self.path}: {explain(error)}") from error
            half_open.pop_all()
        self._gate = Gate()
        self._turns = Turns(_READERS)
        self._long_turn, self._wide_turn = Turns(1), Turns(1)
        self.heavy: Final = Turns(1)
        """Held by what takes most of the memory, one at a time: a commit, which may end with a
        checkpoint, and a long read. A checkpoint that finds too little is the end of the
        process."""
        self._beside = ThreadPoolExecutor(_READERS, "scouter-read")
        self._rows = 0
        self.fault = ""
        """Fault of opening the file again, if a new process may do better; else empty."""
        self.unwritten = ""
        """Fault of the last checkpoint, if DuckDB refuses the file until it is opened again."""
        self._local = threading.local()
        self._cursors = [self._root.cursor()]
        self._parsed = lru_cache(_PARSED)(self._cursors[0].extract_statements)
        self.schemas = read_schemas(self.connection(), TABLES)
        """Arrow schema of every table, read from the tables themselves."""
        self.profile_uids: Final = ProfileUids(self.read)

    def connection(self) -> duckdb.DuckDBPyConnection:
        """The calling thread's own connection."""
        found: duckdb.DuckDBPyConnection | None = getattr(self._local, "connection", None)
        if found is None:
            try:
                found = self._root.cursor()
                run(found, "USE store")
            except duckdb.Error as error:
                raise TransientError(f"the store is closed: {_first_line(error)}") from error
            self._local.connection = found
            self._cursors.append(found)
        return found

    @contextmanager
    def in_use(self) -> Generator[duckdb.DuckDBPyConnection]:
        """The calling thread's own connection, to a file that stays open meanwhile.

        Raises:
            TransientError: The file is closed, for now or for good.
        """
        with self._gate.together():
            if self.fault:
                raise TransientError(f"the store could not be opened again: {self.fault}")
            yield self.connection()

    def read(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a query on the calling thread's connection and fetch everything.

        Few queries run at a time, and the others wait for their turn: what each takes comes out of
        the same memory, and there are only so many processors. A query with parameters is parsed
        when it is first seen: that is a fifth of what a small one takes.

        Raises:
            TransientError: The file is closed, or damaged, or there is no memory or disk for it.
        """
        return self._read(sql, parameters, nullcontext())

    def _read(
        self, sql: str, parameters: Sequence[object], beside: AbstractContextManager[None]
    ) -> list[tuple[Any, ...]]:
        # A query that has a turn waits for nothing but a commit.
        with self.in_use() as connection, self._turns, beside:
            try:
                if not parameters or len(sql) > _PARSED_LENGTH:
                    return run(connection, sql, parameters)
                (statement,) = self._parsed(sql)
                return connection.execute(statement, list(parameters)).fetchall()
            except duckdb.OutOfMemoryException as error:
                raise NoMemoryError(f"the store cannot be read: {_first_line(error)}") from error
            except duckdb.Error as error:
                if is_damage(error):
                    raise DamagedBlockError(
                        "the store is damaged; stop the collector, see `scouter collector check` "
                        "and restore a backup, or start it with --accept-loss: "
                        f"{_first_line(error)}"
                    ) from error
                if not isinstance(error, duckdb.OperationalError):
                    raise
                raise TransientError(f"the store cannot be read: {_first_line(error)}") from error

    def read_long(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a query whose rows have long texts, for exports: one at a time, never in a commit.

        A commit waits for one such query at most, however many exports there are: so let each be
        short.

        Raises:
            TransientError: As `read`.
        """
        with self._long_turn:
            return self._read(sql, parameters, self.heavy)

    def read_wide(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The same for a query that holds the ids of many rows, for counts.

        It has a turn of its own, so that an export waits for one count and not for all.

        Raises:
            TransientError: As `read`.
        """
        with self._wide_turn:
            return self._read(sql, parameters, self.heavy)

    def read_both(self, one: Query, other: Query) -> tuple[Rows, Rows]:
        """Run two queries side by side, and fetch everything.

        Planning takes the longest part of a small query, and one processor does it. So two queries
        at a time take half the time of a UNION of them. They may see different commits.

        Raises:
            TransientError: As `read`.
        """
        try:
            beside = self._beside.submit(self.read, *other)
        except RuntimeError as error:
            raise TransientError(f"the store is closed: {error}") from error
        rows = self.read(*one)
        return rows, beside.result()

    def make_room(self) -> None:
        """Let DuckDB use all memory until `limit`; called before rows are taken out.

        From a DELETE to the next checkpoint it holds 256 kB for each row group that it took a row
        out of. Where it finds no more memory it cannot even roll back: nothing but a new process
        helps then.
        """
        run(self.connection(), _NO_LIMIT)
        self._has_room = True

    def limit(self) -> None:
        """Bound the memory again where there was made room, on the thread that commits.

        A checkpoint lets go of what is held; a long query may hold that up to the next call.
        """
        if self._has_room:
            try:
                self.checkpoint()
                run(self.connection(), self._limit)
                self._has_room = False
            except duckdb.Error as error:
                _log.debug("the store keeps its room for now: %s", _first_line(error))

    def wrote(self, rows: int) -> None:
        """Count rows that were committed."""
        self._rows += rows

    def renew(self) -> None:
        """Close the file and open it again, if enough was written and nobody reads for long.

        DuckDB keeps about a kilobyte in memory for every column of every row group that it wrote
        or read since it opened a file: at 1,000 spans/s that is 25 MB an hour. The thread that
        commits calls this, outside of transactions.
        """
        if self._rows < RENEW_ROWS:
            return
        is_done = self.reopen(_RENEW_WAIT_S)
        self._rows = 0 if is_done else RENEW_ROWS - _LATER_ROWS  # a long query, a backup

    def reopen(self, wait_s: float) -> bool:
        """Close the file and open it again; `fault` says why that failed.

        Args:
            wait_s: Seconds to wait for those who read.

        Returns:
            False if somebody still reads.
        """
        with self._gate.alone(wait_s) as is_alone:
            if is_alone:
                try:
                    run(self._root, "DETACH store")
                    self._attach()
                    self.unwritten = ""
                except (duckdb.Error, MemoryError) as error:
                    self.fault = explain(error)
            return is_alone

    def checkpoint(self) -> None:
        """Write the log into the file proper.

        Raises:
            duckdb.Error: It cannot be done now, or not be written: then `unwritten` says why.
        """
        try:
            run(self.connection(), "CHECKPOINT store")
        except duckdb.Error as error:
            self.is_unwritten(error)
            raise

    def is_unwritten(self, error: Exception) -> bool:
        """Say whether DuckDB refuses the file from this error on, until it is opened again."""
        if _UNWRITTEN.search(str(error)):
            self.unwritten = _first_line(error)
            return True
        return False

    def _attach(self) -> None:
        run(self._root, f"ATTACH '{quoted(self.path)}' AS store (ROW_GROUP_SIZE {ROW_GROUP})")

    @contextmanager
    def folder_of_new_log(self) -> Generator[int | None]:
        """Open the folder for a commit that makes DuckDB's log anew.

        The first one behind each checkpoint does. Until the folder is synced, a power cut may take
        the log's name. It is open before the commit: afterwards there may be no descriptor.

        Yields:
            Descriptor of the folder; None if the log is there.

        Raises:
            OSError: It cannot be opened.
        """
        if self._wal.exists():
            yield None
            return
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield folder
        finally:
            os.close(folder)

    def file_bytes(self) -> int:
        """Size on disk of file and log."""
        return sum(each.stat().st_size for each in (self.path, self._wal) if each.exists())

    def close(self) -> None:
        """Write everything into the file proper and close it."""
        self._beside.shutdown()
        try:
            run(self._root, "CHECKPOINT store")
        except duckdb.Error as error:  # the log beside the file still holds everything
            _log.warning("the store was closed without a checkpoint: %s", _first_line(error))
        for cursor in self._cursors:
            cursor.close()
        self._root.close()

    def abandon(self) -> None:
        """Close the file and leave it, and its log, as they were found."""
        self._beside.shutdown()
        for cursor in self._cursors:
            cursor.close()
        self._let_go()

    def _let_go(self) -> None:
        with suppress(duckdb.Error):  # of a file that is too damaged for it
            run(self._root, "PRAGMA disable_checkpoint_on_shutdown")
        self._root.close()

    def rewrite(self) -> None:
        """Write every row into a new file that takes the place of the old one.

        DuckDB leaves the bytes of deleted rows in row groups and free blocks; the new file has none
        of them. The thread that commits calls this, outside of transactions: writers wait, readers
        go on but for the moment of the change. It needs as much room on disk as the rows take.

        Raises:
            TransientError: Somebody reads for long, or there is no room; nothing has changed.
        """
        fresh = self.path.with_name(f"{FILE_NAME}{_FRESH}")
        try:
            with self.in_use() as connection:
                copy_rows(connection, fresh, TABLES, {"erasures": "step <> 'file'"})
            with self._gate.alone(_REWRITE_WAIT_S) as is_alone:
                if not is_alone:
                    raise TransientError("the store is read all the time; the old file stays")
                self._put_in_place(fresh)
        except (OSError, duckdb.Error, MemoryError) as error:
            raise TransientError(f"the store cannot be rewritten: {explain(error)}") from error
        finally:
            self._remove_fresh()

    def _put_in_place(self, fresh: Path) -> None:
        run(self._root, "CHECKPOINT store")
        run(self._root, "DETACH store")
        try:
            if self._wal.exists() and self._wal.stat().st_size:
                raise OSError(f"{self._wal} holds something after a checkpoint")
            self._wal.unlink(missing_ok=True)
            fresh.replace(self.path)
            sync_folder(self.path.parent)
        finally:
            try:
                self._attach()
            except (duckdb.Error, MemoryError) as error:
                self.fault = explain(error)

    def _keep_private(self) -> None:
        """Let nobody else read what an older version of the program has made for everybody."""
        for file in (self.path, self._wal):
            try:
                if file.exists() and file.stat().st_mode & 0o077:
                    file.chmod(0o600)
            except PermissionError as error:  # another user's, who lets this one write
                _log.warning("others may read %s: %s", file, error.strerror)

    def _remove_rests(self) -> None:
        """Remove what an earlier process has left, as it may say what was erased since."""
        self._remove_fresh()
        for file in (self.path.parent / _SPILL).glob("*"):
            file.unlink()

    def _remove_fresh(self) -> None:
        """Remove what is left of a copy."""
        for name in (f"{FILE_NAME}{_FRESH}", f"{FILE_NAME}{_FRESH}.wal"):
            self.path.with_name(name).unlink(missing_ok=True)

    @property
    def _wal(self) -> Path:
        return self.path.with_name(f"{FILE_NAME}.wal")


def migrate(connection: duckdb.DuckDBPyConnection, catalog: str, path: Path) -> None:
    """Bring a store up to date, or make it.

    Args:
        connection: Has the file attached.
        catalog: Under this name.
        path: Of the file, for messages.

    Raises:
        ConfigError: A newer version of the program wrote it.
    """
    run(connection, f"USE {catalog}")
    run(connection, "CREATE TABLE IF NOT EXISTS migrations (version INTEGER)")
    done = run(connection, "SELECT coalesce(max(version), 0) FROM migrations")[0][0]
    if done > len(MIGRATIONS):
        raise ConfigError(
            f"the store {path} has version {done}; this program knows versions up to "
            f"{len(MIGRATIONS)}: use the program that wrote it, or a newer one"
        )
    tables = "SELECT table_name FROM duckdb_tables() WHERE database_name = ?"
    if not done and run(connection, tables, [catalog]) == [("migrations",)]:
        versions = f"INSERT INTO migrations SELECT unnest(range(1, {len(MIGRATIONS) + 1}))"
        run(connection, f"BEGIN; {tables_after(MIGRATIONS)}; {versions}; COMMIT")
        return
    for step, sql in enumerate(MIGRATIONS[done:], start=done + 1):
        for statement in statements(sql):
            run(connection, statement)
            run(connection, f"CHECKPOINT {catalog}")  # changed rows are in memory until then
        run(connection, "INSERT INTO migrations VALUES (?)", [step])


def copy_rows(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    tables: Sequence[str],
    conditions: Mapping[str, str] | None = None,
) -> None:
    """Write the rows of the store, all of one state, into a new file.

    Args:
        connection: Has the store attached; writes to it may go on elsewhere.
        path: The file; an older one is removed.
        tables: Names of the tables.
        conditions: SQL by table that is true of the rows to copy.

    Raises:
        duckdb.Error: It could not be written; what was written of it is left.
    """
    for each in (path, path.with_name(f"{path.name}.wal")):
        each.unlink(missing_ok=True)
    name = f"copy_{next(_copies)}"
    run(connection, f"ATTACH '{quoted(path)}' AS {name} (ROW_GROUP_SIZE {ROW_GROUP})")
    try:
        migrate(connection, name, path)
        run(connection, "BEGIN")
        for table in tables:
            where = (conditions or {}).get(table, "true")
            run(
                connection,
                f"INSERT INTO {name}.{table} BY NAME SELECT * FROM store.{table} WHERE {where}",  # noqa: S608 our own words
            )
        run(connection, "COMMIT")
        run(connection, f"CHECKPOINT {name}")
    except BaseException:
        with suppress(duckdb.Error):
            run(connection, "ROLLBACK")
        raise
    finally:
        run(connection, "USE store")
        run(connection, f"DETACH {name}")


def quoted(path: Path) -> str:
    """A path inside the quotation marks of SQL."""
    return str(path).replace("'", "''")


def literal(value: int | str) -> str:
    """A number or a text as SQL writes it, for quick queries whose text differs from time to time.

    DuckDB prepares a statement with parameters before it knows them, which takes another fifth of
    the time of a query that finds a few rows.
    """
    return f"{value:d}" if isinstance(value, int) else "'{}'".format(value.replace("'", "''"))


def run(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()
) -> list[tuple[Any, ...]]:
    """Execute a statement to its end and return its rows."""
    if not parameters:  # DuckDB plans a query that it is told to have some twice
        return connection.execute(sql).fetchall()
    return connection.execute(sql, list(parameters)).fetchall()


def insert(connection: duckdb.DuckDBPyConnection, table: str, batch: object) -> int:
    """Insert the rows of an Arrow table and count them.

    DuckDB finds `batch` as this function's argument, which costs half of registering it.
    """
    sql = f"INSERT INTO {table} SELECT * FROM batch"  # noqa: S608 our own names
    counted: tuple[int] = connection.execute(sql).fetchall()[0]
    return counted[0]


def is_damage(error: Exception) -> bool:
    """Say whether an error of DuckDB's is about bytes that are wrong or missing."""
    text = str(error)
    return (
        isinstance(error, duckdb.Error)
        and _DAMAGE.match(text) is not None
        and not any(each in text for each in _NO_DAMAGE)
    )


def explain(error: Exception) -> str:
    """Say in our words what DuckDB says at length."""
    holder = _HOLDER.search(str(error))
    if "Conflicting lock" in str(error):
        by = f" (process {holder[1]})" if holder else ""
        return f"another collector{by} has it open; end that one, or give this one another --data"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "the path is a file and no folder"
    return _first_line(error)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
