"""Counts beside lists, by the DuckDB store."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.storage.duckdb.store import DuckDBStore
from collector.storage.port.store import Store
from tests.contracts.store_facets import StoreFacetsContract


class TestDuckDBFacets(StoreFacetsContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: DuckDBStore(tmp_path / "data")
