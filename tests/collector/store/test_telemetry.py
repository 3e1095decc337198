"""Spans, records and letters as they are appended, on both databases."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scouter.errors import TransientError
from tests.contracts.store_data import SPACE, record, span
from tests.contracts.store_telemetry import TelemetryContract
from tests.support.store_appends import AppendingStore


class TestTelemetry(TelemetryContract):
    """What senders brought."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AppendingStore]:
    store = AppendingStore(tmp_path / "data")
    yield store
    store.close()


def test_many_writers_at_once(store: AppendingStore) -> None:
    """Four threads, all sending the same 10 records and spans: each is accepted once."""
    results: list[tuple[int, int]] = []

    def send(at: int) -> None:
        for n in range(at, at + 10):
            taken = store.append_records([record(f"u{n % 10}")]).result()
            stored = store.append_spans(SPACE, [span(n % 10 + 1)], 1).result()
            results.append((len(taken.accepted), len(stored.stored)))

    threads = [threading.Thread(target=send, args=(n * 3,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [sum(column) for column in zip(*results, strict=True)] == [10, 10]
    sheet = store.conservation(SPACE)
    assert (sheet.records.accepted, sheet.records.duplicates) == (10, 30)
    assert (sheet.spans.stored, sheet.spans.duplicates) == (10, 30)


def test_a_closed_store_says_so(store: AppendingStore) -> None:
    store.close()
    with pytest.raises(TransientError, match="closed"):
        store.append_records([record()]).result()
