"""Places of spans in files: what they say is what the database says, or nothing."""

import random
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector.storage.duckdb import blocks as duckdb_blocks
from collector.storage.duckdb import tail_traces
from collector.storage.duckdb.block_filters import BlockQuery
from collector.storage.duckdb.database import Database
from collector.storage.duckdb.dedup import KnownRows
from collector.storage.duckdb.schema import MIGRATIONS
from collector.storage.duckdb.store import DuckDBStore
from collector.storage.log.trace_places import TracePlaces
from collector.storage.port.erase import EraseTarget
from scouter.errors import ConfigError, TransientError
from scouter.model.span import Span
from tests.contracts.store_data import SPACE, record, span

SPACES = (SPACE, "other")
TRACES = tuple(f"{n:02x}" * 16 for n in range(1, 9))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of five rows."""
    monkeypatch.setattr(duckdb_blocks, "_BLOCK_ROWS", 5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "traces"


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every query for the places of spans."""
    seen: list[str] = []
    read = Database.read

    def noted(self: Database, sql: str, parameters: object = ()) -> object:
        if sql.startswith("SELECT frame"):
            seen.append(sql)
        return read(self, sql, parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(Database, "read", noted)
    return seen


def spans_of(store: DuckDBStore, trace_id: str, space: str = SPACE) -> list[str]:
    return sorted(each.name for each in store.trace(space, trace_id, 10).spans)


def settle(store: DuckDBStore) -> None:
    """Have what is due behind the last commit done."""
    store.append_records([record(f"settled {store.last_seq()}")]).result()
    store.append_records([record(f"settled {store.last_seq()}")]).result()


def fill(store: DuckDBStore) -> None:
    """Five traces of four spans, one span a commit; the last ones are in no block yet."""
    for n in range(20):
        trace = TRACES[n % 5]
        store.append_spans(SPACE, [span(n + 1, trace_id=trace, name=f"n{n:02}")], 10 + n).result()
    settle(store)


def of_fill(trace: int) -> list[str]:
    return [f"n{n:02}" for n in range(trace, 20, 5)]


def all_in_blocks(store: DuckDBStore) -> None:
    """Fill the last block with another trace."""
    for n in range(20, 25):
        store.append_spans(SPACE, [span(n + 1, trace_id=TRACES[6])], 10 + n).result()
    settle(store)


def test_the_database_is_not_asked_for_spans(tmp_path: Path, queries: list[str]) -> None:
    with closing(DuckDBStore(tmp_path / "data")) as store:
        fill(store)
        all_in_blocks(store)
        queries.clear()
        for n in range(5):
            assert spans_of(store, TRACES[n]) == of_fill(n)
        assert spans_of(store, TRACES[7]) == []
        assert spans_of(store, TRACES[0], "other") == []
        assert queries == []
    with closing(DuckDBStore(tmp_path / "data")) as store:  # nor by another process
        queries.clear()
        assert spans_of(store, TRACES[3]) == of_fill(3)
        assert queries == []


def test_a_trace_behind_the_last_block_is_asked_for(tmp_path: Path, queries: list[str]) -> None:
    """As it came in this process, and in one before."""
    store = DuckDBStore(tmp_path / "data")
    fill(store)
    all_in_blocks(store)
    store.append_spans(SPACE, [span(99, trace_id=TRACES[2], name="n99")], 99).result()
    for _ in range(2):
        queries.clear()
        assert spans_of(store, TRACES[2]) == [*of_fill(2), "n99"]
        assert len(queries) == 1
        assert spans_of(store, TRACES[1]) == of_fill(1)
        assert len(queries) == 1
        store.close()
        store = DuckDBStore(tmp_path / "data")
    store.close()


def test_files_belong_to_nobody_else(tmp_path: Path, folder: Path) -> None:
    with closing(DuckDBStore(tmp_path / "data")) as store:
        before = store.file_bytes(), store.size_bytes()
        fill(store)
        files = list(folder.iterdir())
        assert len(files) == 4
        size = sum(each.stat().st_size for each in files)
        assert store.file_bytes() - before[0] > size
        assert store.size_bytes() - before[1] > size
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}


@pytest.mark.parametrize("byte", [0, 5, 10, 30, -1, None])
def test_a_damaged_file_says_nothing(
    tmp_path: Path, folder: Path, byte: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Be it anywhere, or that it ends too early: the database is asked, and the log says why."""
    store = DuckDBStore(tmp_path / "data")
    fill(store)
    all_in_blocks(store)
    store.close()
    count = len(list(folder.iterdir()))
    for file in folder.iterdir():
        data = bytearray(file.read_bytes())
        if byte is None:
            del data[len(data) // 2 :]
        else:
            data[byte] ^= 1
        file.write_bytes(data)
    with closing(DuckDBStore(tmp_path / "data")) as store:
        for _ in range(2):
            assert [spans_of(store, each) for each in TRACES[:5]] == list(map(of_fill, range(5)))
    assert caplog.text.count("is damaged, its traces take longer") == count - len(
        list(folder.iterdir())
    )
    assert len(list(folder.iterdir())) < count


def test_what_is_gone_is_made_anew(tmp_path: Path, folder: Path, queries: list[str]) -> None:
    """As in a backup that was restored; one file behind each commit, and all is found meanwhile."""
    store = DuckDBStore(tmp_path / "data")
    fill(store)
    all_in_blocks(store)
    store.close()
    names = {each.name for each in folder.iterdir()}
    for file in folder.iterdir():
        file.unlink()
    (folder / "7-9.places").write_bytes(b"of no block")
    (folder / "7-9.partial").write_bytes(b"of a crash")
    with closing(DuckDBStore(tmp_path / "data")) as store:
        assert list(folder.iterdir()) == []
        for n in range(5):
            assert spans_of(store, TRACES[n]) == of_fill(n)
            settle(store)
        assert {each.name for each in folder.iterdir()} == names
        queries.clear()
        assert spans_of(store, TRACES[0]) == of_fill(0)
        assert queries == []


def test_without_room_for_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with closing(DuckDBStore(tmp_path / "data")) as store:
        monkeypatch.setattr(Path, "write_bytes", full)
        fill(store)
        assert [spans_of(store, each) for each in TRACES[:5]] == list(map(of_fill, range(5)))
    assert "No space left on device" in caplog.text


def test_a_file_that_cannot_be_removed_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would bring back what was erased."""
    target = EraseTarget(space=SPACE, trace_id=TRACES[0])

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with closing(DuckDBStore(tmp_path / "data")) as store:
        fill(store)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", refused)
            with pytest.raises(TransientError, match="not permitted"):
                store.erase(target).result()
        assert spans_of(store, TRACES[0]) == of_fill(0)
        assert store.erase(target).result().spans == 4
        assert spans_of(store, TRACES[0]) == []


@pytest.mark.parametrize("is_erased", [True, False])
def test_a_block_that_waits_forgets_what_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_erased: bool
) -> None:
    """Its rows were collected; some of them are erased, or replaced, before it can be written."""
    write = duckdb_blocks._write_block  # pyright: ignore[reportPrivateUsage]

    def fail(*_: object) -> None:
        raise duckdb.OutOfMemoryException("no room")

    with closing(DuckDBStore(tmp_path / "data")) as store:
        monkeypatch.setattr(duckdb_blocks, "_write_block", fail)
        fill(store)
        if is_erased:
            assert store.erase(EraseTarget(space=SPACE, trace_id=TRACES[0])).result().spans == 4
        else:
            better = span(1, trace_id=TRACES[0], name="better", end_ns=10**6)
            store.append_spans(SPACE, [better], 99).result()
        monkeypatch.setattr(duckdb_blocks, "_write_block", write)
        for _ in range(4):
            settle(store)
        blocks = store._filters.stretches(BlockQuery(table="spans"))[1:]  # pyright: ignore[reportPrivateUsage]
        assert len(blocks) == 4
        of_trace = [
            store._places.find(each, SPACE, TRACES[0]) or []  # pyright: ignore[reportPrivateUsage]
            for each in blocks
        ]
        may_have = store._filters.of_traces(SPACE, [TRACES[0]])[1:]  # pyright: ignore[reportPrivateUsage]
    assert sum(map(len, of_trace)) == (0 if is_erased else 3)
    assert bool(may_have) is not is_erased


def test_a_fault_behind_a_commit_hides_no_span(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that commit stored was not collected, so the block is read."""
    remember = KnownRows.remember
    failed: list[int] = []

    def fail(self: KnownRows, tx: Any) -> None:
        if not tx.spans.known:  # keys that were loaded meanwhile
            return remember(self, tx)
        monkeypatch.setattr(KnownRows, "remember", remember)
        failed.append(tx.seq)
        raise duckdb.OutOfMemoryException("no room")

    with closing(DuckDBStore(tmp_path / "data")) as store:
        store.append_spans(SPACE, [span(90, trace_id=TRACES[7])], 1).result()
        monkeypatch.setattr(KnownRows, "remember", fail)
        store.append_spans(SPACE, [span(91, trace_id=TRACES[6], name="n1")], 2).exception()
        fill(store)
        all_in_blocks(store)
        assert "n1" in spans_of(store, TRACES[6])
    assert len(failed) == 1


def test_more_traces_than_can_be_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: list[str]
) -> None:
    """Every trace is asked for until there are fewer again."""
    monkeypatch.setattr(tail_traces, "_MOST", 2)
    with closing(DuckDBStore(tmp_path / "data")) as store:
        fill(store)
        all_in_blocks(store)
        many = [span(50 + n, trace_id=TRACES[n]) for n in range(4)]
        store.append_spans(SPACE, many, 60).result()
        queries.clear()
        assert spans_of(store, TRACES[4]) == of_fill(4)
        assert len(queries) == 1
        store.append_spans(SPACE, [span(60, trace_id=TRACES[5])], 60).result()
        settle(store)
        queries.clear()
        assert spans_of(store, TRACES[4]) == of_fill(4)
        assert queries == []


@pytest.fixture(params=range(4))
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def test_files_and_database_agree(tmp_path: Path, rng: random.Random) -> None:
    """After anything that may happen to spans: better ones, erasures, retention, starts."""
    folder = tmp_path / "data" / "traces"
    store = DuckDBStore(tmp_path / "data")
    looked_up = 0
    for step in range(90):
        space, trace = rng.choice(SPACES), rng.choice(TRACES)
        action = rng.choices(range(6), weights=[60, 12, 3, 2, 3, 2])[0]
        if action < 2:  # the first gives new ones mostly, the second the same keys with later ends
            numbers = rng.sample(range(1, 400 if action == 0 else 30), k=rng.randint(1, 4))
            spans = [span(n, trace_id=trace, end_ns=20 + step) for n in numbers]
            store.append_spans(space, spans, step).result()
        elif action == 2:
            store.erase(EraseTarget(space=space, trace_id=trace)).result()
        elif action == 3:
            store.remove_before(max(0, step - 60))
        elif action == 4:
            store.close()
            if (files := list(folder.iterdir())) and rng.random() < 0.5:
                rng.choice(files).unlink()
            store = DuckDBStore(tmp_path / "data")
        else:
            settle(store)
        for each in SPACES:
            some = {trace, *rng.sample(TRACES, k=2)}
            known = store.spans_of(each, some)
            for trace_id in some:
                found = store.trace(each, trace_id, 10).spans
                assert keys(found) == keys(known.get(trace_id, [])), (step, each, trace_id)
                looked_up += len(found)
    assert looked_up > 200
    store.close()


def keys(spans: list[Span]) -> list[tuple[str, int]]:
    return sorted((each.span_id, each.end_ns) for each in spans)


def test_a_program_that_knows_no_files_refuses_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take spans out and leave the files that name them; such programs knew 11 steps."""
    DuckDBStore(tmp_path).close()
    monkeypatch.setattr("collector.storage.duckdb.database.MIGRATIONS", MIGRATIONS[:11])
    with pytest.raises(ConfigError, match="knows versions up to 11: use the program that wrote it"):
        DuckDBStore(tmp_path)


def test_spaces_do_not_see_each_other(tmp_path: Path) -> None:
    """Even where a trace has one id in both; in the file as such."""
    with closing(DuckDBStore(tmp_path / "data")) as store:
        for n, space in enumerate(SPACES):
            spans = [span(10 * n + k, trace_id=TRACES[0], name=f"{space} {k}") for k in (1, 2, 3)]
            store.append_spans(space, spans, 1).result()
        settle(store)
        for space in SPACES:
            assert spans_of(store, TRACES[0], space) == [f"{space} {k}" for k in (1, 2, 3)]
        _, block = store._filters.stretches(BlockQuery(table="spans"))  # pyright: ignore[reportPrivateUsage]
        places = TracePlaces(tmp_path / "data" / "traces", [block])
        rows = {each: places.find(block, each, TRACES[0]) for each in (*SPACES, "third")}
        assert {each: len(found or []) for each, found in rows.items()} == {
            SPACE: 3, "other": 3, "third": 0,
        }  # fmt: skip
