"""A small private SQLite file that several processes share, forked ones too."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from scouter.transport.process import watch

_PRIVATE: Final = 0o600
_PAUSE_S: Final = 0.02
_FORK_WAIT_S: Final = 0.5
_OF_PARENTS: Final[list[sqlite3.Connection | None]] = []
"""Stays open in forked children, where closing them would release the parent's locks."""


class ForeignFileError(sqlite3.DatabaseError):
    """The file is another program's, or of another form."""


class SqliteConnection:
    """One SQLite file in WAL mode, opened when it is first used; one thread uses it at a time.

    The file is made with the mode 0600, its folder with 0700. Readers and one writer do not wait
    for each other. A commit survives the end of the process, also by SIGKILL. A power cut never
    damages the file; it may take back the last commits that were not synced.

    A fork waits for the work in progress, half a second at most, and closes the connection first.
    SQLite takes a connection that was open at the fork for one of the child's own and leaves out
    the locks that the child needs: commits would vanish.

    Args:
        path: The file; made if it is not there.
        application_id: Written into the file, and expected in one that is there: so that no other
            program's file is taken for one of ours.
        schema: Statements that make the tables.
        wait_s: Most seconds to wait for another process that writes.
        settings: Pragmas for each connection, such as `secure_delete=ON`.
        form: Pragmas for a new file, such as `auto_vacuum=INCREMENTAL`; each of them is a write.
    """

    def __init__(
        self,
        path: Path,
        *,
        application_id: int,
        schema: tuple[str, ...],
        wait_s: float,
        settings: tuple[str, ...] = (),
        form: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self._application_id, self._schema, self._wait_s = application_id, schema, wait_s
        self._settings, self._form = settings, form
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self.number = 0
        """Inode of the file that was opened last; another file at the path has another number."""
        self._rests = False
        watch(self)

    def before_fork(self) -> None:
        """Close the connection, and let nobody open it until the fork is done."""
        self._rests = self._lock.acquire(timeout=_FORK_WAIT_S)
        connection = self._connection
        if self._rests and connection is not None and not connection.in_transaction:
            self._connection = None
            connection.close()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._rests:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Forget the parent's lock and, where the fork could not wait, its connection."""
        _OF_PARENTS.append(self._connection)
        self._lock = threading.RLock()
        self._connection = None

    @contextmanager
    def use(self) -> Generator[sqlite3.Connection]:
        """Have the connection for oneself.

        Raises:
            sqlite3.Error: The file cannot be used; `ForeignFileError` if it is somebody else's.
            OSError: The file or its folder cannot be made.
        """
        with self._lock:
            if self._connection is not None and not self._is_there():
                self.close()
            if self._connection is None:
                self._connection = self._open()
                self.number = self.path.stat().st_ino
            yield self._connection

    def _is_there(self) -> bool:
        """False once somebody has removed the file, or put another one in its place."""
        try:
            return self.path.stat().st_ino == self.number
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def copy_to(self, path: Path) -> None:
        """Copy the file to one that is not there yet, readable by its owner alone."""
        _make(path, os.O_EXCL)
        with self.use() as connection, closing(sqlite3.connect(path)) as copy:
            connection.backup(copy)

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(self.path)  # before SQLite opens it, which gives the files beside it the same mode
        connection = sqlite3.connect(
            self.path, timeout=self._wait_s, isolation_level=None, check_same_thread=False
        )
        deadline = time.monotonic() + self._wait_s
        try:
            while True:
                try:
                    self._prepare(connection)
                except sqlite3.OperationalError:
                    # Going over to WAL does not wait while another process does the same.
                    if time.monotonic() >= deadline:
                        raise
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    time.sleep(_PAUSE_S)
                else:
                    return connection
        except BaseException:
            connection.close()
            raise

    def _prepare(self, connection: sqlite3.Connection) -> None:
        for setting in self._settings:
            connection.execute(f"PRAGMA {setting}")
        if self._id_of(connection) != self._application_id:
            self._refuse_foreign(connection)
            for setting in self._form:
                connection.execute(f"PRAGMA {setting}")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            # Looked at again: another process may have made the tables meanwhile.
            if self._id_of(connection) != self._application_id:
                self._refuse_foreign(connection)
                for statement in self._schema:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id={self._application_id}")
            connection.execute("COMMIT")

    def _refuse_foreign(self, connection: sqlite3.Connection) -> None:
        # In this order: tables that another process makes meanwhile come with its id.
        has_tables = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None
        if has_tables and self._id_of(connection) != self._application_id:
            raise ForeignFileError("the file is another program's, or of another form")

    @staticmethod
    def _id_of(connection: sqlite3.Connection) -> int:
        found: int = connection.execute("PRAGMA application_id").fetchone()[0]
        return found


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Commit what is done meanwhile, or undo it where it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _make(path: Path, flags: int = 0) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | flags, _PRIVATE))


_T = TypeVar("_T")
_Outcome: TypeAlias = tuple[object, Exception | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """Something that is done in a transaction, and the future of what comes of it."""

    work: Callable[[sqlite3.Connection], object]
    is_synced: bool
    future: "Future[Any]" = field(default_factory=lambda: Future[Any]())


class _Group:
    """Calls that wait for the thread, and share a transaction when it comes to them."""

    def __init__(self, first: _Call) -> None:
        self._lock = threading.Lock()
        self._calls: list[_Call] | None = [first]

    def add(self, call: _Call) -> bool:
        """Add a call; False where it comes too late."""
        with self._lock:
            if self._calls is None:
                return False
            self._calls.append(call)
            return True

    def take(self) -> list[_Call]:
        """Let nobody in any more, and take those that are still wanted."""
        with self._lock:
            calls, self._calls = self._calls or [], None
        return [call for call in calls if call.future.set_running_or_notify_cancel()]


class SqliteFile:
    """One SQLite file, opened when it is first used.

    All that is done to it is done in one thread of its own, so that nobody's event loop waits for
    a disk or another process. Calls that wait for it at the same time share one transaction, and
    one sync of the disk; of each, all is done or nothing, and none is answered before what it did
    is committed. See `SqliteConnection` for what survives a kill, a power cut and a fork.

    Deleted rows are overwritten with zeros (`secure_delete`). After `erase` they are out of the log
    beside the file as well, so that no byte of them is left.

    Args:
        path: The file; made if it is not there.
        application_id: Written into the file, and expected in one that is there: so that no other
            program's file is taken for one of ours.
        schema: Statements that make the tables.
        wait_s: Most seconds to wait for another process that writes.
    """

    def __init__(
        self, path: str | Path, *, application_id: int, schema: tuple[str, ...], wait_s: float
    ) -> None:
        self.path = Path(path)
        self._file = SqliteConnection(
            self.path,
            application_id=application_id,
            schema=schema,
            wait_s=wait_s,
            settings=("secure_delete=ON",),
        )
        self._start_anew()
        watch(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def after_fork_in_child(self) -> None:
        """Forget the thread, which is the parent's."""
        self._start_anew()

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._group: _Group | None = None
        """Group of calls that the next call can still join; None after any other request."""

    def run(
        self, work: Callable[[sqlite3.Connection], _T], *, is_synced: bool = False
    ) -> "Future[_T]":
        """Do something that may write, behind all that was requested before.

        Args:
            work: Does it; what it did is undone where it raises.
            is_synced: Have it survive a power cut as well; costs the time of one sync of the disk.

        Returns:
            The future of what `work` returns. It raises what `work` raises, and `sqlite3.Error` or
            `OSError` where the file cannot be used; nothing is done then.
        """
        call = _Call(work=work, is_synced=is_synced)
        with self._lock:
            if self._group is None or not self._group.add(call):
                group = self._group = _Group(call)
                self._start(lambda: self._run(group))
        return call.future

    def read(self, work: Callable[[sqlite3.Connection], _T]) -> "Future[_T]":
        """Read something, without waiting for who writes; the same otherwise."""

        def read() -> _T:
            with self._file.use() as connection:
                return work(connection)

        return self._submit(read)

    def erase(self, work: Callable[[sqlite3.Connection], object]) -> "Future[None]":
        """Delete something for good; where the future raises, bytes of it may be left."""

        def transact() -> None:
            ((_, error),) = self._transact([_Call(work=work, is_synced=True)])
            if error is not None:
                raise error
            self._empty_log()

        return self._submit(transact)

    def copy_to(self, path: Path) -> "Future[None]":
        """Copy the file as it is now, while others may go on writing.

        Args:
            path: The copy; it must not be there yet. It is readable by its owner alone.
        """
        return self._submit(lambda: self._file.copy_to(path))

    def _submit(self, work: Callable[[], _T]) -> "Future[_T]":
        with self._lock:
            self._group = None  # so that who comes later is behind this
            return self._start(work)

    def _start(self, work: Callable[[], _T]) -> "Future[_T]":
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="scouter-sqlite")
        return self._thread.submit(work)

    def _run(self, group: _Group) -> None:
        calls = group.take()
        try:
            outcomes = self._transact(calls) if calls else []
        except BaseException as error:  # noqa: BLE001 — raised again where it is waited for
            for call in calls:
                call.future.set_exception(error)
            return
        for call, (found, error) in zip(calls, outcomes, strict=True):
            if error is None:
                call.future.set_result(found)
            else:
                call.future.set_exception(error)

    def _transact(self, calls: Sequence[_Call]) -> list[_Outcome]:
        is_synced = any(call.is_synced for call in calls)
        with self._file.use() as connection:
            connection.execute(f"PRAGMA synchronous={'FULL' if is_synced else 'NORMAL'}")
            with transaction(connection):
                return [_done(connection, call) for call in calls]

    def _empty_log(self) -> None:
        """Bring the log beside the file into it, and leave nothing in it."""
        with self._file.use() as connection:
            # Answers with: is somebody in the way, frames in the log, frames that were moved.
            (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise sqlite3.OperationalError("another process is reading the file")

    def close(self) -> None:
        """Wait for what was started, and close the file; a later call opens it again."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return
            thread.shutdown()
            self._file.close()


IN_MEMORY: Final = ":memory:"
"""Path that stands for no file."""


class SqliteMemory:
    """The same tables in memory, for one process; each call is done before it returns.

    Args:
        schema: Statements that make the tables.
    """

    def __init__(self, schema: tuple[str, ...]) -> None:
        self.path = Path(IN_MEMORY)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(IN_MEMORY, isolation_level=None, check_same_thread=False)
        for statement in schema:
            self._connection.execute(statement)

    def run(
        self, work: Callable[[sqlite3.Connection], _T], *, is_synced: bool = False
    ) -> "Future[_T]":
        """Do something; what it did is undone where it raises."""
        del is_synced  # nothing outlives the process
        future: Future[_T] = Future()
        with self._lock:
            try:
                with transaction(self._connection):
                    found = work(self._connection)
            except Exception as error:  # noqa: BLE001 - raised again where it is waited for
                future.set_exception(error)
            else:
                future.set_result(found)
        return future

    read = erase = run

    def close(self) -> None:
        """Nothing is open; what is in it stays for a later call."""

    def __del__(self) -> None:
        self._connection.close()


def sqlite_at(
    path: str | Path, *, application_id: int, schema: tuple[str, ...], wait_s: float
) -> SqliteFile | SqliteMemory:
    """Give the tables of a file, or of `IN_MEMORY`; see `SqliteFile`."""
    if str(path) == IN_MEMORY:
        return SqliteMemory(schema)
    return SqliteFile(path, application_id=application_id, schema=schema, wait_s=wait_s)


def _done(connection: sqlite3.Connection, call: _Call) -> _Outcome:
    """Do all of a call, or nothing, within a transaction that others share."""
    connection.execute("SAVEPOINT call")
    try:
        found = call.work(connection)
    except Exception as error:
        if not connection.in_transaction:
            raise  # as where the disk is full: SQLite has undone what the others did as well
        connection.execute("ROLLBACK TO call")
        connection.execute("RELEASE call")
        return None, error
    connection.execute("RELEASE call")
    return found, None
