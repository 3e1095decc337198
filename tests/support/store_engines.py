"""The store on PostgreSQL as its contracts see it: the whole, and one share of it."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import psycopg

from collector.fleet.store import FleetStore
from collector.store.commit import Commit
from collector.store.reads import Change
from tests.support.postgresql_server import PostgresqlServer


class PostgresqlStore(FleetStore):
    """The whole of a fleet, to which the owner of its one partition commits.

    Args:
        url: The database.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.fix_partitions(1)
        self.share = self.take(0, "contract")

    def commit(self, rows: Commit) -> int:
        """Store rows, as a worker does."""
        return self.share.commit(rows)

    def observe_commits(self, observe: Callable[[float], None]) -> None:
        """Of the worker."""
        self.share.observe_commits(observe)

    def appending(self) -> AbstractContextManager[None]:
        """Nobody else appends."""
        return self.share.alone()

    def make(self, changes: Sequence[Change]) -> None:
        """Make changes as the store does."""
        self.write({}, changes)

    def close(self) -> None:
        self.share.close()
        super().close()


_FILLED: Final = """
    SELECT c.relname::TEXT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relkind = 'r' AND c.relname <> 'meta'
      AND pg_relation_size(c.oid) > 0
"""
_DAYS: Final = """
    SELECT tablename::TEXT FROM pg_tables WHERE schemaname = 'public' AND tablename ~ '_[0-9]+$'
"""


class Databases:
    """Databases of a server, each with the empty tables of a fleet.

    They are used again, as making one takes longer than most tests.

    Args:
        server: The server.
    """

    def __init__(self, server: PostgresqlServer) -> None:
        self._server, self._number = server, 0
        self._free: list[str] = []

    @contextmanager
    def one(self) -> Generator[str]:
        """A database for one; its address."""
        if not self._free:
            self._number += 1
            self._free.append(self._server.new_database(f"contract_{self._number}"))
            PostgresqlStore(self._free[0]).close()
        url = self._free.pop()
        yield url
        with psycopg.connect(url, autocommit=True) as connection:
            _empty(connection)
        self._free.append(url)


def _empty(connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
    """Make everything as it was when the tables were made."""
    for sql, change in ((_DAYS, "DROP TABLE"), (_FILLED, "TRUNCATE")):
        names = [str(name) for (name,) in connection.execute(sql.encode()).fetchall()]
        if names:
            connection.execute(f"{change} {', '.join(names)}".encode())
    connection.execute(b"ALTER SEQUENCE commit_numbers RESTART")
    connection.execute(b"UPDATE meta SET value = '0' WHERE key = 'added_up'")
