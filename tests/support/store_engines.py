"""The store on PostgreSQL as its contracts see it: the whole, and one share of it."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager

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


class Databases:
    """Empty databases of a server, each with the tables of a fleet.

    Args:
        server: The server.
    """

    def __init__(self, server: PostgresqlServer) -> None:
        self._server, self._number = server, 0
        PostgresqlStore(server.new_database("pattern")).close()

    @contextmanager
    def one(self) -> Generator[str]:
        """A database; its address."""
        self._number += 1
        name = f"contract_{self._number}"
        yield self._server.new_database(name, "pattern")
        self._server.drop_database(name)
