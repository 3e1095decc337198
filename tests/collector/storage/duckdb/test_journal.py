"""Spans between acknowledgement and commit: crashes, full disks, rows that do not fit."""

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector.storage.duckdb import journal as journal_module
from collector.storage.duckdb.store import DuckDBStore
from collector.store.letters import LetterQuery
from collector.store.opening import LostDataError
from scouter.errors import DataError, TransientError
from scouter.model.otlp import encode_request
from scouter.model.span import Resource
from tests.contracts.store_data import SPACE, TRACE, record, span
from tests.support.processes import wait_until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    store = DuckDBStore(tmp_path / "data")
    # The store learns its keys at its start. This commit would meet the faults that tests make.
    store._loader.join(120)  # pyright: ignore[reportPrivateUsage]
    yield store
    store.close()


class Gate:
    """Holds commits back, or fails them, until it is opened."""

    def __init__(self, store: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_open, self.error = threading.Event(), None
        self.reached = threading.Event()
        self._finish = store._committer._finish  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(store._committer, "_finish", self._held)  # pyright: ignore[reportPrivateUsage]

    def _held(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.reached.set()
        assert self.is_open.wait(120)
        self._finish(connection)


def durable_spans(store: DuckDBStore, *numbers: int) -> "Future[Any]":
    """Append spans and wait until they are acknowledged."""
    durable: Future[None] = Future()
    future = store.append_spans(SPACE, [span(n) for n in numbers], 7, durable=durable)
    durable.result(120)
    return future


def numbers_of(store: DuckDBStore) -> list[int]:
    found = store.spans_of(SPACE, [TRACE]).get(TRACE, [])
    return sorted(int(each.span_id, 16) for each in found)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[DuckDBStore]:
    """A store that gathers spans for a minute; its first commit is behind it."""
    store = DuckDBStore(tmp_path / "data", commit_pause_s=60)
    store._loader.join(120)  # pyright: ignore[reportPrivateUsage]
    store.append_records([record()]).result(120)
    yield store
    store.close()


def test_who_asks_waits_for_no_pause(slow: DuckDBStore) -> None:
    future = durable_spans(slow, 1)
    with pytest.raises(TimeoutError):
        future.result(0.2)
    assert not slow.catch_up(0)
    assert slow.catch_up(20)
    assert (future.done(), numbers_of(slow)) == (True, [1])


def test_senders_wait_for_no_pause(slow: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_PENDING_BYTES", 0)
    first = durable_spans(slow, 1)
    durable_spans(slow, 2)  # there is no room before the first is committed
    assert first.done()


def test_the_journal_says_how_it_is(store: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that are acknowledged and not committed, and the time of each sync."""
    took: list[float] = []
    store.observe_syncs(took.append)
    gate = Gate(store, monkeypatch)
    body = len(encode_request([span(1)]).SerializeToString())
    assert store.pending_bytes() == 0
    futures = [durable_spans(store, 1), durable_spans(store, 2)]
    assert (store.pending_bytes(), len(took)) == (2 * body, 2)
    assert all(0 < seconds < 20 for seconds in took)
    gate.is_open.set()
    for future in futures:
        future.result(120)
    wait_until(lambda: store.pending_bytes() == 0, what="the database")


def test_what_was_acknowledged_is_there_after_a_crash(
    store: DuckDBStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data as a crash leaves it: in the log, but not in the database. Twice is once."""
    durable_spans(store, 1).result(120)
    gate = Gate(store, monkeypatch)
    futures = [durable_spans(store, 2, 3), durable_spans(store, 3, 4)]
    assert gate.reached.wait(120)
    assert numbers_of(store) == [1]
    assert not store.catch_up(0.05)
    shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    gate.is_open.set()
    assert store.catch_up()
    assert [future.result().duplicates for future in futures] == [0, 1]

    for _ in range(2):
        again = DuckDBStore(tmp_path / "crashed")
        assert numbers_of(again) == numbers_of(store) == [1, 2, 3, 4]
        assert again.conservation(SPACE) == store.conservation(SPACE)
        assert again.totals() == store.totals()
        again.close()


def test_who_asks_for_one_trace_waits_for_that_trace_only(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(store, monkeypatch)
    durable_spans(store, 1)
    assert gate.reached.wait(120)
    assert not store.catch_up(0.05, trace_id=TRACE)
    assert store.catch_up(0.05, trace_id="f" * 32)
    gate.is_open.set()
    assert store.catch_up(trace_id=TRACE)
    assert numbers_of(store) == [1]


def test_a_log_without_its_database_gives_the_spans_back(
    store: DuckDBStore, tmp_path: Path
) -> None:
    durable_spans(store, 1, 2).result(120)
    shutil.copytree(tmp_path / "data" / "spans", tmp_path / "rest" / "spans")
    with pytest.raises(LostDataError):
        DuckDBStore(tmp_path / "rest")
    again = DuckDBStore(tmp_path / "rest", accept_loss=True)
    assert numbers_of(again) == [1, 2]
    again.close()


def test_a_commit_that_fails_for_now_is_tried_until_it_works(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile nothing more is acknowledged; what was, is stored in its order."""
    commit, is_full = store._committer._finish, threading.Event()  # pyright: ignore[reportPrivateUsage]

    def failing(connection: duckdb.DuckDBPyConnection) -> None:
        if is_full.is_set():
            raise duckdb.IOException("no room")
        commit(connection)

    is_full.set()

    monkeypatch.setattr(store._committer, "_finish", failing)  # pyright: ignore[reportPrivateUsage]
    future = durable_spans(store, 1)
    wait_until(store.fault, what="the fault")
    assert not store.catch_up()
    with pytest.raises(TransientError, match="no room"):
        durable_spans(store, 2)
    with pytest.raises(TransientError, match="no room"):
        store.append_records([record("u1")]).result(120)
    is_full.clear()
    assert future.result(120).duplicates == 0

    assert (numbers_of(store), store.fault()) == ([1], "")
    assert store.append_records([record("u1")]).result(120).accepted


def refuse_batches_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = journal_module.SpansJob.apply

    def picky(job: journal_module.SpansJob, tx: Any) -> object:
        if job.size == 2:
            raise DataError("no column for it")
        return apply(job, tx)

    monkeypatch.setattr(journal_module.SpansJob, "apply", picky)


def test_rows_that_do_not_fit_are_put_aside_alone(
    store: DuckDBStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were acknowledged, so they must not vanish; and the next start passes over them."""
    gate = Gate(store, monkeypatch)
    first = durable_spans(store, 1)
    assert gate.reached.wait(120)
    refuse_batches_of_two(monkeypatch)
    futures = [durable_spans(store, 2), durable_spans(store, 3, 4), durable_spans(store, 5)]
    gate.is_open.set()

    assert [len(each.result(120).stored) for each in (first, futures[0], futures[2])] == [1, 1, 1]
    with pytest.raises(DataError, match="no column"):
        futures[1].result(120)
    letters = store.dead_letters(LetterQuery(space=SPACE))
    assert {each.letter.reason for each in letters} == {"refused_by_store"}
    payloads = {encode_request([span(n)]).SerializeToString() for n in (3, 4)}
    assert {each.letter.payload for each in letters} == payloads
    store.close()
    again = DuckDBStore(tmp_path / "data")
    assert numbers_of(again) == [1, 2, 5]
    again.close()


def test_rows_that_do_not_fit_do_not_stop_a_start(
    store: DuckDBStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash came before they were put aside: the start does it, and stores the others."""
    gate = Gate(store, monkeypatch)
    for numbers in ((1,), (2, 3), (4,)):
        durable_spans(store, *numbers)
    assert gate.reached.wait(120)
    shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    gate.is_open.set()
    assert store.catch_up()
    refuse_batches_of_two(monkeypatch)
    for _ in range(2):
        again = DuckDBStore(tmp_path / "crashed")
        assert numbers_of(again) == [1, 4]
        assert len(again.dead_letters(LetterQuery(space=SPACE))) == 2
        again.close()


def test_acknowledging_stops_while_too_much_is_not_committed(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_PENDING_BYTES", 1000)
    gate = Gate(store, monkeypatch)
    futures: list[Future[None]] = [Future() for _ in range(6)]
    for n, durable in enumerate(futures):
        attributes = {"text": "x" * 400}
        store.append_spans(SPACE, [span(n, attributes=attributes)], 1, durable=durable)
        if n < 3:
            durable.result(120)
    assert gate.reached.wait(120)
    with pytest.raises(TimeoutError):
        futures[5].result(0.3)
    gate.is_open.set()
    for durable in futures:
        durable.result(120)


def test_spans_of_several_resources_keep_their_order(store: DuckDBStore) -> None:
    """A request written here groups them by resource; the answer is in the order of the caller."""
    one, two = Resource(attributes={"service.name": "one"}), Resource(attributes={"n": (1, 2)})
    batch = [span(n, resource=one if n % 2 else two, name=f"é{n}") for n in range(1, 8)]
    assert store.append_spans(SPACE, batch, 1).result().stored == tuple(batch)
    found = {each.span_id: each for each in store.spans_of(SPACE, [TRACE])[TRACE]}
    assert [found[each.span_id] for each in batch] == batch


def test_a_request_in_an_unusual_form_is_written_anew(store: DuckDBStore) -> None:
    """Protobuf merges a resource in two pieces; such bytes have no one place for it."""
    batch = [span(1, resource=Resource(attributes={"a": 1, "b": 2}))]
    request = encode_request(batch)
    data = request.SerializeToString()
    group = request.resource_spans[0]
    pieces = [group.resource.__class__(attributes=[pair]) for pair in group.resource.attributes]
    group.ClearField("resource")
    rest = group.SerializeToString()
    heads = b"".join(_field(1, piece.SerializeToString()) for piece in pieces)
    wire = _field(1, heads + rest)
    assert request.__class__.FromString(wire) == request.__class__.FromString(data)

    store.append_spans(SPACE, batch, 1, wire=wire).result()
    assert store.spans_of(SPACE, [TRACE]) == {TRACE: batch}


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def test_damaged_bytes_cost_their_span_only(
    store: DuckDBStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.append_spans(SPACE, [span(n, name=f"name {n}") for n in (1, 2, 3)], 1).result()
    (file,) = (tmp_path / "data" / "spans").iterdir()
    data = file.read_bytes()
    assert data.count(b"name 2") == 1
    file.write_bytes(data.replace(b"name 2", b"name X"))

    assert numbers_of(store) == [1, 3]
    assert "another checksum" in caplog.text
