"""A log that was damaged while the worker had not read it."""

from pathlib import Path

from collector.metrics import UNCOUNTED
from tests.support.worker_room import SPACE, WorkerRoom, span, trace_id


def test_a_damaged_item_is_counted_once_and_costs_its_neighbours_nothing(tmp_path: Path) -> None:
    """Of three requests the middle one has a wrong byte; a start later counts nothing again."""
    room = WorkerRoom(tmp_path, {})
    for number in range(3):
        room.spans(span(number, 1, name=f"name of {number}"))
    (file,) = (tmp_path / "log").iterdir()
    content = file.read_bytes()
    at = content.index(b"name of 1")
    file.write_bytes(content[:at] + b"X" + content[at + 1 :])

    room.worker.turn(0)
    room.worker.turn(0)
    assert [len(room.store.trace(SPACE, trace_id(n), 1).spans) for n in range(3)] == [1, 0, 1]
    assert room.store.totals()[UNCOUNTED] == 1
    assert room.store.offset == room.log.end
    room.close()
    room.open()
    room.worker.turn(0)
    assert room.store.totals()[UNCOUNTED] == 1
    room.close()
