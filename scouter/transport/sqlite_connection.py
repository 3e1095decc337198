"""A connection to a small SQLite file that several processes share, forked ones too."""

import os
import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from scouter.transport.fork import rest_at_forks

_PRIVATE: Final = 0o600
_PAUSE_S: Final = 0.02
_FORK_WAIT_S: Final = 0.5
_OF_PARENTS: Final[list[sqlite3.Connection | None]] = []
"""Kept open in forked children, where closing them would release the parent's locks."""


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
        rest_at_forks(self)

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
