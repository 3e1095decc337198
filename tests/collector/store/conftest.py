"""The store's two databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.store.store import Store
from tests.support.postgresql_server import PostgresqlServer
from tests.support.store_engines import PostgresqlStore


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlStore]:
    """The reads on PostgreSQL, in one database for all tests: each takes a space of its own."""
    server = PostgresqlServer()
    try:
        with server.connect() as connection:
            yield PostgresqlStore(connection)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def duckdb_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The store, once for all tests of a file: each takes a space of its own."""
    store = Store(tmp_path_factory.mktemp("store"))
    yield store
    store.close()


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def engine(request: pytest.FixtureRequest) -> Store | PostgresqlStore:
    """Each of the two in turn."""
    name = "duckdb_store" if request.param == "duckdb" else "postgresql"
    return request.getfixturevalue(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder that is not there yet."""
    return tmp_path / "data"
