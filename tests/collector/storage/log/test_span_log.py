"""The span log against what was put in: whole, torn, full, released and opened again."""

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.storage.log.span_log import Frame, SpanLog


def frame(number: int, size: int = 100) -> Frame:
    body = number.to_bytes(2, "big") * (size // 2)
    return Frame(space=f"space {number}", received_ns=number, body=body)


def bodies(log: SpanLog, place: int = 0) -> list[bytes]:
    return [found.body for found, _ in log.frames(place)]


@contextmanager
def room(size: int) -> Generator[None]:
    """No file of this process may grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_frames_come_back_where_they_were_put(tmp_path: Path) -> None:
    log = SpanLog(tmp_path / "log", 0, file_bytes=500)
    frames = [frame(n) for n in range(20)]
    places = log.append(frames[:1])
    for start in range(1, 19, 3):
        places += log.append(frames[start : start + 3])
    places += log.append(frames[19:])

    assert [found for found, _ in log.frames(0)] == frames
    assert [place for _, place in log.frames(0)] == places
    assert bodies(log, places[4].end) == [each.body for each in frames[5:]]
    for each, place in zip(frames, places, strict=True):
        assert log.read(place.body, len(each.body)) == each.body
        assert log.read(place.body + 10, 4) == each.body[10:14]
    assert log.end == places[-1].end == log.size_bytes
    assert len(log.files()) > 3
    with pytest.raises(EOFError, match="5 of 100 bytes"):
        log.read(log.end - 5, 100)
    log.close()


def test_files_that_were_written_a_while_ago_leave_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last two stay; and a log that may not advise the system is written all the same."""
    left: list[str] = []

    def advise(file: int, start: int, size: int, advice: int) -> None:
        assert (start, size, advice) == (0, 0, os.POSIX_FADV_DONTNEED)
        left.append(Path(f"/proc/self/fd/{file}").resolve().name)
        raise OSError("not here")

    monkeypatch.setattr(os, "posix_fadvise", advise)
    log = SpanLog(tmp_path / "log", 0, file_bytes=100)
    for number in range(5):
        log.append([frame(number)])
    log.close()
    files = sorted((tmp_path / "log").iterdir(), key=lambda file: int(file.stem))
    assert left == [file.name for file in files[:3]]
    assert bodies(log) == [frame(number).body for number in range(5)]


def test_what_was_written_when_memory_ran_out_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SpanLog(tmp_path / "log", 0)
    log.append([frame(1)])
    write = os.writev

    def short(file: int, views: list[memoryview]) -> int:
        write(file, views[:3])
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", short)
        with pytest.raises(MemoryError):
            log.append([frame(2)])
    (place,) = log.append([frame(3)])
    assert log.read(place.body, 100) == frame(3).body
    assert bodies(log) == [frame(1).body, frame(3).body]
    log.close()


def test_a_group_of_more_parts_than_one_call_takes(tmp_path: Path) -> None:
    frames = [frame(n % 256, size=2 + n % 7) for n in range(1_500)]
    log = SpanLog(tmp_path / "log", 0)
    places = log.append(frames)
    assert list(log.frames(0)) == list(zip(frames, places, strict=True))
    log.close()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=st.integers(0, 1000), garbage=st.binary(max_size=60))
def test_of_a_torn_end_the_whole_frames_stay(
    tmp_path_factory: pytest.TempPathFactory, kept: int, garbage: bytes
) -> None:
    """A crash may leave any part of the last writes: later ones begin behind it."""
    folder = tmp_path_factory.mktemp("log")
    log = SpanLog(folder, 0)
    frames = [frame(n) for n in range(6)]
    places = log.append(frames)
    log.close()
    (file,) = log.files()
    left = file.read_bytes()[:kept] + garbage
    file.write_bytes(left)

    log = SpanLog(folder, 0)
    whole = [each.body for each, place in zip(frames, places, strict=True) if place.end <= kept]
    assert bodies(log) == whole
    (place,) = log.append([frame(9)])
    assert place.body > len(left)
    log.close()
    log = SpanLog(folder, place.end)
    assert bodies(log) == [*whole, frame(9).body]
    assert bodies(log, log.end) == []
    log.close()


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    log = SpanLog(tmp_path, 0)
    (first,) = log.append([frame(1, 1000)])
    for size in (500, 1500):
        with room(size), pytest.raises(OSError, match="File too large"):
            log.append([frame(2, 1000), frame(3, 1000)])
        assert (log.end, log.size_bytes) == (first.end, first.end)
    (second,) = log.append([frame(4)])

    assert bodies(log) == [frame(1, 1000).body, frame(4).body]
    assert second.body > first.end
    log.close()


def test_a_first_write_that_fails_leaves_no_file(tmp_path: Path) -> None:
    log = SpanLog(tmp_path, 0)
    with room(50), pytest.raises(OSError, match="File too large"):
        log.append([frame(1)])
    assert list(tmp_path.iterdir()) == []
    log.append([frame(2)])
    assert bodies(log) == [frame(2).body]
    log.close()


def test_a_file_without_a_frame_is_begun_again(tmp_path: Path) -> None:
    """A crash between making a file and writing into it."""
    log = SpanLog(tmp_path, 0)
    (place,) = log.append([frame(1)])
    log.close()
    (tmp_path / f"{place.end:020d}.spans").touch()
    log = SpanLog(tmp_path, place.end)
    log.append([frame(2)])
    assert bodies(log) == [frame(1).body, frame(2).body]
    log.close()


def test_a_log_that_is_shorter_than_the_database_knows(tmp_path: Path) -> None:
    """Its files were lost: what comes now is at places that were never used."""
    log = SpanLog(tmp_path, 5_000)
    (place,) = log.append([frame(1)])
    assert place.body > 5_000
    assert bodies(log, 5_000) == [frame(1).body]
    with pytest.raises(OSError, match="begins behind place 100"):
        log.read(100, 10)
    log.close()


def test_files_are_released_whole_and_never_the_last(tmp_path: Path) -> None:
    log = SpanLog(tmp_path, 0, file_bytes=300)
    places = [log.append([frame(n)])[0] for n in range(9)]
    before, size = len(log.files()), log.size_bytes
    assert log.read(places[0].body, 2) == b"\0\0"
    with log.pinned():
        assert log.release(log.end) == 0
    assert log.release(places[0].end) == 0
    freed = log.release(places[4].body)

    assert 0 < freed == size - log.size_bytes
    assert bodies(log)[-5:] == [frame(n).body for n in range(4, 9)]
    with pytest.raises(OSError, match="begins behind"):
        log.read(places[0].body, 2)
    log.release(log.end)
    assert 1 == len(log.files()) < before
    log.close()


@pytest.mark.parametrize("is_damaged_meant", [False, True])
@pytest.mark.parametrize("damaged", [1, 3])
def test_a_damaged_frame_costs_the_others_nothing(
    tmp_path: Path, damaged: int, *, is_damaged_meant: bool
) -> None:
    """Frame 0 changes, of four with one in the middle or at the end damaged, before a torn end.

    A damaged frame keeps its bytes unless it may hold what is to go; a torn end never stays.
    """
    log = SpanLog(tmp_path, 0)
    frames = [frame(n + 1) for n in range(4)]
    places = log.append(frames)
    (file,) = log.files()
    content = bytearray(file.read_bytes())
    begin = places[damaged - 1].end
    content[places[damaged].end - 1] ^= 1
    torn = b"" if damaged == 3 else bytes(content[:40])
    file.write_bytes(content + torn)

    def concerns(found: bytes) -> bool:
        meant = [frames[0].body[:8]] + ([frames[damaged].body[:8]] if is_damaged_meant else [])
        return any(each in found for each in meant)

    def change(found: Frame) -> bytes | None:
        return bytes(len(found.body)) if found == frames[0] else None

    assert log.rewrite(concerns, change) == 1
    after = file.read_bytes()
    assert after[places[0].body : places[0].end] == bytes(100)
    if is_damaged_meant:
        content[begin : places[damaged].end] = bytes(places[damaged].end - begin)
    assert after[places[0].end :] == content[places[0].end :] + bytes(len(torn))
    log.close()
