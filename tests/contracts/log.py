"""Duties of every log in front of the store. A new log adds one small subclass."""

import threading
import time
from collections.abc import Callable, Iterable

import pytest

from collector.log.file_log import FileLog
from collector.log.port import Entry, Gap, Item, Kind
from scouter.errors import TransientError

READ_BYTES = 2**20

OpenLog = Callable[[int], FileLog]
"""Opens the log, from the offset of a store; the first time in a test, an empty one."""


def item(number: int, size: int = 50, *, space: str = "default") -> Item:
    """An item that its number distinguishes from others; of so many bytes, and at least five."""
    body = b"%d " % number
    return Item(Kind.SPANS, space, 1_700_000_000_000_000_000 + number, body.ljust(size, b"."))


def number_of(found: Item) -> int:
    return int(bytes(found.body).split(b" ", 1)[0])


def append(log: FileLog, items: Iterable[Item]) -> list[int]:
    """Append and wait; the offset behind each."""
    return [future.result(120) for future in [log.append(each) for each in items]]


def entries(
    log: FileLog, offset: int = 0, max_bytes: int = READ_BYTES, *, gaps: list[Gap] | None = None
) -> list[Entry]:
    """Everything behind an offset; a log that does not come to its end fails the test.

    So does a gap, unless there is a list for them.
    """
    found: list[Entry] = []
    while offset < log.end:
        chunk = log.read(offset, max_bytes)
        assert offset < chunk.next <= log.end
        offset = chunk.next
        found += chunk.entries
        if gaps is None:
            assert not chunk.damaged
        else:
            gaps += chunk.damaged
    assert not log.read(offset, max_bytes).entries
    return found


def numbers(
    log: FileLog, offset: int = 0, max_bytes: int = READ_BYTES, *, gaps: list[Gap] | None = None
) -> list[int]:
    return [number_of(each.item) for each in entries(log, offset, max_bytes, gaps=gaps)]


class LogContract:
    """The tests; a subclass gives the fixture `open_log`."""

    @pytest.fixture
    def open_log(self) -> OpenLog:
        """Opens the log of this test."""
        raise NotImplementedError

    @pytest.fixture
    def log(self, open_log: OpenLog) -> FileLog:
        return open_log(0)

    def test_a_new_log_is_empty(self, log: FileLog) -> None:
        assert (log.begin, log.end, log.read(0, READ_BYTES).entries) == (0, 0, [])
        assert not log.wait(0, 0)
        assert log.fault == ""

    def test_what_was_appended_is_read(self, log: FileLog) -> None:
        """Every field, of each kind; also nothing at all, and bytes of any value."""
        items = [
            Item(Kind.SPANS, "", 0, b""),
            Item(Kind.LOGS, "Müller & Söhne", 2**63 - 1, bytes(range(256)) * 10),
            Item(Kind.RECORDS, "default", -1, b'{"records": []}'),
        ]
        append(log, items)
        assert [each.item for each in entries(log)] == items

    def test_a_body_may_be_a_part_of_a_larger_one(self, log: FileLog) -> None:
        append(log, [Item(Kind.SPANS, "a", 1, memoryview(b"-body-")[1:5])])
        assert [each.item for each in entries(log)] == [Item(Kind.SPANS, "a", 1, b"body")]

    def test_each_item_ends_where_the_next_begins(self, log: FileLog) -> None:
        """The futures give the same offsets, in the order of the calls."""
        offsets = append(log, map(item, range(20)))
        found = entries(log)
        assert [each.next for each in found] == offsets
        assert [each.offset for each in found] == [log.begin, *offsets[:-1]]
        assert log.end == offsets[-1]

    def test_reading_goes_on_at_any_item(self, log: FileLog) -> None:
        offsets = append(log, map(item, range(10)))
        for number, offset in enumerate(offsets, start=1):
            assert numbers(log, offset) == list(range(number, 10))

    @pytest.mark.parametrize("max_bytes", [1, 100, 333, 1000, 10_000])
    def test_a_chunk_has_no_more_than_was_wanted(self, log: FileLog, max_bytes: int) -> None:
        """But for its first item."""
        append(log, (item(number, 5 + number * 37 % 200) for number in range(40)))
        at, found = 0, list[int]()
        while (chunk := log.read(at, max_bytes)).entries:
            found += [number_of(each.item) for each in chunk.entries]
            assert chunk.next == chunk.entries[-1].next
            assert chunk.next - at <= max_bytes or len(chunk.entries) == 1
            at = chunk.next
        assert found == list(range(40))

    def test_waiting_ends_with_an_append(self, log: FileLog) -> None:
        """Not with one that lies before the offset."""
        behind = append(log, [item(0)])[0]
        assert log.wait(0, 0)
        assert not log.wait(behind, 0.01)
        answers: list[bool] = []
        waiting = threading.Thread(target=lambda: answers.append(log.wait(behind, 120)))
        waiting.start()
        append(log, [item(1)])
        waiting.join()
        assert answers == [True]

    def test_closing_ends_a_wait(self, open_log: OpenLog) -> None:
        log = open_log(0)
        answers: list[bool] = []
        waiting = threading.Thread(target=lambda: answers.append(log.wait(0, 1_000)))
        waiting.start()
        log.close()
        waiting.join()
        assert answers == [False]

    def test_the_time_of_the_last_append(self, log: FileLog) -> None:
        before = time.monotonic()
        append(log, [item(0)])
        assert before <= log.last_append_s() <= time.monotonic()

    def test_a_closed_log_has_written_what_waited_and_takes_no_more(
        self, open_log: OpenLog
    ) -> None:
        log = open_log(0)
        futures = [log.append(item(number)) for number in range(100)]
        log.close()
        assert all(future.done() for future in futures)
        with pytest.raises(TransientError, match="closed"):
            log.append(item(100)).result(120)
        again = open_log(0)
        assert numbers(again) == list(range(100))
        assert again.end == futures[-1].result()

    def test_appends_that_nobody_waits_for_are_written(self, log: FileLog) -> None:
        """As when the client of a request has gone."""
        future = log.append(item(0))
        assert not future.cancel()
        append(log, [item(1)])
        assert numbers(log) == [0, 1]

    def test_many_threads_append_and_read_at_once(self, log: FileLog) -> None:
        """Items of one thread in its order; a reader sees none before it is acknowledged or never.

        Every reader sees the same order, and that is the order of the offsets.
        """
        threads, each_appends = 6, 150
        offsets: dict[int, int] = {}
        seen: list[list[tuple[int, int]]] = []

        def appending(first: int) -> None:
            for number in range(first, first + each_appends):
                offsets[number] = log.append(item(number, 20 + number % 90)).result(120)

        def reading(max_bytes: int) -> None:
            found: list[tuple[int, int]] = []
            seen.append(found)
            at = 0
            while len(found) < threads * each_appends:
                assert log.wait(at, 120)
                chunk = log.read(at, max_bytes)
                at = chunk.next
                assert at <= log.end
                found += [(number_of(each.item), each.next) for each in chunk.entries]

        work = [
            threading.Thread(target=appending, args=(first * each_appends,))
            for first in range(threads)
        ]
        work += [threading.Thread(target=reading, args=(size,)) for size in (1, 500, 100_000)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        order = sorted(offsets.items(), key=lambda pair: pair[1])
        assert seen == [order] * 3
        for first in range(0, threads * each_appends, each_appends):
            mine = [number for number, _ in order if first <= number < first + each_appends]
            assert mine == list(range(first, first + each_appends))

    def test_a_trim_leaves_what_the_store_has_not(self, log: FileLog) -> None:
        """At any offset: no item that begins there or behind it goes."""
        offsets = append(log, (item(number, 5_000) for number in range(60)))
        for number in (0, 7, 20, 21, 59):
            log.trim(offsets[number])
            assert log.begin <= offsets[number]
            assert numbers(log, offsets[number]) == list(range(number + 1, 60))

    def test_offsets_never_repeat(self, open_log: OpenLog) -> None:
        """Everything is trimmed, and the log opened again: twice."""
        log, last = open_log(0), 0
        for number in range(3):
            behind = append(log, [item(number)])[0]
            assert behind > last
            assert log.roll().result(120) == behind
            log.trim(behind)
            assert (log.begin, log.end) == (behind, behind)
            log.close()
            log, last = open_log(behind), behind
            assert (log.begin, log.end) == (behind, behind)

    def test_a_roll_of_a_log_without_items_changes_nothing(self, log: FileLog) -> None:
        assert log.roll().result(120) == log.roll().result(120) == 0
        behind = append(log, [item(0)])[0]
        assert log.roll().result(120) == log.roll().result(120) == behind
        assert numbers(log) == [0]

    def test_the_size_shrinks_with_a_trim(self, log: FileLog) -> None:
        empty = log.size_bytes
        append(log, [item(0, 50_000)])
        assert log.size_bytes > empty + 50_000
        log.trim(log.roll().result(120))
        assert log.size_bytes == empty
