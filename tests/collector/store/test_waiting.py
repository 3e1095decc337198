"""The lists of what is left to do, on both databases."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from collector.storage.port.store import Store
from tests.contracts.store_opened import Open
from tests.contracts.store_waiting import WaitingContract
from tests.support.postgresql_server import PostgresqlServer
from tests.support.store_appends import AppendingPostgresql, AppendingStore

_schemas = itertools.count(1)


class TestWaitingOnDuckDB(WaitingContract):
    """The store."""

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Open:
        return lambda: cast(Store, AppendingStore(tmp_path))


class Schema(AppendingPostgresql):
    """A database that stays open."""

    def close(self) -> None:
        """Leave it to the next one."""


@pytest.fixture(scope="module")
def connection() -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    server = PostgresqlServer()
    with server.connect() as connection:
        yield connection
    server.stop()


class TestWaitingOnPostgresql(WaitingContract):
    """The same reads."""

    @pytest.fixture
    def open_store(self, connection: "psycopg.Connection[tuple[object, ...]]") -> Open:
        name = f"test_{next(_schemas)}"
        connection.execute(cast(Any, f"CREATE SCHEMA {name}"))
        connection.execute(cast(Any, f"SET search_path TO {name}"))
        store = Schema(connection)
        return lambda: cast(Store, store)
