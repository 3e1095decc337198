"""Places of stored keys: no commit that has one is passed over, and few others are read."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.storage.duckdb import stored_keys
from collector.storage.duckdb.database import run
from collector.storage.duckdb.store import DuckDBStore
from collector.storage.duckdb.stored_keys import StoredKeys, read_filter
from collector.store.erase import EraseTarget
from scouter.errors import TransientError
from scouter.model.span import Span
from tests.contracts.store_data import SPACE, record, span
from tests.support.examples import examples
from tests.support.processes import wait_until

KEYS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=12)
OPEN = threading.Event()
"""Never set: nobody closes."""
SPACES = (SPACE, "other")
TRACES = tuple(f"{n:02x}" * 16 for n in range(1, 9))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter is full with twenty keys or so."""
    monkeypatch.setattr(stored_keys, "_BITS", 512)
    monkeypatch.setattr(stored_keys, "_ROWS", 20)


def reader(connection: duckdb.DuckDBPyConnection) -> stored_keys.Read:
    return lambda sql, values: run(connection, sql, values)


def commits_of(keys: StoredKeys, number: int) -> list[range]:
    return [range(first, last + 1) for (first, last), _ in keys.holding([number])]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.usefixtures("small")
@given(commits=st.lists(KEYS, max_size=20), before=st.integers(0, 20))
@settings(max_examples=examples(30), deadline=None)
def test_a_key_is_looked_for_where_it_is(
    connection: duckdb.DuckDBPyConnection, commits: list[list[int]], before: int
) -> None:
    """Keys that this process stored and one before, at any time of the loading."""
    connection.execute("CREATE OR REPLACE TABLE t (seq BIGINT, n BIGINT)")
    keys = StoredKeys("t", "n", before)
    numbered = dict(enumerate(commits, start=1))

    def put(seq: int) -> None:
        connection.execute("INSERT INTO t SELECT ?, unnest(?::BIGINT[])", [seq, numbered[seq]])

    def check(end: int) -> None:
        for seq in range(1, end + 1):
            for key in numbered[seq]:
                assert any(seq in each for each in commits_of(keys, key))
                assert keys.maybe(key)

    end = min(before, len(commits))
    for seq in range(1, end + 1):
        put(seq)
    check(end)
    for seq in range(end + 1, len(commits) + 1):
        keys.add_all(numbered[seq], seq)
        put(seq)
        if seq == (end + 1 + len(commits)) // 2:
            keys.load(reader(connection), OPEN)
        check(seq)
    keys.load(reader(connection), OPEN)
    check(len(commits))


@pytest.mark.usefixtures("small")
def test_filters_go_with_what_they_are_of() -> None:
    rng = random.Random(5)
    numbers = [rng.getrandbits(63) for _ in range(100)]
    keys = StoredKeys("t", "n", 0)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (seq BIGINT, n BIGINT)")
        keys.load(reader(connection), OPEN)
        for seq, number in enumerate(numbers, start=1):
            keys.add_all([number], seq)
        assert all(commits_of(keys, number) for number in numbers)
        connection.execute("INSERT INTO t VALUES (60, 1)")
        keys.forget(reader(connection))
    assert all(commits_of(keys, number) for number in numbers[60:])
    assert sum(bool(commits_of(keys, number)) for number in numbers[:20]) < 3  # by chance


def test_many_keys_are_known_apart() -> None:
    """Of two million in a little memory: each filter is a "maybe" of 1 new key in 9,000 at most."""
    with duckdb.connect(config={"memory_limit": "56MB", "threads": 2}) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT range // 1000 AS seq, hash(range) AS n FROM range(2_000_000)"
        )
        keys = StoredKeys("t", "n", 2_000)
        keys.load(reader(connection), OPEN)
        rng = random.Random(3)
        new = [rng.getrandbits(64) for _ in range(20_000)]
        assert sum(len(found) for _, found in keys.holding(new)) < 90  # 51 at most are expected
        for seq, number in run(connection, "SELECT seq, n FROM t USING SAMPLE 500"):
            places = commits_of(keys, number)
            assert any(seq in each for each in places)
            assert all(len(each) < 100 for each in places)


def test_a_large_filter_is_made_in_little_memory() -> None:
    """A start must not need more than the daily work does."""
    with duckdb.connect(config={"memory_limit": "32MB", "threads": 1}) as connection:
        numbers = "(SELECT hash(range) AS n FROM range(1000000))"
        made = read_filter(reader(connection), "n", numbers, [], 1 << 25)
        some = run(connection, f"SELECT n FROM {numbers} USING SAMPLE 1000")  # noqa: S608
    assert all(made.maybe(number) for (number,) in some)
    assert sum(made.maybe(number ^ 0x5555555555555555) for (number,) in some) < 5


def test_after_a_fault_every_key_may_be_stored(caplog: pytest.LogCaptureFixture) -> None:
    def fail(sql: str, parameters: object) -> list[tuple[int]]:
        raise TransientError("no memory")

    keys = StoredKeys("t", "n", 7)
    keys.load(fail, OPEN)
    assert keys.maybe(1)
    assert commits_of(keys, 1)[0][0] == 0
    assert "the keys of t are not known, each is looked up: no memory" in caplog.text


def store_with(folder: Path) -> DuckDBStore:
    """An open store that has learnt its keys."""
    store = DuckDBStore(folder)
    loader = store._loader  # pyright: ignore[reportPrivateUsage]
    wait_until(lambda: not loader.is_alive(), what="the keys")
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


def keys_of(spans: list[Span]) -> list[tuple[str, int]]:
    return sorted((each.span_id, each.end_ns) for each in spans)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("seed", "opened"),
    [(0, DuckDBStore), (1, store_with), (2, DuckDBStore)],
    ids=["at once", "once learnt", "at once again"],
)
def test_traces_are_found_whole(
    tmp_path: Path, seed: int, opened: Callable[[Path], DuckDBStore]
) -> None:
    """After anything that may happen to spans: better ones, erasures, retention, starts."""
    rng = random.Random(seed)
    store = opened(tmp_path)
    everything: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for step in range(90):
        space, trace = rng.choice(SPACES), rng.choice(TRACES)
        known = everything.setdefault((space, trace), {})
        action = rng.choices(range(5), weights=[60, 12, 3, 2, 3])[0]
        if action < 2:  # the first gives new ones mostly, the second the same keys with later ends
            numbers = rng.sample(range(1, 400 if action == 0 else 30), k=rng.randint(1, 4))
            spans = [span(n, trace_id=trace, end_ns=20 + step) for n in numbers]
            stored = store.append_spans(space, spans, step).result().stored
            known |= {each.span_id: (each.end_ns, step) for each in stored}
        elif action == 2:
            store.erase(EraseTarget(space=space, trace_id=trace)).result()
            del everything[space, trace]
        elif action == 3:
            store.remove_before(step - 60)
            for each in everything.values():
                for span_id in [key for key, (_, at) in each.items() if at < step - 60]:
                    del each[span_id]
        else:
            store.close()
            store = opened(tmp_path)
        for each in SPACES:
            found = store.spans_of(each, TRACES)
            for trace_id in TRACES:
                wanted = sorted(
                    (key, end) for key, (end, _) in everything.get((each, trace_id), {}).items()
                )
                assert keys_of(found.get(trace_id, [])) == wanted
            assert keys_of(store.trace(each, trace, 10).spans) == keys_of(found.get(trace, []))
    store.close()
