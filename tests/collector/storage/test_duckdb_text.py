"""Records that hold a text, in the DuckDB store."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.storage.duckdb.store import DuckDBStore
from collector.storage.port.store import Store
from collector.store.record_queries import RecordQuery
from tests.contracts.store_data import SPACE, record
from tests.contracts.store_text import StoreTextContract


class TestDuckDBText(StoreTextContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: DuckDBStore(tmp_path / "data")


def test_contexts_of_megabytes_are_searched_in_little_memory(tmp_path: Path) -> None:
    """Forty of 8 MB are more than twice the memory that the store may use."""
    store = DuckDBStore(tmp_path / "data", memory_limit_bytes=128 * 2**20)
    for n in range(40):
        text = "x" * 8_000_000 + ("needle" if n in (0, 39) else "")
        store.append_records([record(f"u{n}", context={"a": text})]).result()
    page = store.search_records(RecordQuery(space=SPACE), "NEEDLE", lambda: False)
    store.close()
    assert [each.record.uid for each in page.items] == ["u39", "u0"]
