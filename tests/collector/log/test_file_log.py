"""The log in files: segments, groups, modes, and starts beside a store."""

import os
import shutil
import stat
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.log import file_log
from collector.log.file_log import SEGMENT_BYTES, FileLog
from collector.log.port import Gap, LostLogError
from collector.log.segment import FRAME_BYTES, SEGMENT_HEADER_BYTES
from scouter.errors import ConfigError, DataError, TransientError
from tests.contracts.log import LogContract, OpenLog, append, entries, item, numbers
from tests.support.processes import wait_until

SIZE = FRAME_BYTES + len("default") + 50
"""Bytes of one `item(number)` in the log."""


class TestFileLog(LogContract):
    """With segments of their usual size, of three items or so, and of one item each."""

    @pytest.fixture(params=[SEGMENT_BYTES, 300, 1])
    def open_log(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[OpenLog]:
        opened: list[FileLog] = []

        def open_log(start: int) -> FileLog:
            opened.append(FileLog(tmp_path / "log", start, segment_bytes=request.param))
            return opened[-1]

        yield open_log
        for log in opened:
            log.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "log"


def fill(folder: Path, count: int, segment_items: int = 10, *, start: int = 0) -> list[Path]:
    """A closed log with so many items of one size; its segments."""
    log = FileLog(folder, start, segment_bytes=segment_items * SIZE)
    for number in range(count):
        append(log, [item(number)])  # each by itself: a group may be larger than a segment
    log.close()
    return sorted(folder.iterdir())


def names(folder: Path) -> list[int]:
    return sorted(int(each.stem) for each in folder.iterdir())


def test_only_the_owner_reads(folder: Path) -> None:
    segments = fill(folder, 25)
    assert len(segments) == 3
    assert {stat.S_IMODE(each.stat().st_mode) for each in segments} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_segments_are_named_by_their_first_item(folder: Path) -> None:
    segments = fill(folder, 25)
    assert names(folder) == [0, 10 * SIZE, 20 * SIZE]
    sizes = [each.stat().st_size - SEGMENT_HEADER_BYTES for each in segments]
    assert sizes == [10 * SIZE, 10 * SIZE, 5 * SIZE]


def test_the_last_segment_is_written_to_after_a_start(folder: Path) -> None:
    fill(folder, 5)
    log = FileLog(folder, segment_bytes=10 * SIZE)
    append(log, [item(5)])
    assert (names(folder), numbers(log)) == ([0], list(range(6)))
    log.close()


def test_an_item_may_be_larger_than_a_segment(folder: Path) -> None:
    """And than what is read at once, also in the file and by the start."""
    sizes = [50, 3_000_000, 50, 2_500_000, 10]
    for start in range(2):
        log = FileLog(folder, segment_bytes=1_000)
        if not start:
            append(log, [item(number, size) for number, size in enumerate(sizes)])
        found = entries(log, max_bytes=100)
        assert [each.item for each in found] == [item(n, size) for n, size in enumerate(sizes)]
        log.close()


def test_an_item_that_no_frame_takes_is_refused(folder: Path) -> None:
    log = FileLog(folder)
    with pytest.raises(DataError, match="70,000 bytes"):
        log.append(item(0, space="a" * 70_000))
    assert log.append(item(1)).result(120) == log.end
    log.close()


class Gate:
    """Lets no sync through until it is opened."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_open, self.reached, self.syncs = threading.Event(), threading.Event(), 0
        self._sync = os.fdatasync
        patch.setattr(os, "fdatasync", self.sync)

    def sync(self, file: int) -> None:
        self.reached.set()
        assert self.is_open.wait(120)
        self.syncs += 1
        self._sync(file)


def test_what_is_not_synced_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what waits meanwhile is synced together: 50 items, two syncs."""
    log = FileLog(folder)
    behind = append(log, [item(0)])[0]
    gate = Gate(monkeypatch)
    futures = [log.append(item(1))]
    assert gate.reached.wait(120)
    futures += [log.append(item(number)) for number in range(2, 51)]
    assert (numbers(log), log.end, log.wait(behind, 0.01)) == ([0], behind, False)
    assert folder.joinpath(f"{0:020d}.log").stat().st_size > SEGMENT_HEADER_BYTES + SIZE
    assert not any(future.done() for future in futures)
    gate.is_open.set()
    assert [future.result(120) for future in futures] == [(n + 1) * SIZE for n in range(1, 51)]
    assert (numbers(log), gate.syncs) == (list(range(51)), 2)
    log.close()


def test_a_segment_that_was_read_is_given_back_to_the_system(folder: Path) -> None:
    fill(folder, 40)
    log = FileLog(folder)
    assert numbers(log) == list(range(40))
    log.trim(20 * SIZE)
    assert names(folder) == [20 * SIZE, 30 * SIZE]
    opened = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.exists()]
    assert not [each for each in opened if str(folder) in each and "deleted" in each]
    assert (log.begin, log.size_bytes) == (20 * SIZE, 20 * SIZE + 2 * SEGMENT_HEADER_BYTES)
    log.close()


def test_a_file_that_cannot_be_removed_now_is_removed_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folder, 30)
    log = FileLog(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        log.trim(20 * SIZE)
    assert (log.begin, names(folder)) == (0, [0, 10 * SIZE, 20 * SIZE])
    log.trim(20 * SIZE)
    assert (log.begin, names(folder)) == (20 * SIZE, [20 * SIZE])
    log.close()


def refuse(path: Path, **_: object) -> None:
    raise PermissionError(1, "not permitted", str(path))


def test_a_disk_that_does_not_read_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is passed over: what cannot be read now may be read later."""
    fill(folder, 3)
    log = FileLog(folder)

    def fail(file: int, size: int, place: int) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", fail)
        with pytest.raises(TransientError, match=r"cannot read .*Input/output error"):
            log.read(0, 1_000)
    assert numbers(log) == [0, 1, 2]
    log.close()


def test_a_log_that_can_be_written_again_says_so_without_an_append(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Senders that were refused may not come again before it does."""
    monkeypatch.setattr(file_log, "RETRY_S", 0.01)
    log = FileLog(folder)
    append(log, [item(0)])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail_sync)
        with pytest.raises(TransientError, match=r"cannot write the log .*: .*No space left"):
            log.append(item(1)).result(120)
        assert "No space left" in log.fault
    wait_until(lambda: not log.fault, what="the log is written again")
    append(log, [item(2)])
    assert numbers(log) == [0, 2]
    log.close()


def fail_sync(file: int) -> None:
    raise OSError(28, "No space left on device")


# --- starts beside a store ---


@pytest.mark.parametrize(
    ("start", "begin", "lost", "text"),
    [
        (31 * SIZE, 0, None, f"ends {SIZE} bytes before the place up to which the store has read"),
        (9 * SIZE, 10 * SIZE, SIZE, f"lacks {SIZE} bytes that the store has not"),
        (5 * SIZE, None, None, f"is gone, and the store had read {5 * SIZE} bytes of it"),
    ],
    ids=["older", "first-segment-gone", "gone"],
)
def test_a_log_that_does_not_reach_to_the_store_is_refused(
    folder: Path, start: int, begin: int | None, lost: int | None, text: str
) -> None:
    """Once, and nothing is changed; a start that accepts the loss goes on, and so do later ones."""
    segments = fill(folder, 30)
    if begin is None:
        shutil.rmtree(folder)
    elif begin:
        segments[0].unlink()
    before = content(folder)
    with pytest.raises(LostLogError, match=text) as caught:
        FileLog(folder, start)
    found = caught.value
    end = None if begin is None else 30 * SIZE
    assert (found.wanted, found.begin, found.end, found.lost_bytes) == (start, begin, end, lost)
    assert "\n" not in str(found)
    assert content(folder) == before

    log = FileLog(folder, start, accept_loss=True)
    assert log.end >= start
    expected = list(range(10, 30)) if begin == 10 * SIZE else []
    assert numbers(log, start, gaps=[]) == expected
    start = log.end  # the store has read what was left
    log.close()
    log = FileLog(folder, start)
    assert append(log, [item(100)]) == [start + SIZE]
    assert numbers(log, start) == [100]
    log.close()


def content(folder: Path) -> dict[str, bytes]:
    if not folder.exists():
        return {}
    return {each.name: each.read_bytes() for each in folder.iterdir()}


@pytest.mark.parametrize("number", [4, 14, 29], ids=["first", "middle", "last"])
def test_a_log_of_another_store_is_refused(folder: Path, number: int) -> None:
    """Its items lie across the offset of this one. Damage at that place does not refuse a log."""
    segments = fill(folder, 30)
    before = content(folder)
    for within in range(1, SIZE):
        with pytest.raises(LostLogError, match="it is of another data folder") as caught:
            FileLog(folder, number * SIZE + within)
        assert caught.value.lost_bytes is None
    assert content(folder) == before
    gaps: list[Gap] = []
    log = FileLog(folder, number * SIZE + 1, accept_loss=True)
    assert numbers(log, number * SIZE + 1, gaps=gaps) == list(range(number + 1, 30))
    assert gaps == [Gap(number * SIZE + 1, SIZE - 1)]
    log.close()
    with segments[number // 10].open("r+b") as file:
        file.seek(SEGMENT_HEADER_BYTES + number % 10 * SIZE + 20)
        file.write(b"damage")
    log = FileLog(folder, number * SIZE)
    assert numbers(log, number * SIZE, gaps=gaps) == list(range(number + 1, 30))
    assert gaps[1:] == [Gap(number * SIZE, SIZE)]
    log.close()


def test_a_loss_at_the_front_is_read_as_a_gap(folder: Path) -> None:
    segments = fill(folder, 30)
    segments[0].unlink()
    log = FileLog(folder, 4 * SIZE, accept_loss=True)
    chunk = log.read(4 * SIZE, 1)
    assert [(gap.offset, gap.size_bytes) for gap in chunk.damaged] == [(4 * SIZE, 6 * SIZE)]
    assert chunk.next == 11 * SIZE
    log.close()


def test_a_store_that_has_everything_needs_no_more_than_the_last_file(folder: Path) -> None:
    fill(folder, 30)
    log = FileLog(folder, 30 * SIZE, segment_bytes=10 * SIZE)
    log.trim(30 * SIZE)
    assert names(folder) == [20 * SIZE]
    log.close()
    log = FileLog(folder, 30 * SIZE, segment_bytes=10 * SIZE)
    assert append(log, [item(7)]) == [31 * SIZE]
    assert names(folder) == [20 * SIZE, 30 * SIZE]
    log.close()


# --- foreign files ---


def test_a_segment_under_another_name_is_refused(folder: Path) -> None:
    """Read under that name, every item in it would seem damaged; and a copy may be in the way."""
    segments = fill(folder, 30)
    for name in (5 * SIZE, 40 * SIZE):
        lying = segments[1].with_name(f"{name:020d}.log")
        segments[1].rename(lying)
        with pytest.raises(ConfigError, match=f"is the file {segments[1].name} under another name"):
            FileLog(folder)
        lying.rename(segments[1])
        shutil.copy(segments[1], lying)
        with pytest.raises(ConfigError, match="take it away if it is a copy"):
            FileLog(folder)
        lying.unlink()
    log = FileLog(folder)
    assert numbers(log) == list(range(30))
    log.close()


def test_a_segment_of_another_version_is_refused(folder: Path) -> None:
    """With what to do, and before anything is changed."""
    (segment,) = fill(folder, 3)
    head = b"SCTRLOG2" + bytes(16)
    segment.write_bytes(head + zlib.crc32(head).to_bytes(4, "little") + b"whatever")
    with pytest.raises(ConfigError, match=r"another version of the collector .*start that version"):
        FileLog(folder)
    assert segment.read_bytes().startswith(b"SCTRLOG2")


def test_other_files_are_left_alone(folder: Path) -> None:
    fill(folder, 3)
    for name in ("notes.log", "5.log", f"{7:020d}.log.bak"):
        (folder / name).write_text("mine")
    log = FileLog(folder)
    assert numbers(log) == [0, 1, 2]
    log.close()


def test_a_folder_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file")
    with pytest.raises(ConfigError, match="cannot open the log"):
        FileLog(tmp_path / "log")
