"""A small SQLite file that several processes share: private, and read and written in one thread."""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from scouter.transport.fork import watch
from scouter.transport.sqlite_connection import SqliteConnection, transaction

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
        """Do something that may write, behind all that was asked for before.

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
        """Wait for what was begun, and close the file; a later call opens it again."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return
            thread.shutdown()
            self._file.close()


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
