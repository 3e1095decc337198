"""Listings and series of the DuckDB store, and what retention leaves of them."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.storage.duckdb_store import DuckDBStore
from collector.storage.port import Store
from collector.storage.rollup import HOUR_NS
from collector.storage.rows import EvaluationQuery, SeriesQuery
from scouter.evaluate.outcome import DECIDED, Outcome
from tests.contracts.store_data import SPACE, record, verdict
from tests.contracts.store_lists import StoreListsContract


class TestDuckDBLists(StoreListsContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: DuckDBStore(tmp_path / "data")


def test_a_series_from_rollups_is_that_of_the_results(tmp_path: Path) -> None:
    """Through revisions, retention and adding up, hour by hour.

    The results are counted from the listing, and a second time as buckets of half an hour, which
    the store computes from the results.
    """
    rng = random.Random(5)
    store = DuckDBStore(tmp_path / "data")

    def check() -> None:
        query = SeriesQuery(space=SPACE, since_ns=0, until_ns=10 * HOUR_NS, bucket_ns=HOUR_NS)
        by_hour = {each.start_ns: each.counts for each in store.task_series(query)}
        halves = SeriesQuery(space=SPACE, since_ns=0, until_ns=10 * HOUR_NS, bucket_ns=HOUR_NS // 2)
        wanted: Counter[tuple[int, str]] = Counter()
        for row in store.evaluations(EvaluationQuery(space=SPACE, limit=1000)).items:
            if row.tasks[0].outcome in DECIDED:
                wanted[row.evaluated_ns // HOUR_NS * HOUR_NS, row.tasks[0].outcome.value] += 1
        from_halves: Counter[tuple[int, str]] = Counter()
        for each in store.task_series(halves):
            for word in DECIDED:
                start_ns = each.start_ns // HOUR_NS * HOUR_NS
                from_halves[start_ns, word.value] += getattr(each.counts, word.value)
        got = Counter(
            {
                (start_ns, word.value): getattr(counts, word.value)
                for start_ns, counts in by_hour.items()
                for word in DECIDED
            }
        )
        assert +got == wanted == +from_halves

    times = {f"u{n}": rng.randrange(10 * HOUR_NS) for n in range(60)}
    store.append_records([record(uid, received_ns=at) for uid, at in times.items()]).result()
    store.append_evaluations(
        [
            verdict(uid, rng.choice(list(Outcome)), evaluated_ns=at, evaluation_id=f"{uid} 1")
            for uid, at in times.items()
        ]
    ).result()
    check()
    revised = rng.sample(sorted(times), 20)
    store.append_evaluations(
        [
            verdict(uid, rng.choice(list(Outcome)), revision=2, evaluation_id=f"{uid} 2",
                    evaluated_ns=min(times[uid] + HOUR_NS, 10 * HOUR_NS - 1))
            for uid in revised
        ]
    ).result()  # fmt: skip
    check()
    assert store.remove_before(4 * HOUR_NS).result() > 10
    check()
    store.compact().result()
    check()
    store.close()
