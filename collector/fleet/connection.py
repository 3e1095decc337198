"""A connection to the fleet's PostgreSQL that is made anew after it was lost."""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from scouter.errors import ConfigError, DataError, ScouterError, TransientError

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
"""Each statement is a transaction, unless one was begun; parameters are `$1` and so on."""
_T = TypeVar("_T")

_MAKING: Final = 0x53636F7574657231
"""Advisory lock of who makes tables: "Scouter1"."""
_REST_S: Final = 0.5
"""After a failed attempt to connect, the next one waits so long: the others fail at once."""
_PATIENCE: Final[Mapping[str, int]] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Of a network that swallows what is sent; a URL may say otherwise."""
_SESSION: Final = (
    "SET statement_timeout = '30s'; SET lock_timeout = '10s'; "
    "SET idle_in_transaction_session_timeout = '5s'; "
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'"
)
"""Nobody waits for ever, also not for a process that was frozen in a transaction; and what is
committed is on the disk."""
_PATIENCE_S: Final = 35.0
"""Longer than any statement may take: a server that has not answered by then is frozen."""
_LOST: Final = ("08", "57P", "25P03", "25006")
"""SQLSTATEs, or how they begin, after which only a new connection helps.

The server has ended the session, or takes no writes any more: another one may have its place.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Tables that belong together, and are made together."""

    name: str
    """One of them: if it is there, all are."""
    statements: tuple[LiteralString, ...]


class Link:
    """One connection to a database, opened when it is first used; any thread.

    What is asked for is done one after another. If the connection was lost since it was last used,
    as where the server was started again, what is asked for is done once more on a new one: so it
    has to be something that may be done twice.

    Args:
        url: Such as `postgresql://scouter@db.example:5432/scouter`.
        password: Of the user, if it is not in the URL.
        patience_s: After so many seconds without an answer, the connection counts as lost.
        clock: Monotonic seconds.

    Raises:
        ConfigError: The URL is none.
    """

    def __init__(
        self,
        url: str,
        password: str | None = None,
        *,
        patience_s: float = _PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            found = conninfo_to_dict(url, **({} if password is None else {"password": password}))
        except psycopg.Error:
            # The error quotes the URL, and so the password.
            raise ConfigError("postgresql: expected postgresql://USER@HOST:PORT/DATABASE") from None
        self.where: Final = _where(found)
        """Host, port and database, for people."""
        usual: dict[str, Any] = {**_PATIENCE, "application_name": "scouter"}
        self._url = make_conninfo("", **{**usual, **found})
        words = (found.get("password"), found.get("sslpassword"))
        self._secrets = [str(each) for each in words if each]
        self._patience_s, self._clock = patience_s, clock
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._watch: _Watch | None = None
        self._made: set[str] = set()
        self._failed: tuple[float, str] | None = None
        """Time and text of the last attempt to connect, if it failed."""
        self._starting = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return f"Link({self.where!r})"

    def run(self, work: Callable[[Connection], _T], tables: Tables | None = None) -> _T:
        """Do something on the connection.

        Args:
            work: Does it; may be called a second time after the connection was lost.
            tables: Made before, where they are not there.

        Raises:
            TransientError: The database cannot be used now; it is not known whether the work was
                done.
            DataError: It refuses a value.
        """
        with self._lock:
            is_fresh = self._connection is None
            try:
                return self._attempt(work, tables)
            except psycopg.Error as error:
                if is_fresh or self._connection is not None:  # it is as good as it was
                    raise self.error(error) from error
            try:
                return self._attempt(work, tables)
            except psycopg.Error as error:
                raise self.error(error) from error

    def submit(
        self, work: Callable[[Connection], _T], tables: Tables | None = None
    ) -> "Future[_T]":
        """Do the same in a thread of its own, so that an event loop does not wait."""
        with self._starting:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="scouter-postgresql")
            return self._thread.submit(self.run, work, tables)

    def error(self, error: psycopg.Error) -> ScouterError:
        """What is raised for an error of PostgreSQL; its text names the place, and no secret."""
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        for each in self._secrets:
            text = text.replace(each, "***")
        told = f"PostgreSQL at {self.where}: {text}"
        return DataError(told) if isinstance(error, psycopg.DataError) else TransientError(told)

    def close(self) -> None:
        """Wait for what was begun, and close the connection; a later call opens it again."""
        with self._starting:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()
        with self._lock:
            self._drop()
            self._failed = None

    def _attempt(self, work: Callable[[Connection], _T], tables: Tables | None) -> _T:
        connection, watch = self._open()
        watch.begin()
        try:
            if tables is not None and tables.name not in self._made:
                _make(connection, tables)
                self._made.add(tables.name)
            return work(connection)
        except psycopg.Error as error:
            if connection.closed or _is_lost(error):
                self._drop()
            raise
        finally:
            watch.end()

    def _open(self) -> "tuple[Connection, _Watch]":
        """The connection, made anew if there is none, and its watch.

        Raises:
            TransientError: There can be none now.
        """
        if self._connection is not None and self._watch is not None:
            return self._connection, self._watch
        if self._failed is not None and self._clock() < self._failed[0] + _REST_S:
            raise TransientError(self._failed[1])
        try:
            made: Connection = psycopg.connect(
                self._url, autocommit=True, cursor_factory=psycopg.RawCursor[tuple[Any, ...]]
            )
            try:
                made.execute(_SESSION)
            except BaseException:
                made.close()
                raise
        except psycopg.Error as error:
            told = self.error(error)
            self._failed = self._clock(), str(told)
            raise told from error
        self._connection, self._failed = made, None
        self._watch = _Watch(made, self._patience_s)
        return made, self._watch

    def _drop(self) -> None:
        """Forget the connection; what was made may be gone with the database."""
        if self._watch is not None:
            self._watch.close()
        if self._connection is not None:
            self._connection.close()
        self._connection = self._watch = None
        self._made.clear()


class _Watch:
    """Cuts a connection whose server does not answer, though its machine is there.

    No time limit of the server helps then, nor one of TCP.

    Args:
        connection: The connection.
        patience_s: Longest time between begin and end.
    """

    def __init__(self, connection: Connection, patience_s: float) -> None:
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._patience_s = patience_s
        self._until: float | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="scouter-postgresql-watch", daemon=True).start()

    def begin(self) -> None:
        """Something is asked for."""
        self._until = time.monotonic() + self._patience_s

    def end(self) -> None:
        """It was answered."""
        self._until = None

    def close(self) -> None:
        """End."""
        self._closed.set()

    def _run(self) -> None:
        with self._socket:
            while not self._closed.wait(self._patience_s / 8):
                until = self._until
                if until is not None and time.monotonic() > until:
                    with suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)
                    return


def _make(connection: Connection, tables: Tables) -> None:
    """Make tables that are not there: one process at a time, all of them or none."""

    def is_there() -> bool:
        # Not `to_regclass`, which may remember what it looked for in vain.
        found = connection.execute(
            "SELECT 1 FROM pg_class "
            "WHERE relname = $1 AND relnamespace = current_schema()::regnamespace",
            (tables.name,),
        ).fetchone()
        return found is not None

    if is_there():  # who may make no tables can use those of others
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock($1)", (_MAKING,))
        if not is_there():
            for each in tables.statements:
                connection.execute(each)


def _is_lost(error: psycopg.Error) -> bool:
    if error.sqlstate is not None:
        return error.sqlstate.startswith(_LOST)
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def _where(parameters: Mapping[str, Any]) -> str:
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    return f"{host}:{parameters.get('port') or 5432}/{parameters.get('dbname') or ''}".rstrip("/")
