"""An empty database of the tests' PostgreSQL for each test, or a server that it may crash."""

import itertools
from collections.abc import Iterator

import pytest

from collector.fleet.store import FleetStore
from tests.support.postgresql_server import PostgresqlServer

_numbers = itertools.count(1)


@pytest.fixture
def own_server() -> Iterator[PostgresqlServer]:
    """A server of this test alone, which may crash it."""
    server = PostgresqlServer()
    yield server
    server.stop()


@pytest.fixture
def url(postgresql_server: PostgresqlServer) -> str:
    """The address of an empty database."""
    return postgresql_server.new_database(f"fleet_{next(_numbers)}")


@pytest.fixture
def fleet(url: str) -> Iterator[FleetStore]:
    """An empty store of four partitions."""
    store = FleetStore(url)
    store.fix_partitions(4)
    yield store
    store.close()
