"""Housekeeping on a real store and log: bytes of what was erased, room of what expired."""

import random
import shutil
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from collector.care.retention import Housekeeping
from collector.store import database
from collector.store.erase import EraseTarget
from tests.support.files import files_with
from tests.support.processes import wait_until
from tests.support.worker_room import SPACE, WorkerRoom, span, trace_id

SECRET = "nobody may keep this sentence"
DAY_NS = 86_400 * 10**9


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerRoom]:
    monkeypatch.setattr(database, "ROW_GROUP", 2_048)
    room = WorkerRoom(tmp_path / "data", {})
    yield room
    room.close()


def housekeeping(
    room: WorkerRoom, *, days: float = 0, max_bytes: int | None = None
) -> Housekeeping:
    return Housekeeping(
        room.store, room.log, room.folder, retention_days=days, max_store_bytes=max_bytes,
        now_ns=lambda: room.now_ns,
    )  # fmt: skip


def test_what_was_erased_is_gone_from_every_file(room: WorkerRoom) -> None:
    """From the log once the worker has read on, then from the store; not while it has not."""
    room.spans(span(0, 1, attributes={"text": SECRET}), span(1, 1, attributes={"text": "stays"}))
    room.work()
    keeper = housekeeping(room)
    room.store.erase(EraseTarget(space=SPACE, trace_id=trace_id(0)))
    assert "00000000000000000000.log" in files_with(room.folder, SECRET.encode())
    assert keeper.remove_rests()
    assert files_with(room.folder, SECRET.encode()) == []
    assert files_with(room.folder, b"stays") != []
    assert not room.store.has_rests()
    room.spans(span(0, 1, attributes={"text": SECRET}))
    room.work()
    assert keeper.remove_rests(), "nothing is left to do"
    room.close()
    room.open()
    assert [each.span_id for each in room.store.trace(SPACE, trace_id(0), 9).spans] == []


def test_an_erasure_behind_the_new_file_of_the_log_is_not_forgotten(
    room: WorkerRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy of the store has nothing of it, and the log has."""
    room.spans(span(0, 1), span(2, 1))
    room.work()
    room.store.erase(EraseTarget(space=SPACE, trace_id=trace_id(0)))
    roll = room.log.roll

    def roll_and_erase() -> Future[int]:
        rolled = roll()
        rolled.result(120)
        monkeypatch.undo()
        room.spans(span(1, 1, attributes={"text": SECRET}))
        room.work()
        room.store.erase(EraseTarget(space=SPACE, trace_id=trace_id(1)))
        return rolled

    monkeypatch.setattr(room.log, "roll", roll_and_erase)
    keeper = housekeeping(room)
    assert not keeper.remove_rests()
    assert files_with(room.folder, SECRET.encode()) != []
    assert keeper.remove_rests()
    assert files_with(room.folder, SECRET.encode()) == []


def test_an_erasure_is_finished_by_the_next_process(room: WorkerRoom) -> None:
    """Whose thread begins with it, and ends when it is stopped."""
    room.spans(span(0, 1, attributes={"text": SECRET}))
    room.work()
    room.store.erase(EraseTarget(space=SPACE, trace_id=trace_id(0)))
    room.close()
    assert files_with(room.folder, SECRET.encode()) != []
    room.open()
    keeper = housekeeping(room)
    keeper.start()
    wait_until(lambda: not room.store.has_rests(), what="the bytes are gone")
    keeper.stop()
    assert files_with(room.folder, SECRET.encode()) == []
    assert keeper.fault == ""


def fill(room: WorkerRoom, days: int) -> None:
    """A megabyte of spans a day, which does not compress."""
    rng = random.Random(1)
    for day in range(days):
        for part in range(4):
            trace = 10 * day + part
            texts = [rng.randbytes(250).hex() for _ in range(500)]
            room.spans(*(span(trace, n, attributes={"t": text}) for n, text in enumerate(texts)))
        room.work()
        room.now_ns += DAY_NS


def test_retention_gives_room_back_to_the_system(room: WorkerRoom) -> None:
    """Eight days are stored, two are to stay; what the sheet says adds up."""
    fill(room, 8)
    room.store.checkpoint()
    before = room.store.file_bytes()
    assert housekeeping(room, days=2).tidy() == 6 * 2_000
    assert room.store.file_bytes() < before / 2
    sheet = room.store.conservation(SPACE).spans
    assert (sheet.accepted, sheet.stored, sheet.expired) == (16_000, 4_000, 12_000)
    assert housekeeping(room, days=2).tidy() == 0


def test_a_bound_of_the_size_takes_the_oldest(room: WorkerRoom) -> None:
    fill(room, 8)
    room.store.checkpoint()
    bound = room.store.size_bytes() // 2
    removed = housekeeping(room, max_bytes=bound).tidy()
    assert 8_000 <= removed <= 14_000
    assert room.store.size_bytes() <= bound
    traces = {row[0] for row in room.store.read("SELECT trace_id FROM spans")}
    assert trace_id(70) in traces
    assert trace_id(0) not in traces


def test_a_copy_without_room_is_a_fault_that_says_what_it_needs(
    room: WorkerRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The erasure holds, and its bytes go as soon as there is room."""
    room.spans(span(0, 1, attributes={"text": SECRET}))
    room.work()
    room.store.erase(EraseTarget(space=SPACE, trace_id=trace_id(0)))
    usage = shutil.disk_usage(room.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10**6))  # type: ignore[misc]
    keeper = housekeeping(room)
    keeper.start()
    wait_until(lambda: bool(keeper.fault), what="the fault")
    keeper.stop()
    assert "needs" in keeper.fault
    assert "MB of disk" in keeper.fault
    assert room.store.has_rests()
    monkeypatch.undo()
    assert housekeeping(room).remove_rests()
