"""Damage of every kind: reported with its place and size, passed over, and all else is read."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.log.file_log import FileLog
from collector.log.port import Gap, Item, Kind
from collector.log.segment import FRAME_BYTES, SEGMENT_HEADER_BYTES
from tests.contracts.log import append, item, number_of

SIZE = FRAME_BYTES + len("default") + 50
"""Bytes of one `item(number)` in the log."""
COUNT = 30
"""Items in three segments of ten."""


@pytest.fixture
def segments(tmp_path: Path) -> list[Path]:
    log = FileLog(tmp_path / "log", segment_bytes=10 * SIZE)
    for number in range(COUNT):
        append(log, [item(number)])
    log.close()
    return sorted((tmp_path / "log").iterdir())


def change(path: Path, how: Callable[[bytearray], object]) -> None:
    content = bytearray(path.read_bytes())
    how(content)
    path.write_bytes(content)


def zero(begin: int, end: int) -> Callable[[bytearray], object]:
    """Overwrite items of a file, from one to another, with zeros."""

    def write(content: bytearray) -> None:
        at = slice(SEGMENT_HEADER_BYTES + begin * SIZE, SEGMENT_HEADER_BYTES + end * SIZE)
        content[at] = bytes((end - begin) * SIZE)

    return write


def cut(size: int) -> Callable[[bytearray], object]:
    """Let a file end after so many bytes of items."""

    def write(content: bytearray) -> None:
        del content[SEGMENT_HEADER_BYTES + size :]

    return write


def extend(content: bytearray) -> None:
    content.extend(b"more")


def spoil_header(content: bytearray) -> None:
    content[3] = 0


def read_all(
    folder: Path, max_bytes: int = 3 * SIZE, *, start: int = 0
) -> tuple[list[int], list[tuple[int, int]]]:
    """Open a log and read it to its end: the items, and the gaps by begin and end, joined."""
    log = FileLog(folder, start)
    found: list[int] = []
    gaps: list[Gap] = []
    at = start
    while at < log.end:
        chunk = log.read(at, max_bytes)
        assert chunk.next > at
        covered = sorted([(e.offset, e.next) for e in chunk.entries]
                         + [(gap.offset, gap.next) for gap in chunk.damaged])  # fmt: skip
        for begin, end in covered:  # without anything between them, or twice
            assert begin == at
            at = end
        assert at == chunk.next
        found += [number_of(each.item) for each in chunk.entries]
        gaps += chunk.damaged
    log.close()
    joined: list[tuple[int, int]] = []
    for gap in gaps:
        begin = joined.pop()[0] if joined and joined[-1][1] == gap.offset else gap.offset
        joined.append((begin, gap.next))
    return found, joined


def without(begin: int, end: int) -> tuple[list[int], list[tuple[int, int]]]:
    """The result of reading if the items from one to another are lost."""
    return [*range(begin), *range(end, COUNT)], [(begin * SIZE, end * SIZE)]


@pytest.mark.parametrize("number", [0, 4, 9, 10, 25, 29])
def test_any_byte_of_an_item_may_be_wrong(segments: list[Path], number: int) -> None:
    """Also of the last one: it was acknowledged, and is not cut off without a word."""
    path, at = segments[number // 10], SEGMENT_HEADER_BYTES + number % 10 * SIZE
    whole = path.read_bytes()
    for place in range(at, at + SIZE):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        assert read_all(path.parent) == without(number, number + 1), place - at
        assert path.stat().st_size == len(whole)


@pytest.mark.parametrize(
    ("segment", "how", "begin", "end"),
    [
        pytest.param(1, zero(3, 6), 13, 16, id="zeros-in-the-middle"),
        pytest.param(1, zero(0, 10), 10, 20, id="nothing-but-zeros"),
        pytest.param(0, zero(8, 10), 8, 10, id="zeros-at-the-end-of-a-middle-one"),
        pytest.param(2, zero(2, 5), 22, 25, id="zeros-in-the-last-one"),
        pytest.param(2, zero(7, 10), 27, 30, id="zeros-at-the-end"),
        pytest.param(1, cut(4 * SIZE), 14, 20, id="a-middle-one-ends-between-items"),
        pytest.param(1, cut(4 * SIZE + 1), 14, 20, id="a-middle-one-ends-in-a-frame"),
        pytest.param(1, cut(5 * SIZE - 1), 14, 20, id="a-middle-one-ends-in-a-body"),
        pytest.param(1, cut(0), 10, 20, id="a-middle-one-has-no-items"),
        pytest.param(1, cut(-SEGMENT_HEADER_BYTES), 10, 20, id="a-middle-one-is-empty"),
        pytest.param(1, extend, 0, 0, id="a-middle-one-is-too-long"),
        pytest.param(1, bytearray.reverse, 10, 20, id="a-middle-one-is-something-else"),
        pytest.param(2, spoil_header, 0, 0, id="a-header-is-wrong"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("max_bytes", [1, 3 * SIZE, 2**20])
def test_what_is_damaged_is_passed_over(
    segments: list[Path],
    segment: int,
    how: Callable[[bytearray], object],
    begin: int,
    end: int,
    max_bytes: int,
) -> None:
    change(segments[segment], how)
    items, gaps = without(begin, end)
    assert read_all(segments[0].parent, max_bytes) == (items, gaps if end else [])


def test_a_segment_that_is_missing_is_a_gap(segments: list[Path]) -> None:
    segments[1].unlink()
    assert read_all(segments[0].parent) == without(10, 20)


def test_a_segment_that_goes_while_the_log_is_open_is_a_gap(segments: list[Path]) -> None:
    log = FileLog(segments[0].parent)
    segments[1].unlink()
    chunk = log.read(10 * SIZE, 1)
    assert [(gap.offset, gap.next) for gap in chunk.damaged] == [(10 * SIZE, 20 * SIZE)]
    assert number_of(chunk.entries[0].item) == 20
    log.close()


def test_a_gap_is_the_same_each_time(
    segments: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Such as for a worker that reads again, as it could not commit; and the log says where."""
    change(segments[1], zero(3, 6))
    log = FileLog(segments[0].parent)
    for _ in range(3):
        assert log.read(13 * SIZE, 1).damaged == [Gap(13 * SIZE, 3 * SIZE)]
    assert (
        f"{3 * SIZE} bytes of the log {segments[0].parent} from offset {13 * SIZE}" in caplog.text
    )
    log.close()


@pytest.mark.parametrize("start", [0, 5 * SIZE, 24 * SIZE, 29 * SIZE])
def test_a_torn_item_at_the_end_is_cut_off(segments: list[Path], start: int) -> None:
    """Wherever it was torn; it is no damage, as nobody got an answer. The next one is whole."""
    last, whole = segments[2], segments[2].read_bytes()
    for torn in range(1, SIZE):
        last.write_bytes(whole[:-torn])
        items, gaps = read_all(last.parent, start=start)
        assert (items, gaps) == (list(range(start // SIZE, 29)), [])
        assert last.read_bytes() == whole[:-SIZE]
    log = FileLog(last.parent, start)
    assert append(log, [item(29)]) == [COUNT * SIZE]
    log.close()
    assert last.read_bytes() == whole


@pytest.mark.parametrize("size", [0, 1, SEGMENT_HEADER_BYTES - 1, SEGMENT_HEADER_BYTES])
def test_a_last_segment_without_an_item_is_used(segments: list[Path], size: int) -> None:
    """A crash, or a file system that lost the bytes of a file, may leave it."""
    last = segments[0].with_name(f"{30 * SIZE:020d}.log")
    last.write_bytes(head_of(last)[:size])
    for number in range(30, 33):
        log = FileLog(last.parent)
        assert append(log, [item(number)]) == [(number + 1) * SIZE]
        log.close()
    assert read_all(last.parent) == (list(range(33)), [])
    assert sorted(last.parent.iterdir()) == [*segments, last]


def head_of(path: Path) -> bytes:
    """Header of an empty segment with this name, written by a log."""
    folder = path.parent.parent / "other"
    FileLog(folder, int(path.stem), accept_loss=True).close()
    return (folder / path.name).read_bytes()


def test_an_item_copied_to_another_place_is_none(segments: list[Path]) -> None:
    """Such as an old block of the disk, or a log that somebody has put together by hand."""

    def copy(content: bytearray) -> None:
        items = content[SEGMENT_HEADER_BYTES:]
        content[SEGMENT_HEADER_BYTES + 2 * SIZE : SEGMENT_HEADER_BYTES + 4 * SIZE] = items[
            : 2 * SIZE
        ]

    change(segments[1], copy)
    assert read_all(segments[0].parent) == without(12, 14)


def test_items_that_hold_items_are_read_as_one(tmp_path: Path) -> None:
    """Bytes that look like the log's own, whole or in part, in a log whose frame is damaged."""
    folder = tmp_path / "log"
    log = FileLog(folder)
    append(log, [item(0)])
    inner = (folder / f"{0:020d}.log").read_bytes()
    evil = b"1 " + inner * 3 + b"ITM1" * 1_000
    append(log, [item(0), item(1), item(2)])
    made = log.append(Item(Kind.SPANS, "default", 3, b"3 " + evil))
    made.result(120)
    append(log, [item(4)])
    log.close()
    at = SEGMENT_HEADER_BYTES + 4 * SIZE
    change(folder / f"{0:020d}.log", lambda content: content.__setitem__(at, 0))
    items, gaps = read_all(folder)
    assert items == [0, 0, 1, 2, 4]
    assert gaps == [(4 * SIZE, made.result())]


FAULTS = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 2), st.integers(0, 10 * SIZE), st.integers(1, 255)),
    st.tuples(st.just("zero"), st.integers(0, 2), st.integers(0, 10 * SIZE), st.integers(1, 3_000)),
    st.tuples(st.just("cut"), st.integers(0, 1), st.integers(0, 10 * SIZE), st.just(0)),
    st.tuples(st.just("remove"), st.just(1), st.just(0), st.just(0)),
)


@given(faults=st.lists(FAULTS, min_size=1, max_size=4), max_bytes=st.integers(1, 5 * SIZE))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_damaged_all_else_is_read(
    segments: list[Path], faults: list[tuple[str, int, int, int]], max_bytes: int
) -> None:
    """Compared with the items whose bytes are all as they were."""
    whole = [path.read_bytes() for path in segments]
    for kind, number, at, value in faults:
        path = segments[number]
        if kind == "remove":
            path.unlink(missing_ok=True)
            continue
        content = bytearray(path.read_bytes()) if path.exists() else bytearray()
        at += SEGMENT_HEADER_BYTES
        if kind == "flip" and at < len(content):
            content[at] ^= value
        elif kind == "zero":
            content[at : at + value] = bytes(len(content[at : at + value]))
        elif kind == "cut":
            del content[at:]
        if path.exists():
            path.write_bytes(content)
    expected: list[int] = []
    for number in range(COUNT):
        at = SEGMENT_HEADER_BYTES + number % 10 * SIZE
        path = segments[number // 10]
        rest = path.read_bytes()[at : at + SIZE] if path.exists() else b""
        before = whole[number // 10][at : at + SIZE]
        if rest == before:
            expected.append(number)
    found, _ = read_all(segments[0].parent, max_bytes)
    assert found == expected
    for path, content in zip(segments, whole, strict=True):
        path.write_bytes(content)
