"""The store's two databases."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from collector.store.file_store import FileStore
from tests.support.postgresql_server import PostgresqlServer
from tests.support.store_appends import AppendingPostgresql, AppendingStore
from tests.support.store_engines import Databases, PostgresqlStore


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """The server of all tests."""
    server = PostgresqlServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def databases(postgresql_server: PostgresqlServer) -> Databases:
    """Databases of it, with the tables of a fleet."""
    return Databases(postgresql_server)


@pytest.fixture(scope="session")
def postgresql(databases: Databases) -> Iterator[PostgresqlStore]:
    """The store of a fleet, one for all tests: each takes a space of its own."""
    with databases.one() as url, closing(PostgresqlStore(url)) as store:
        yield store


@pytest.fixture(params=["duckdb", "postgresql"])
def open_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], AppendingStore | AppendingPostgresql]]:
    """Opens a contract's store, on each database in turn, with the tables of this test alone."""
    if request.param == "duckdb":
        yield lambda: AppendingStore(tmp_path / "data")
        return
    databases: Databases = request.getfixturevalue("databases")
    opened: list[AppendingPostgresql] = []

    def one() -> AppendingPostgresql:
        opened.append(AppendingPostgresql(url))
        return opened[-1]

    with databases.one() as url:
        yield one
        for store in opened:
            store.close()


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
