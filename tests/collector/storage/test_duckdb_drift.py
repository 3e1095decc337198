"""DuckDB holds to the contract of live detectors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.storage.duckdb.store import DuckDBStore
from tests.contracts.store_drift import StoreDriftContract


class TestDuckDBDrift(StoreDriftContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], DuckDBStore]:
        return lambda: DuckDBStore(tmp_path)
