"""Filters of ever more keys: none that was stored is called new, and few new ones are not."""

import random
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.storage.duckdb import key_layers, known_keys
from collector.storage.duckdb.database import run
from collector.storage.duckdb.key_layers import KeyLayers, load_layers
from collector.storage.duckdb.paged_bytes import PagedBytes
from collector.storage.duckdb.store import DuckDBStore
from tests.contracts.store_data import SPACE, record, span
from tests.support.processes import wait_until

KEYS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=12)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter is full with twenty keys."""
    monkeypatch.setattr(known_keys, "_FULL", 120)
    monkeypatch.setattr(key_layers, "_ROWS", 20)


def reader(connection: duckdb.DuckDBPyConnection) -> known_keys.Read:
    return lambda sql, values: run(connection, sql, values)


def commits_of(layers: KeyLayers, number: int) -> list[range]:
    return [range(first, last + 1) for (first, last), _ in layers.holding([number])]


@pytest.mark.usefixtures("small")
@given(commits=st.lists(KEYS, max_size=40), before=st.integers(0, 40), is_full=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_key_is_looked_for_where_it_is(
    commits: list[list[int]], before: int, is_full: bool
) -> None:
    """Whether this process stored it or one before, while others come; with no room on the disk."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (seq BIGINT, n BIGINT)")
    for seq, keys in enumerate(commits):
        connection.executemany("INSERT INTO t VALUES (?, ?)", [[seq, key] for key in keys])
    folder = Path("/nowhere" if is_full else "/tmp")  # noqa: S108 files without a name
    with closing(PagedBytes(folder)) as paged:
        layers = KeyLayers(paged)
        loaded = list(load_layers(reader(connection), "n", f"(FROM t WHERE seq < {before})"))
        half = len(loaded) // 2
        for layer in loaded[:half]:
            layers.take(layer)
        for seq, keys in list(enumerate(commits))[before:]:
            layers.add_all(keys, seq)
        for layer in loaded[half:]:
            layers.take(layer)
        for seq, keys in enumerate(commits):
            for key in keys:
                assert any(seq in each for each in commits_of(layers, key))
                assert layers.maybe(key)
    connection.close()


@pytest.mark.usefixtures("small")
def test_filters_go_with_what_they_are_of(tmp_path: Path) -> None:
    rng = random.Random(5)
    keys = [rng.getrandbits(63) for _ in range(100)]
    with closing(PagedBytes(tmp_path)) as paged:
        layers = KeyLayers(paged)
        fulls = [layers.add_all([key], seq) for seq, key in enumerate(keys)]
        assert fulls == [seq % 20 == 19 for seq in range(100)]
        layers.forget(45)
        assert [bool(commits_of(layers, key)) for key in keys] == [False] * 40 + [True] * 60


def test_many_keys_are_known_apart(tmp_path: Path) -> None:
    """Of 5 million, in which one filter was a "maybe" of every 22nd, or with 30 million of 4 in 5.

    They are divided among four filters, each a "maybe" of one new key in 9,000 at most.
    """
    connection = duckdb.connect(config={"memory_limit": "56MB", "threads": 2})
    connection.execute(
        "CREATE TABLE t AS SELECT range // 1000 AS seq, hash(range) AS n FROM range(5_000_000)"
    )
    with closing(PagedBytes(tmp_path)) as paged:
        layers = KeyLayers(paged)
        for layer in load_layers(reader(connection), "n", "t"):
            layers.take(layer)
        rng = random.Random(3)
        new = [rng.getrandbits(64) for _ in range(50_000)]
        sizes = [(last - first) for (first, last), _ in layers.holding(new)]
        assert sum(len(found) for _, found in layers.holding(new)) < 50  # 22 are expected
        assert all(size < 1_500 for size in sizes[:-1])
        stored = run(connection, "SELECT seq, n FROM t USING SAMPLE 500")
        for seq, number in stored:
            assert any(seq in each for each in commits_of(layers, number))
    connection.close()


def store_with(folder: Path) -> DuckDBStore:
    """An open store that has learnt its keys."""
    store = DuckDBStore(folder)
    known = store._known  # pyright: ignore[reportPrivateUsage]
    wait_until(lambda: len(known._seen_all) == 3, what="the filters")  # pyright: ignore[reportPrivateUsage]
    return store


@pytest.mark.usefixtures("small")
def test_what_comes_again_is_found_in_any_filter(tmp_path: Path) -> None:
    """Spans, one by one, and records, over three processes; each came before it was known."""
    records = [record(f"u{n}") for n in range(70)]
    spans = [span(n, trace_id=f"{n:032x}") for n in range(70)]

    def put(store: DuckDBStore, begin: int, end: int) -> list[int]:
        found: list[int] = []
        for at in range(begin, end):
            found += [
                len(store.append_records([records[at]]).result().accepted),
                len(store.append_spans(SPACE, [spans[at]], 1).result().stored),
            ]
        return found

    for begin, end in ((0, 30), (30, 70)):
        with closing(store_with(tmp_path)) as store:
            assert set(put(store, begin, end)) == {1}
    with closing(store_with(tmp_path)) as store:
        assert set(put(store, 0, 70)) == {0}
        assert store.conservation(SPACE).spans.accepted == 70
