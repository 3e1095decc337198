"""Sessions by conditions on the whole of them, in the DuckDB store."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.storage.duckdb.store import DuckDBStore
from collector.storage.port.store import Store
from tests.contracts.store_sessions import StoreSessionsContract


class TestDuckDBSessions(StoreSessionsContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: DuckDBStore(tmp_path / "data")
