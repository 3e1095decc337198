"""A log on a disk that is full, and has room again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.log import file_log
from collector.log.file_log import FileLog
from scouter.errors import TransientError
from tests.contracts.log import append, item, numbers
from tests.support.processes import wait_until
from tests.support.small_disk import SmallDisk, small_disk

KB = 1_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """4 MB of it."""
    with small_disk(tmp_path / "disk", 4) as found:
        yield found


def fill(log: FileLog, first: int) -> int:
    """Append until the disk is full; the number of the item that was refused."""
    for number in range(first, first + 200):
        try:
            append(log, [item(number, 20 * KB)])
        except TransientError:
            return number
    raise AssertionError("4 MB found room on a disk of 4 MB")


@pytest.mark.parametrize("segment_bytes", [2**26, 100 * KB], ids=["in-a-segment", "new-segments"])
@pytest.mark.parametrize("free", [0, 30 * KB, 70 * KB])
def test_a_full_disk_refuses_and_room_is_used(
    disk: SmallDisk, segment_bytes: int, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by the process that goes on, and by one that is started while the disk is full."""
    monkeypatch.setattr(file_log, "RETRY_S", 1_000)  # only an append tries again
    folder = disk.folder / "log"
    log = FileLog(folder, segment_bytes=segment_bytes)
    append(log, [item(number, 20 * KB) for number in range(10)])
    disk.leave(free)
    taken = fill(log, 10)
    assert "No space left on device" in log.fault
    for _ in range(3):
        with pytest.raises(TransientError):
            append(log, [item(1_000 + number, 40 * KB) for number in range(5)])
    assert numbers(log) == list(range(taken))
    log.close()

    log = FileLog(folder, segment_bytes=segment_bytes)
    assert numbers(log) == list(range(taken))
    with pytest.raises(TransientError):
        append(log, [item(2_000, 100 * KB)])
    assert numbers(log) == list(range(taken))
    disk.give_room()
    append(log, [item(taken, 100 * KB), item(taken + 1)])
    assert log.fault == ""
    assert numbers(log) == list(range(taken + 2))
    assert log.begin == 0
    log.close()


def test_a_trim_makes_room(disk: SmallDisk) -> None:
    """The store has taken what waited: nobody has to do anything."""
    log = FileLog(disk.folder / "log", segment_bytes=100 * KB)
    append(log, [item(number, 20 * KB) for number in range(10)])
    behind = log.roll().result(120)
    disk.leave(0)
    with pytest.raises(TransientError):
        append(log, [item(10, 20 * KB)])
    log.trim(behind)
    wait_until(lambda: not log.fault, what="room")
    append(log, [item(11, 20 * KB)])
    assert numbers(log, behind) == [11]
    log.close()
