"""The store's two databases."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.store.file_store import FileStore
from tests.support.postgresql_server import PostgresqlServer
from tests.support.store_appends import AppendingPostgresql, AppendingStore
from tests.support.store_engines import PostgresqlStore

_schemas = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """The server of all tests."""
    server = PostgresqlServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgresql(postgresql_server: PostgresqlServer) -> Iterator[PostgresqlStore]:
    """The reads on PostgreSQL, in one schema for all tests: each takes a space of its own."""
    with postgresql_server.connect() as connection:
        yield PostgresqlStore(connection)


@pytest.fixture(params=["duckdb", "postgresql"])
def open_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], AppendingStore | AppendingPostgresql]]:
    """Opens a contract's store, on each database in turn, with the tables of this test alone."""
    if request.param == "duckdb":
        yield lambda: AppendingStore(tmp_path / "data")
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql_server")
    schema = f"contract_{next(_schemas)}"
    with server.connect() as connection:
        for statement in ("CREATE SCHEMA", "SET search_path TO"):
            connection.execute(f"{statement} {schema}".encode())
        store = AppendingPostgresql(connection)
        yield lambda: store
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


@pytest.fixture(scope="module")
def duckdb_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileStore]:
    """The store, once for all tests of a file: each takes a space of its own."""
    store = FileStore(tmp_path_factory.mktemp("store"))
    yield store
    store.close()


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def engine(request: pytest.FixtureRequest) -> FileStore | PostgresqlStore:
    """Each of the two in turn."""
    name = "duckdb_store" if request.param == "duckdb" else "postgresql"
    return request.getfixturevalue(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder that is not there yet."""
    return tmp_path / "data"
