"""Drops that senders reported, on either database."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.metrics import TotalKey, TotalName
from collector.store import drops
from collector.store.file_store import FileStore
from scouter.transport.drops import Count
from tests.contracts.store_data import SPACE
from tests.support.store_appends import AppendingPostgresql, AppendingStore

Open = Callable[[], AppendingStore | AppendingPostgresql]
FULL = TotalKey(TotalName.DROPPED, SPACE, label="full")
HOUR_NS = 3_600 * 10**9


@pytest.fixture
def store(folder: Path) -> Iterator[FileStore]:
    store = FileStore(folder)
    yield store
    store.close()


def test_each_drop_counts_once(open_store: Open) -> None:
    """However often a sender tells of it; of one that has no name, whenever it comes."""
    store = open_store()

    def reported(space: str = SPACE, **totals: tuple[int, int]) -> int:
        report = {(sender.strip("_"), "full"): Count(*each) for sender, each in totals.items()}
        store.add_drops(space, report, 1)
        return store.totals()[FULL]

    assert reported(a=(0, 3)) == 3
    assert reported(a=(0, 3)) == 3
    assert reported(a=(3, 5), b=(0, 1)) == 6
    assert reported(a=(0, 4)) == 6
    assert reported(late=(2, 3)) == 7
    assert reported(late=(0, 2)) == 9
    assert reported(late=(0, 3)) == 9
    assert reported(_=(0, 2)) == 11
    assert reported(_=(0, 2)) == 13
    assert reported("else", a=(0, 7)) == 13
    assert store.totals()[TotalKey(TotalName.DROPPED, "else", label="full")] == 7
    store.close()
    store = open_store()
    assert reported(a=(5, 6)) == 14
    assert reported(new=(5, 6)) == 15
    store.close()


def test_reports_at_once_count_once(store: FileStore) -> None:
    """Of eight threads with the same two drops."""
    report = {("a", "full"): Count(0, 3), ("a", "closed"): Count(0, 1)}
    threads = [threading.Thread(target=store.add_drops, args=(SPACE, report, 1)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.totals() == {FULL: 3, TotalKey(TotalName.DROPPED, SPACE, label="closed"): 1}


def test_a_sender_is_known_by_all_of_its_reasons(open_store: Open) -> None:
    """News of one reason leaves what is known of the other."""
    store = open_store()
    store.add_drops(SPACE, {("a", "full"): Count(0, 3), ("a", "closed"): Count(0, 1)}, 1)
    store.add_drops(SPACE, {("a", "closed"): Count(1, 2)}, 2)
    store.add_drops(SPACE, {("a", "full"): Count(0, 3)}, 3)
    assert store.totals() == {FULL: 3, TotalKey(TotalName.DROPPED, SPACE, label="closed"): 2}
    store.close()


def test_senders_are_forgotten_after_a_day_or_behind_many(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts that a forgotten sender tells again are added; those of a known sender are not."""
    monkeypatch.setattr(drops, "MAX_SENDERS", 3)
    store = open_store()

    def reported(sender: str, reported: int, total: int, at_ns: int = 0) -> int:
        before = store.totals().get(FULL, 0)
        store.add_drops(SPACE, {(sender, "full"): Count(reported, total)}, at_ns)
        return store.totals()[FULL] - before

    assert reported("old", 0, 5) == reported("stays", 0, 5) == 5
    assert reported("stays", 2, 6, 24 * HOUR_NS) == 1
    assert reported("new", 0, 1, 24 * HOUR_NS + 1) == 1
    assert reported("old", 5, 6, 0) == 1  # taken at its word
    assert reported("stays", 0, 6) == 0
    for n in range(4):
        assert reported(f"n{n}", 0, 1, 30 * HOUR_NS + n) == 1
    late = 30 * HOUR_NS + 9
    assert [reported(name, 0, 1, late) for name in ("n1", "n2", "n3")] == [0, 0, 0]
    assert reported("new", 0, 1, late) == 1
    assert reported("n3", 0, 1, 55 * HOUR_NS) == 1  # over a day since its news
    store.close()
