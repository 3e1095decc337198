"""Traces with a text in their spans, in the DuckDB store."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.storage.duckdb.store import DuckDBStore
from collector.storage.port.store import Store
from collector.store.span_queries import TraceQuery
from tests.contracts.store_data import SPACE, span
from tests.contracts.store_trace_text import StoreSessionMatchContract, StoreTraceTextContract


class TestDuckDBTraceText(StoreTraceTextContract, StoreSessionMatchContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: DuckDBStore(tmp_path / "data")


def test_spans_whose_bytes_are_gone_are_passed_over(tmp_path: Path) -> None:
    """Of four files of the log the second is emptied; spans of the others are found."""
    store = DuckDBStore(tmp_path / "data", log_file_bytes=1)
    for n in range(1, 5):
        row = span(n, trace_id=f"{n:032x}", attributes={"said": "needle"})
        store.append_spans(SPACE, [row], n).result()
    files = sorted((tmp_path / "data" / "spans").glob("*.spans"), key=lambda each: int(each.stem))
    assert len(files) == 4
    files[1].write_bytes(b"")
    page = store.search_traces(TraceQuery(space=SPACE), "needle", lambda: False)
    store.close()
    assert [int(each.trace_id, 16) for each in page.items] == [4, 3, 1]
