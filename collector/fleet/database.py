"""Connections to PostgreSQL: made anew where one was lost, with errors of this program's own."""
# pyright: reportUnknownMemberType=false

import math
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar, cast

import psycopg
from psycopg import pq
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.waiting import Ready

from collector.fleet.schema import BESIDE, MAKE, columns_of
from collector.store.reads import Rows
from scouter.errors import ConfigError, DataError, ScouterError, TransientError

# All SQL is put together from this package's own words; values travel as parameters.


IDLE_S: Final = 10.0
"""A process that stands still inside a transaction loses it after so many seconds."""
WRITE_S: Final = 60.0
"""Longest statement of a commit: copying rows is one, and its process may stand still in it."""
READ_S: Final = 300.0
"""Longest read of people's."""
_LIFE: Final[Mapping[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Of a network that swallows what is sent; an address may say otherwise."""
_ANSWER_S: Final = 5.0
"""Behind the longest statement: a server that has not answered by then is frozen."""
_REST_S: Final = 0.5
"""After a failed attempt to connect, the next one waits so long: the others fail at once."""
_NUL: Final = "\0"
_NO_NUL: Final = "�"
"""PostgreSQL has no text with a NUL: U+FFFD takes its place, in rows and in questions alike."""
_LAST_WORDS: Final = frozenset({"FATAL", "PANIC"})
"""Severities of errors with which the server ends a connection."""
_READ_ONLY: Final = "25006"
"""SQLSTATE of a server that takes no writes any more: another one may have its place."""
_FULL: Final = ("too many", "connection slots")
"""Errors of a server without room for one more connection: waiting helps."""
_TYPES: Final = {
    "BIGINT": "int8",
    "TEXT": "text",
    "TEXT[]": "text[]",
    "BYTEA": "bytea",
    "DOUBLE PRECISION": "float8",
}

_DURABLE: Final = (
    "SELECT CASE WHEN current_setting('synchronous_commit') = 'off'"
    " THEN set_config('synchronous_commit', 'on', false) END"
)
"""A commit is on the disk, whatever the database is set to."""
_IS_THERE: Final = (
    "SELECT 1 FROM pg_class WHERE relname = $1 AND relnamespace = current_schema()::regnamespace"
)
"""Not `to_regclass`, which may remember what it looked for in vain."""
T = TypeVar("T")


class ConflictError(ScouterError):
    """Rows do not fit to what others have stored meanwhile.

    Written again they would not fit either: the worker begins anew from the store.
    """


class UnknownEndError(TransientError):
    """The connection was lost while a transaction ended: nobody knows whether it is stored."""


class NoDayError(TransientError):
    """There is no table for the day of a row."""


class Address:
    """The address of a database; its passwords are in no text but `url`.

    Args:
        url: A URL or DSN of libpq.
        password: Of the user, if it is not in the URL.

    Raises:
        ConfigError: It is neither.
    """

    def __init__(self, url: str, password: str | None = None) -> None:
        try:
            parts = conninfo_to_dict(url, **({} if password is None else {"password": password}))
        except psycopg.Error:  # its text may have the password
            raise ConfigError("postgresql: expected postgresql://USER@HOST:PORT/DATABASE") from None
        self.url: Final = make_conninfo("", **{**_LIFE, **parts})
        host = parts.get("host") or parts.get("hostaddr") or "localhost"
        name = parts.get("dbname") or parts.get("user") or ""
        self._name = f"{host}:{parts.get('port') or 5432}/{name}"
        words = (parts.get("password"), parts.get("sslpassword"))
        self._secrets = [str(each) for each in words if each]

    def __str__(self) -> str:
        return self._name

    def check(self) -> None:
        """Look whether a server is there that lets this process in.

        Raises:
            ConfigError: It is up, and refuses.
            TransientError: None answers now, or none has room for one more.
        """
        # A standby that is to be the next primary refuses nobody.
        url = make_conninfo(self.url, target_session_attrs="any")
        for is_again in (False, True):
            try:
                psycopg.connect(url).close()
                return
            except psycopg.OperationalError as error:
                said = self.text(error)
                # The driver does not give the SQLSTATE of a refusal, but libpq knows which one a
                # server has while it starts. What was refused then is tried once more. A ping
                # stops all threads: none where nobody answers.
                is_up = (
                    not isinstance(error, psycopg.errors.ConnectionTimeout)
                    and pq.PGconn.ping(url.encode()) == pq.Ping.OK
                )
                if not is_up or any(each in said for each in _FULL):
                    raise TransientError(f"PostgreSQL at {self} is away ({said})") from None
                if is_again:
                    raise ConfigError(
                        f"PostgreSQL at {self} does not let this process in ({said}): check user,"
                        " password and database"
                    ) from None

    def text(self, error: BaseException) -> str:
        """The first line of an error, without the passwords."""
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        for each in self._secrets:
            line = line.replace(each, "***")
        return line


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """Gives up a server that does not answer, though its machine is there.

    No time limit of the server helps then, nor one of TCP.
    """

    most_s = math.inf

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:  # noqa: ANN401 as psycopg's
        """Wait for the answer to a statement."""
        return super().wait(_within(gen, self.most_s), *args, **kwargs)


def _within(gen: PQGen[T], most_s: float) -> PQGen[T]:
    until = time.monotonic() + most_s
    try:
        ready = yield next(gen)
        while ready != Ready.NONE or time.monotonic() < until:
            ready = yield gen.send(ready)
    except StopIteration as end:
        return end.value
    raise psycopg.OperationalError(f"no answer for {most_s:g} s")


class Session:
    """A connection that is opened when it is first used, and made anew where it was lost.

    `run`, `submit` and `drop` are for any thread, all else for one at a time.

    Args:
        address: The database.
        settings: Settings of PostgreSQL for each connection.
        answer_s: So many seconds after its longest statement, a server without an answer counts as
            lost.
        tables: Statements that make the tables which `run` and `submit` find there; if the first
            one is there, all are.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        address: Address,
        settings: Mapping[str, str],
        *,
        answer_s: float = _ANSWER_S,
        tables: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address: Final = address
        self._settings, self._tables, self._clock = dict(settings), tables, clock
        statement_s = int(self._settings["statement_timeout"]) / 1000
        self._most_s = statement_s + answer_s if statement_s else math.inf
        self._connection: _Connection | None = None
        self._is_closed = False
        self._is_inside = False
        """True inside a transaction: with its connection that is lost, too."""
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scouter-postgresql")
        self._has_tables = False
        self._failed: tuple[float, str] | None = None
        """Time and text of the last `run`, if it left no connection."""

    def _open(self) -> _Connection:
        if self._is_closed:
            raise TransientError("the store is closed")
        if self._connection is None or self._connection.closed:
            if self._is_inside:
                raise psycopg.OperationalError("the connection was lost")
            self._connection = None
            self._has_tables = False  # they may be gone with the database
            connection = _Connection.connect(
                self.address.url, autocommit=True, cursor_factory=psycopg.RawCursor
            )
            connection.most_s = self._most_s
            try:
                pairs = "".join(
                    f", set_config(${2 * at + 1}, ${2 * at + 2}, false)"
                    for at in range(len(self._settings))
                )
                values = [each for pair in self._settings.items() for each in pair]
                connection.execute(cast("Any", f"{_DURABLE}{pairs}"), values)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def run(self, work: "Callable[[Session], T]") -> T:
        """Do something, one after another; once more if the connection was lost.

        Args:
            work: Does it with this session; something that may be done twice.

        Raises:
            TransientError: The database cannot be used now; it is not known whether the work was
                done.
            DataError: It refuses a value.
        """
        with self._lock:
            if self._failed is not None and self._clock() < self._failed[0] + _REST_S:
                raise TransientError(self._failed[1])
            was_open = self._is_alive
            try:
                return self._attempt(work)
            except TransientError:
                if not was_open or self._is_alive:
                    raise
            return self._attempt(work)

    def submit(self, work: "Callable[[Session], T]") -> "Future[T]":
        """Do the same in a thread of its own, so that an event loop does not wait."""
        return self._thread.submit(self.run, work)

    def _attempt(self, work: "Callable[[Session], T]") -> T:
        self._failed = None
        try:
            self._need_tables()
            return work(self)
        except TransientError as error:
            if not self._is_alive:
                self._failed = self._clock(), str(error)
            raise

    def _need_tables(self) -> None:
        """Make tables that are not there: one process at a time, all of them or none."""
        if not self._tables or self._has_tables:
            return
        name = self._tables[0].split()[2]
        if not self.read(_IS_THERE, [name]):  # who may make no tables can use those of others
            with self.transaction():
                self.read(f"SELECT pg_advisory_xact_lock({MAKE})")
                if not self.read(_IS_THERE, [name]):
                    for each in self._tables:
                        self.read(each)
        self._has_tables = True

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read and fetch everything; once more if the connection was lost before.

        Raises:
            TransientError: PostgreSQL does not answer now.
        """
        was_open = self._is_alive
        try:
            return self._run(sql, parameters)
        except TransientError:
            if self._is_inside or not was_open or self._is_alive:
                raise
        return self._run(sql, parameters)

    @property
    def _is_alive(self) -> bool:
        return self._connection is not None and not self._connection.closed

    def _run(self, sql: str, parameters: Sequence[object]) -> Rows:
        with self.errors():
            cursor = self._open().execute(cast("Any", sql), [plain(each) for each in parameters])
            return [] if cursor.description is None else cursor.fetchall()

    def execute(self, query: str, parameters: list[object], /) -> object:
        """Run a statement of a transaction; see `collector.store.reads.Connection`."""
        return self._run(query, parameters)

    @contextmanager
    def transaction(self) -> Generator[None]:
        """A transaction that is stored at the end, or not at all.

        Raises:
            TransientError: PostgreSQL takes nothing now; nothing has changed.
            UnknownEndError: It may be stored.
        """
        self.read("BEGIN")
        self._is_inside = True
        try:
            yield
            self._commit()
        except BaseException:
            with suppress(TransientError):
                if self._is_alive:
                    self._run("ROLLBACK", ())
            raise
        finally:
            self._is_inside = False

    def _commit(self) -> None:
        try:
            self._run("COMMIT", ())
        except TransientError as error:
            if not self._is_alive:
                raise UnknownEndError(str(error)) from error
            raise

    def copy(self, table: str, rows: Iterable[Sequence[object]]) -> None:
        """Append rows to a table, with all its columns, inside a transaction."""
        columns = columns_of(table)
        names = ", ".join(name for name, _ in columns)
        sql = f"COPY public.{table} ({names}) FROM STDIN (FORMAT binary)"
        with self.errors(), self._open().cursor().copy(cast("Any", sql)) as copy:
            copy.set_types([_TYPES[kind] for _, kind in columns])
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def errors(self) -> Generator[None]:
        """Raise errors of this program's own in place of the driver's."""
        try:
            yield
        except psycopg.errors.UniqueViolation as error:
            raise ConflictError(f"another partition has stored this: {self._text(error)}") from None
        except psycopg.errors.CheckViolation as error:
            raise NoDayError(self._text(error)) from None
        except (psycopg.DataError, UnicodeEncodeError, OverflowError) as error:
            raise DataError(f"a value cannot be stored: {self._text(error)}") from None
        except psycopg.Error as error:
            if self._connection is not None and _is_last(error):
                self._connection.close()  # the server may have done so, which is not seen yet
            raise TransientError(
                f"PostgreSQL at {self.address} takes or gives nothing now ({self._text(error)});"
                " this goes on by itself once it does"
            ) from None

    def _text(self, error: BaseException) -> str:
        return self.address.text(error)

    def drop(self) -> None:
        """Wait for what was started, and close the connection; a later use opens another one."""
        with self._lock:
            self._failed = None
            if self._connection is not None:
                self._connection.close()

    def close(self) -> None:
        """Close the connection, for good."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()


def _is_last(error: psycopg.Error) -> bool:
    """True if only a new connection helps."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate == _READ_ONLY or error.diag.severity_nonlocalized in _LAST_WORDS


class Pool:
    """Some sessions for reads, of which each is used by one thread at a time.

    Args:
        make: Makes a session.
        size: Number of them.
    """

    def __init__(self, make: Callable[[], Session], size: int) -> None:
        self._all: Final = tuple(make() for _ in range(size))
        self._free: queue.LifoQueue[Session] = queue.LifoQueue()
        for each in self._all:
            self._free.put(each)

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read, once there is a session for it."""
        session = self._free.get()
        try:
            return session.read(sql, parameters)
        finally:
            self._free.put(session)

    def close(self) -> None:
        """Close them all."""
        for session in self._all:
            session.close()


def plain(value: object) -> object:
    """A value as PostgreSQL takes it: U+FFFD in the place of each NUL, also in lists."""
    if isinstance(value, str):
        return value.replace(_NUL, _NO_NUL) if _NUL in value else value
    if isinstance(value, list | tuple):
        return [plain(each) for each in cast("Sequence[object]", value)]
    return value


def settings(
    name: str,
    *,
    search_path: str = "public",
    statement_s: float = 0.0,
    idle_s: float = IDLE_S,
) -> dict[str, str]:
    """Settings of a connection.

    Args:
        name: Shown by PostgreSQL as `application_name`.
        search_path: Schemas that tables are looked for in.
        statement_s: Seconds of the longest statement; 0 for any.
        idle_s: Seconds after which a transaction is ended whose process stands still.
    """
    return {
        "application_name": name,
        "search_path": search_path,
        "statement_timeout": f"{math.ceil(statement_s * 1000)}",
        "idle_in_transaction_session_timeout": f"{math.ceil(idle_s * 1000)}",
        "timezone": "UTC",
        "jit": "off",
    }


def open_beside(
    url: str, password: str | None = None, *, clock: Callable[[], float] = time.monotonic
) -> Session:
    """Open a session for what is beside the store: tokens, money, answers, notes.

    Nobody waits for ever, also not for a process that was frozen in a transaction.

    Args:
        url: The database.
        password: Of the user, if it is not in the URL.
        clock: Monotonic seconds.

    Raises:
        ConfigError: The URL is none.
    """
    return Session(
        Address(url, password),
        settings("scouter", statement_s=30.0, idle_s=5.0),
        tables=BESIDE,
        clock=clock,
    )


def insist(action: Callable[[], T], most_s: float) -> T:
    """Try something for some seconds, as long as PostgreSQL does not answer.

    Raises:
        TransientError: It did not answer for so long.
    """
    until = time.monotonic() + most_s
    while True:
        try:
            return action()
        except TransientError:
            if time.monotonic() >= until:
                raise
        time.sleep(0.2)
