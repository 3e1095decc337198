"""The DuckDB file: a connection that writes, others that read, and the copy that takes its place.

DuckDB leaves the bytes of deleted rows where they are until other rows need the room. So what was
erased is gone when the rows that stay are in a new file and the old one is removed. That needs as
much disk again as the rows take, and is done beside commits and reads. A file has a row in `whole`
once all rows are in it: until then a start goes on with the file before it.
"""

import queue
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import duckdb

from collector.store.commit import arrow_table
from collector.store.files import (
    DamagedStoreError,
    check_version,
    explain,
    first_line,
    is_damage,
    missing_columns,
    number_of,
    store_files,
    sync_folder,
)
from collector.store.reads import Change, NoMemoryError, Rows
from collector.store.schema import COLUMNS, COPYING, NOT_COPIED, VERSION, duckdb_tables
from scouter.errors import ConfigError, TransientError

MEMORY_BYTES: Final = 512 * 2**20
"""Memory that DuckDB may use."""
CHECKPOINT_BYTES: Final = 64 * 10**6
"""Size of DuckDB's log at which it is written into the file proper: a start after a crash has to
read so much."""
ROW_GROUP: Final = 32_768
"""Rows that are stored, and given back, together."""
_READERS: Final = 3
"""Reads of people at a time: what each takes comes out of the same memory."""
_PAGE_ROWS: Final = 1001
"""Rows of the largest page, and one that tells whether more follow."""
_COPIED: Final = 400_000
"""Rows of `spans` that are copied at a time: so many that whole groups are written at once, and not
into DuckDB's log first."""
_FEW: Final = 3
"""Commits that are copied while the next one waits."""

_INVALID: Final = re.compile(r"invalidated|checkpoint(ing)? failed", re.IGNORECASE)
"""In DuckDB's errors after a checkpoint that it could not write, for want of disk or memory."""
_DURABLE: Final = "COMMIT succeeded and is durable"
"""In its error for a commit that ended with such a checkpoint."""

_COPY_WAIT_S: Final = 30.0
"""Longest wait for another copy that is being made."""
_BACKUP: Final = "backup"
_SPILL: Final = "spill"
"""Begins the name of the folder of what does not fit into memory. A process that was killed leaves
its own, and the next one may need room for it before it knows that no other has the file open."""
Duck: TypeAlias = duckdb.DuckDBPyConnection


class Database:
    """An open DuckDB file.

    Args:
        folder: Its folder, which is made if it is not there.
        memory_bytes: Memory that DuckDB may use.
        identity: Number of the folder, for a new file; by default a new one.

    Raises:
        ConfigError: The folder cannot be written, another process has the file open, or it is none
            of this program's.
        DamagedStoreError: The file is damaged.
    """

    def __init__(
        self, folder: Path, memory_bytes: int = MEMORY_BYTES, identity: int | None = None
    ) -> None:
        self._folder, self._memory_bytes = folder, memory_bytes
        self._writing = threading.RLock()
        self._is_closed = False
        self._copying = threading.Lock()
        self._reading_alone = threading.Lock()
        self._is_invalid = False
        """True while the file has to be opened again, and could not be."""
        self.fault = ""
        """Reason that the last commit failed; empty after one that did not."""
        self.is_broken = False
        """True once DuckDB opens no file any more in this process."""
        self.on_commit: Callable[[float], None] = lambda seconds: None
        """Called with the seconds of each commit, in its thread."""
        self.committed_at = time.monotonic()
        """Seconds of the clock at the last commit, or at the start."""
        self._changes: list[Change] | None = None
        """Changes since a copy began; None without one."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot open the store in {folder}: {explain(error)}") from error
        spill = folder / f"{_SPILL}-{secrets.token_hex(4)}"
        self._root = duckdb.connect(config=duck_config(spill, memory_bytes))
        try:
            # What is not written yet is in memory, and what is written at once may be read at once:
            # of long texts DuckDB reads all that stand beside the one it looks for.
            most = min(CHECKPOINT_BYTES, memory_bytes // 8)
            self._root.execute(f"SET checkpoint_threshold = '{most}B'")
            self._number = self._open(identity)
            for left in set(folder.glob(f"{_SPILL}*")) - {spill}:
                shutil.rmtree(left, ignore_errors=True)
        except BaseException as error:
            self.abandon()
            if not isinstance(error, OSError | duckdb.Error):
                raise
            kind = DamagedStoreError if is_damage(error) else ConfigError
            raise kind(f"cannot open the store in {folder}: {explain(error)}") from error
        ((self.identity,),) = self._root.execute(
            f"SELECT folder FROM {_name(self._number)}.identity"
        ).fetchall()
        """Number of the data folder."""
        self._writer = self._root.cursor()
        self._use(self._writer)
        # Its first Arrow table lets DuckDB import for half a second.
        insert(self._writer, "begun", arrow_table("begun", 0, [[], []], 0))
        self._worker: queue.SimpleQueue[Duck] = queue.SimpleQueue()
        self._worker.put(self._root.cursor())
        self._people: queue.SimpleQueue[Duck] = queue.SimpleQueue()
        for _ in range(_READERS):
            self._people.put(self._root.cursor())

    def _open(self, identity: int | None) -> int:
        """Attach the newest whole file and remove all others."""
        first, *copies = list(map(number_of, store_files(self._folder))) or [1]
        for number in reversed(copies):
            self._attach(number)
            if self._is_whole(number):
                for other in (first, *copies):
                    if other < number:
                        self._delete_files(other)
                return number
            self._remove(number)  # a copy that was never finished
        self._attach(first)
        if not self._is_whole(first):
            copying = "SELECT 1 FROM duckdb_tables() WHERE database_name = $1 AND table_name = $2"
            if (
                self._root.execute(f"SELECT 1 FROM {_name(first)}.offsets LIMIT 1").fetchall()
                or self._root.execute(copying, [_name(first), COPYING]).fetchall()
            ):
                raise ConfigError(
                    f"{self._path(first)} is an unfinished copy, and the file that it was made of "
                    "is gone: restore a backup, or, if `scouter store copy` was ended, run it again"
                )
            number = secrets.randbits(63) if identity is None else identity
            self._root.execute("BEGIN")
            self._root.execute(
                f"INSERT INTO {_name(first)}.identity VALUES (0, $1, $2)", [number, VERSION]
            )
            self._root.execute(f"INSERT INTO {_name(first)}.whole VALUES (0)")
            self._root.execute("COMMIT")
            self._root.execute(f"CHECKPOINT {_name(first)}")  # so that its log may be missed
            sync_folder(self._folder)
        return first

    def _is_whole(self, number: int) -> bool:
        return bool(self._root.execute(f"SELECT 1 FROM {_name(number)}.whole").fetchall())

    def _path(self, number: int) -> Path:
        return self._folder / f"store-{number}.duckdb"

    @property
    def _log_path(self) -> Path:
        return self._folder / f"store-{self._number}.duckdb.wal"

    def _attach(self, number: int) -> None:
        self._attach_file(self._path(number), _name(number))

    def _attach_file(self, path: Path, name: str) -> None:
        text = str(path).replace("'", "''")
        self._root.execute(f"ATTACH '{text}' AS {name} (ROW_GROUP_SIZE {ROW_GROUP})")
        with self._root.cursor() as cursor:
            cursor.execute(f"USE {name}")
            stored = check_version(cursor, path)
            if stored.keys() < COLUMNS.keys():
                cursor.execute("BEGIN")  # a file without one of them is of another version
                for statement in duckdb_tables():
                    cursor.execute(statement)
                cursor.execute("COMMIT")
            for table, missing in missing_columns(stored, path):
                cursor.execute(f"ALTER TABLE {table} ADD COLUMN {missing}")
        for file in (path, path.with_name(f"{path.name}.wal")):
            if file.exists():
                file.chmod(0o600)

    def _remove(self, number: int) -> None:
        self._root.execute(f"DETACH {_name(number)}")
        self._delete_files(number)

    def _delete_files(self, number: int) -> None:
        path = self._path(number)
        for file in (path, path.with_name(f"{path.name}.wal")):
            file.unlink(missing_ok=True)

    def _use(self, connection: Duck) -> None:
        connection.execute(f"USE {_name(self._number)}")

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read of people's and fetch everything; it waits for its turn.

        Where two together need more memory than there is, one is repeated once the others are over,
        and none begins beside it.

        Raises:
            NoMemoryError: There is no memory for it.
            TransientError: There is no disk for it, or the file cannot be read.
        """
        try:
            return self._read(self._people, sql, parameters)
        except NoMemoryError:
            with self._reading_alone:
                others = [self._people.get() for _ in range(_READERS - 1)]
                try:
                    return self._read(self._people, sql, parameters)
                finally:
                    for each in others:
                        self._people.put(each)

    def read_for_work(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """The same for the worker, which waits for nobody."""
        return self._read(self._worker, sql, parameters)

    def _read(
        self, pool: "queue.SimpleQueue[Duck]", sql: str, parameters: Sequence[object]
    ) -> Rows:
        connection = pool.get()
        try:
            if self._is_invalid:
                self._open_again()
            while True:
                number = self._number
                try:
                    self._use(connection)
                    return connection.execute(sql, list(parameters)).fetchall()
                except (duckdb.CatalogException, duckdb.BinderException):
                    if number == self._number:  # else a copy took the file's place meanwhile
                        raise
        except duckdb.Error as error:
            if is_damage(error):
                raise TransientError(
                    f"the store is damaged; stop the collector and see `scouter collector check`: "
                    f"{first_line(error)}"
                ) from error
            if not isinstance(error, duckdb.OperationalError):
                raise
            why = f"the store cannot be read: {first_line(error)}"
            is_memory = isinstance(error, duckdb.OutOfMemoryException)
            raise (NoMemoryError(why) if is_memory else TransientError(why)) from error
        finally:
            pool.put(connection)

    @contextmanager
    def alone(self) -> Generator[None]:
        """No commit comes between what is read and what is changed inside."""
        with self._writing:
            yield

    def transact(self, changes: Sequence[Change], tables: Sequence[tuple[str, object]]) -> None:
        """Make changes and insert Arrow tables, in one transaction.

        Raises:
            TransientError: It cannot be written now; nothing has changed.
        """
        with self._writing:
            began = time.monotonic()
            with self._transaction() as connection:
                for change in changes:
                    change(connection)
                for table, rows in tables:
                    insert(connection, table, rows)
            if self._changes is not None:
                self._changes += changes
            self.committed_at = time.monotonic()
            self.on_commit(self.committed_at - began)

    @contextmanager
    def _transaction(self) -> Generator[Duck]:
        writer, has_log = self._writer, self._log_path.exists()
        try:
            if self._is_invalid:
                self._open_again()
            writer.execute("BEGIN")
            yield writer
            writer.execute("COMMIT")
            self.fault = ""
            if not has_log:  # until then a power cut may take the new log's name
                sync_folder(self._folder)
        except BaseException as error:
            with suppress(duckdb.Error):  # what cannot be rolled back is over already
                writer.execute("ROLLBACK")
            text = str(error)
            if _INVALID.search(text):
                with suppress(duckdb.Error):  # the next one tries again
                    self._open_again()
            if isinstance(error, duckdb.OperationalError | OSError):
                if _DURABLE in text:
                    return
                self.fault = first_line(error)
                raise TransientError(f"the store takes nothing: {first_line(error)}") from error
            raise

    def _open_again(self) -> None:
        """Open the file again; after a checkpoint that it could not write DuckDB refuses it."""
        with self._writing:
            self._is_invalid, name = True, _name(self._number)
            try:
                self._root.execute(f"DETACH DATABASE IF EXISTS {name}")
                self._attach(self._number)
                self._use(self._writer)
            except (duckdb.FatalException, duckdb.InternalException) as error:
                self.is_broken, self.fault = True, first_line(error)
                raise
            self._is_invalid = False

    def renew(
        self, until: Callable[[], bool] = lambda: False, erased_to: int | None = None
    ) -> bool:
        """Write all rows into a new file that takes the place of this one.

        Commits and reads go on, but for the moment of the change.

        Args:
            until: Called between two steps; true gives the copy up.
            erased_to: Erasures behind this commit have bytes elsewhere, too, and stay noted; by
                default no erasure has that the copy begins with.

        Returns:
            False if it was given up, or another thread is at it.

        Raises:
            TransientError: There is no room on the disk; the file stays as it is.

        Cost: linear in the bytes of the store, about 25 s for each gigabyte.
        """
        if not self._copying.acquire(blocking=False):
            return False
        new = self._number + 1
        try:
            self._check_room(self._folder)
            self._attach(new)
            is_whole = self._copy(_name(new), until, lambda: self._use_file(new), erased_to)
            if is_whole:
                self._root.execute(f"DETACH {_name(new - 1)}")
                self._delete_files(new - 1)
            else:
                self._remove(new)
            return is_whole
        except duckdb.Error as error:
            with suppress(duckdb.Error):
                self._remove(new)
            raise TransientError(f"the store cannot be renewed: {first_line(error)}") from error
        finally:
            self._copying.release()

    def copy_to(self, path: Path, at_end: Callable[[], None]) -> None:
        """Write all rows into a file elsewhere, as they are at one commit.

        Commits and reads go on, but for the moment of the last of them.

        Args:
            path: Is not there.
            at_end: Called at that moment.

        Raises:
            OSError: The file cannot be written.
            TransientError: There is no room for it, or another copy is being made; nothing is left.

        Cost: see `renew`.
        """
        if not self._copying.acquire(timeout=_COPY_WAIT_S):
            raise TransientError("the files of the store are being written anew; ask again", 5)
        partial = path.with_name(f"{path.name}.partial")
        try:
            self._check_room(path.parent)
            partial.unlink(missing_ok=True)
            self._attach_file(partial, _BACKUP)
            self._copy(_BACKUP, lambda: False, at_end)
            self._root.execute(f"CHECKPOINT {_BACKUP}")
            self._root.execute(f"DETACH {_BACKUP}")
            partial.replace(path)
            sync_folder(path.parent)
        except duckdb.Error as error:
            raise TransientError(f"the store cannot be copied: {first_line(error)}") from error
        finally:
            with suppress(duckdb.Error):
                self._root.execute(f"DETACH DATABASE IF EXISTS {_BACKUP}")
            for each in (partial, partial.with_name(f"{partial.name}.wal")):
                each.unlink(missing_ok=True)
            self._copying.release()

    def _check_room(self, folder: Path) -> None:
        """Check that a folder has room for a copy: as much as the rows take, and one checkpoint.

        Raises:
            TransientError: It has not.
        """
        needed, free = self.used_bytes() + CHECKPOINT_BYTES, shutil.disk_usage(folder).free
        if free < needed:
            raise TransientError(
                f"a copy of the store needs {needed // 10**6 + 1} MB of disk, and {folder} has "
                f"{free // 10**6} MB: give it room, or let retention take out more"
            )

    def _copy(
        self,
        target: str,
        until: Callable[[], bool],
        at_end: Callable[[], None],
        erased_to: int | None = None,
    ) -> bool:
        """Copy all rows into an attached file, and make the changes that come meanwhile there, too.

        Returns:
            False if it was given up.
        """
        old, done = _name(self._number), -1
        with self._writing:
            self._changes = []
            rests = [] if erased_to is None else self._root.execute(
                f"SELECT seq FROM {old}.erasures WHERE seq > $1", [erased_to]
            ).fetchall()  # fmt: skip
        try:
            with self._root.cursor() as connection:
                connection.execute(f"USE {target}")
                ends = [end for (end,) in connection.execute(_ENDS.format(old=old)).fetchall()]
                while (newest := self._newest(connection, old)) - done > _FEW:
                    end = next((end for end in ends if done < end < newest), newest - 1)
                    connection.execute("BEGIN")
                    _copy_rows(connection, old, done, end)
                    connection.execute("COMMIT")
                    done = end
                    if until():
                        return False
                connection.execute("CHECKPOINT")
                with self._writing:
                    connection.execute("BEGIN")
                    _copy_rows(connection, old, done, self._newest(connection, old))
                    for change in self._changes or ():
                        change(connection)
                    for rest in rests:
                        connection.execute("INSERT INTO erasures VALUES ($1)", rest)
                    connection.execute("INSERT INTO whole VALUES (0)")
                    connection.execute("COMMIT")
                    at_end()
            return True
        finally:
            self._changes = None

    def _use_file(self, new: int) -> None:
        """Have a copy take the place of the file."""
        sync_folder(self._folder)
        self._number = new
        self._use(self._writer)

    def newest_commit(self) -> int:
        """Number of the newest commit; 0 of an empty store."""
        return self._newest(self._root, _name(self._number))

    @staticmethod
    def _newest(connection: Duck, old: str) -> int:
        sql = f"SELECT coalesce(max(seq), 0) FROM {old}.offsets"
        found: tuple[int] = connection.execute(sql).fetchall()[0]
        return found[0]

    def free_ratio(self) -> float:
        """The part of the file that no row uses, from 0 to 1; rows that went count so, too."""
        _, total, free = self._blocks()
        return (free + self._dead_blocks()) / total if total else 0.0

    def used_bytes(self) -> int:
        """Bytes of the file that rows take; what DuckDB's log has is not in it yet."""
        block, total, free = self._blocks()
        return int(block * (total - free - self._dead_blocks()))

    def _blocks(self) -> tuple[int, int, int]:
        """Size of a block, blocks of the file, and those of them that are free."""
        rows = self.read(
            "SELECT database_name, block_size, total_blocks, free_blocks FROM"
            " pragma_database_size()"
        )
        block, total, free = next(sizes for name, *sizes in rows if name == _name(self._number))
        return block, total, free

    def _dead_blocks(self) -> float:
        """Blocks of rows that went: a group of rows is in the file until all of them went."""
        found = 0.0
        for table in _LARGE:
            ((live, stored, blocks),) = self.read(_STORED.format(table=table))
            found += blocks * max(0.0, 1 - live / stored) if stored else 0.0
        return found

    @contextmanager
    def with_room(self) -> Generator[None]:
        """Let DuckDB use all memory inside, which only a start may do: a filter takes 64 MB."""
        self._root.execute("RESET memory_limit")
        try:
            yield
        finally:
            self._root.execute(f"SET memory_limit = '{self._memory_bytes}B'")

    def checkpoint(self) -> None:
        """Write DuckDB's log into the file proper, which frees the blocks of what was taken out.

        Raises:
            TransientError: It cannot be done now.
        """
        with self._writing:
            try:
                self._writer.execute("CHECKPOINT")
            except duckdb.Error as error:
                if _INVALID.search(str(error)):
                    with suppress(duckdb.Error):  # the next commit tries again
                        self._open_again()
                raise TransientError(f"no checkpoint: {first_line(error)}") from error

    def size_bytes(self) -> int:
        """Size on disk of all files."""
        size = 0
        for file in self._folder.glob("store-*.duckdb*"):
            with suppress(FileNotFoundError):  # a copy took its place meanwhile
                size += file.stat().st_size
        return size

    def close(self) -> None:
        """Write everything into the file proper and close it; later reads and commits fail."""
        with self._writing:
            if self._is_closed:
                return
            self._is_closed = True
            self._writer.close()
        for pool, size in ((self._worker, 1), (self._people, _READERS)):
            connections = [pool.get() for _ in range(size)]
            for connection in connections:
                connection.close()
                pool.put(connection)
        self._root.close()

    def abandon(self) -> None:
        """Close the file and leave it, and its log, as they were found."""
        with suppress(duckdb.Error):  # of a file that is too damaged for it
            self._root.execute("PRAGMA disable_checkpoint_on_shutdown")
        self._root.close()


_LARGE: Final = ("spans", "bodies", "records", "evaluations", "task_results")
_STORED: Final = """
    SELECT (SELECT count(*) FROM {table}),
        coalesce(sum(count) FILTER (column_name = 'seq' AND segment_type <> 'VALIDITY'), 0)::BIGINT,
        count(DISTINCT block_id) + coalesce(sum(len(additional_block_ids)), 0)::BIGINT
    FROM pragma_storage_info('{table}') WHERE persistent
"""
_ENDS: Final = f"""
    SELECT max(seq) FROM (
        SELECT seq, sum(n) OVER (ORDER BY seq) // {_COPIED} AS part
        FROM (SELECT seq, count(*) AS n FROM {{old}}.spans GROUP BY seq)
    ) GROUP BY part ORDER BY 1
"""
"""The commits at which a step of a copy ends."""


def _copy_rows(connection: Duck, old: str, done: int, last: int) -> None:
    """Copy the rows of some commits into the file that the connection uses."""
    for table in COLUMNS:
        if table not in NOT_COPIED:
            connection.execute(
                f"INSERT INTO {table} SELECT * FROM {old}.{table} WHERE seq > $1 AND seq <= $2",
                [done, last],
            )


def duck_config(spill: Path, memory_bytes: int) -> dict[str, Any]:
    """Settings of DuckDB: what does not fit into memory goes into a folder."""
    return {
        "memory_limit": f"{memory_bytes}B",
        "temp_directory": str(spill),
        "python_enable_replacements": False,
        # Commits and reads run beside each other anyway; waking a helper for the few rows of a
        # commit costs up to a tenth of all the CPU.
        "threads": 1,
        # Joining small row groups writes everything several times, and stalls commits.
        "max_vacuum_tasks": 0,
        # Of rows that are listed in order only those of the page are read whole.
        "late_materialization_max_rows": _PAGE_ROWS,
    }


def _name(number: int) -> str:
    return f"store_{number}"


def insert(connection: Duck, table: str, rows: object) -> None:
    """Insert the rows of an Arrow table."""
    connection.register("new_rows", rows)
    try:
        connection.execute(f"INSERT INTO {table} SELECT * FROM new_rows")
    finally:
        connection.unregister("new_rows")
