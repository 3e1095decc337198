"""Traces by the evaluations on their records, in the DuckDB store."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.storage.duckdb.store import DuckDBStore
from collector.storage.port.store import Store
from tests.contracts.store_judged import StoreJudgedContract


class TestDuckDBJudged(StoreJudgedContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: DuckDBStore(tmp_path / "data")
