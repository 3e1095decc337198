"""The store's two databases."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from collector.store.file_store import FileStore
from tests.support.postgresql_server import PostgresqlServer
from tests.support.store_appends import AppendingPostgresql, AppendingShare, AppendingStore
from tests.support.store_engines import Databases, PostgresqlStore

S = TypeVar("S", bound=AppendingPostgresql | AppendingShare)


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
    with opener(request.getfixturevalue("databases"), AppendingPostgresql) as one:
        yield one


@pytest.fixture(params=["duckdb", "postgresql", "share"])
def open_for_work(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], AppendingStore | AppendingPostgresql | AppendingShare]]:
    """The same, and a share of a fleet: for contracts about what the worker asks."""
    if request.param == "duckdb":
        yield lambda: AppendingStore(tmp_path / "data")
        return
    kind = AppendingShare if request.param == "share" else AppendingPostgresql
    with opener(request.getfixturevalue("databases"), kind) as one:
        yield one


@contextmanager
def opener(databases: Databases, kind: Callable[[str], S]) -> Generator[Callable[[], S]]:
    """Opens stores in one database, which all are closed at the end."""
    opened: list[S] = []

    def one() -> S:
        opened.append(kind(url))
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
