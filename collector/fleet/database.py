"""Connections to PostgreSQL: made anew where one was lost, with errors of this program's own."""
# pyright: reportUnknownMemberType=false

import math
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias, TypeVar, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from collector.fleet.schema import columns_of
from collector.store.reads import Rows
from scouter.errors import ConfigError, DataError, ScouterError, TransientError

# All SQL is put together from this package's own words; values travel as parameters.


IDLE_S: Final = 10.0
"""A process that stands still inside a transaction loses it after so many seconds."""
WRITE_S: Final = 60.0
"""Longest statement of a commit: copying rows is one, and its process may stand still in it."""
READ_S: Final = 300.0
"""Longest read of people's."""
_CONNECT_S: Final = 10
_NUL: Final = "\0"
_NO_NUL: Final = "�"
"""PostgreSQL has no text with a NUL: U+FFFD takes its place, in rows and in questions alike."""
_LAST_WORDS: Final = frozenset({"FATAL", "PANIC"})
"""Severities of errors with which the server ends a connection."""
_TYPES: Final = {
    "BIGINT": "int8",
    "TEXT": "text",
    "TEXT[]": "text[]",
    "BYTEA": "bytea",
    "DOUBLE PRECISION": "float8",
}

_Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
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
    """The address of a database; its password is in no text but `url`.

    Args:
        url: A URL or DSN of libpq.

    Raises:
        ConfigError: It is neither.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = conninfo_to_dict(url)
        except psycopg.Error:  # its text may have the password
            raise ConfigError(
                "this is no address of a PostgreSQL database: give one such as"
                " postgresql://user:password@host:5432/database"
            ) from None
        self.url: Final = make_conninfo(
            url, **{name: each for name, each in _LIFE.items() if name not in parts}
        )
        host, port = parts.get("host") or "localhost", parts.get("port") or 5432
        self._name = f"{host}:{port}/{parts.get('dbname') or parts.get('user') or ''}"
        password = parts.get("password")
        self._password = str(password) if password else None

    def __str__(self) -> str:
        return self._name

    def text(self, error: BaseException) -> str:
        """The first line of an error, without the password."""
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        return line.replace(self._password, "…") if self._password else line


_LIFE: Final[Mapping[str, Any]] = {
    "connect_timeout": _CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


class Session:
    """A connection that is made anew where it was lost; used by one thread at a time.

    Args:
        address: The database.
        settings: Settings of PostgreSQL for each connection.
    """

    def __init__(self, address: Address, settings: Mapping[str, str]) -> None:
        self._address, self._settings = address, dict(settings)
        self._connection: _Connection | None = None
        self._is_closed = False
        self._is_inside = False
        """True inside a transaction: with its connection that is lost, too."""

    def _open(self) -> _Connection:
        if self._is_closed:
            raise TransientError("the store is closed")
        if self._connection is None or self._connection.closed:
            if self._is_inside:
                raise psycopg.OperationalError("the connection was lost")
            self._connection = None
            connection: _Connection = psycopg.connect(
                self._address.url, autocommit=True, cursor_factory=psycopg.RawCursor
            )
            try:
                pairs = ", ".join(
                    f"set_config(${2 * at + 1}, ${2 * at + 2}, false)"
                    for at in range(len(self._settings))
                )
                values = [each for pair in self._settings.items() for each in pair]
                connection.execute(cast("Any", f"SELECT {pairs}"), values)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read and fetch everything; once more if the connection was lost before.

        Raises:
            TransientError: PostgreSQL does not answer now.
        """
        was_open = self._connection is not None
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
        except (
            psycopg.OperationalError,
            psycopg.InterfaceError,
            psycopg.InternalError,
            psycopg.errors.UndefinedTable,  # another process has dropped a day
        ) as error:
            if error.diag.severity_nonlocalized in _LAST_WORDS and self._connection is not None:
                self._connection.close()  # the server has closed it, which may not be seen yet
            raise TransientError(
                f"PostgreSQL at {self._address} takes or gives nothing now ({self._text(error)});"
                " this goes on by itself once it does"
            ) from None

    def _text(self, error: BaseException) -> str:
        return self._address.text(error)

    def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()


class Pool:
    """Some sessions for reads, of which each is used by one thread at a time.

    Args:
        make: Makes a session.
        size: Number of them.
    """

    def __init__(self, make: Callable[[], Session], size: int) -> None:
        self._free = [make() for _ in range(size)]
        self._all: Final = tuple(self._free)
        self._given: Final = threading.Condition()

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read, once there is a session for it."""
        with self._given:
            self._given.wait_for(lambda: self._free)
            session = self._free.pop()
        try:
            return session.read(sql, parameters)
        finally:
            with self._given:
                self._free.append(session)
                self._given.notify()

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


def insist(action: Callable[[], T], most_s: float, pause_s: float = 0.2) -> T:
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
        time.sleep(pause_s)
