"""Log events in the DuckDB store, what retention leaves of them, and stores without any."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from collector.storage.care.check import check_store
from collector.storage.duckdb.database import FILE_NAME
from collector.storage.duckdb.schema import MIGRATIONS
from collector.storage.duckdb.store import DuckDBStore
from collector.storage.port.store import Store
from tests.contracts.store_data import SPACE, record, span
from tests.contracts.store_events import StoreEventsContract, event, said

BEFORE = next(n for n, sql in enumerate(MIGRATIONS) if "is_event" in sql)
"""The last version without log events."""


class TestDuckDBEvents(StoreEventsContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: DuckDBStore(tmp_path / "data")


def test_retention_takes_events_by_their_age_and_counts_them(tmp_path: Path) -> None:
    """Those of a trace with a record stay; the sheet adds up, and `check` agrees."""
    store = DuckDBStore(tmp_path)
    kept = "2" * 32
    store.append_records([record(trace_id=kept, received_ns=50)]).result()
    for trace_id in ("1" * 32, kept):
        store.append_spans(SPACE, [span(1, trace_id=trace_id)], 50).result()
        store.append_spans(SPACE, [event(1, trace_id=trace_id)], 50).result()
    store.append_spans(SPACE, [event(9)], 200).result()
    assert store.remove_before(100) == 2
    sheet = store.conservation(SPACE)
    events = sheet.events
    assert (events.accepted, events.stored, events.expired, events.spanless) == (3, 2, 1, 1)
    assert (sheet.spans.stored, sheet.spans.expired) == (1, 1)
    assert said(store, kept) == {"1": [{"index": 0}]}
    backup = store.backup(tmp_path / "backup").parent
    store.close()
    for folder in (tmp_path, backup):
        report = check_store(folder)
        assert report.problems == []
        assert report.sheets[SPACE].events == events
    copy = DuckDBStore(backup)
    assert said(copy, kept) == {"1": [{"index": 0}]}
    copy.close()


def test_a_store_of_before_opens_and_takes_events(tmp_path: Path) -> None:
    """Its spans are spans, also for `check`, which changes nothing."""
    store = DuckDBStore(tmp_path)
    store.append_spans(SPACE, [span(1)], 1).result()
    store.close()
    with duckdb.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("ALTER TABLE spans DROP COLUMN is_event")
        connection.execute("DELETE FROM migrations WHERE version > ?", [BEFORE])

    report = check_store(tmp_path)
    assert (report.version, report.problems) == (BEFORE, [])
    assert report.sheets[SPACE].spans.stored == 1
    store = DuckDBStore(tmp_path)
    store.append_spans(SPACE, [event(1)], 1).result()
    sheet = store.conservation(SPACE)
    assert (sheet.spans.stored, sheet.events.stored) == (1, 1)
    assert said(store) == {"1": [{"index": 0}]}
    store.close()


def test_events_that_only_the_log_has_are_taken_up(tmp_path: Path) -> None:
    """As after a crash that lost the database: they come back as events."""
    store = DuckDBStore(tmp_path)
    store.append_spans(SPACE, [span(1)], 1).result()
    store.append_spans(SPACE, [event(1)], 1).result()
    store.close()
    for file in tmp_path.glob(f"{FILE_NAME}*"):
        file.unlink()
    store = DuckDBStore(tmp_path, accept_loss=True)
    sheet = store.conservation(SPACE)
    assert (sheet.events.accepted, sheet.events.stored, sheet.events.lost) == (1, 1, 0)
    assert (sheet.spans.accepted, sheet.spans.stored, sheet.spans.lost) == (1, 1, 0)
    assert said(store) == {"1": [{"index": 0}]}
    store.close()
