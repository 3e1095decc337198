"""Bounds on reading from senders that do not say how much there is."""

import threading

import pytest

from collector.receivers.budget import FullError
from collector.receivers.grpc.receiver import ReadSlots
from collector.receivers.message_servers.receiver import ReadSize


def test_small_messages_are_requested_in_ever_larger_numbers() -> None:
    size, counts = ReadSize(max_bytes=1000), list[int]()
    for _ in range(5):
        size.saw([10] * size.count)
        counts.append(size.count)
    assert counts == [16, 32, 64, 64, 64]  # 64 of 10 bytes are 640


@pytest.mark.parametrize(
    ("largest", "count"), [(63, 8), (62, 16), (125, 8), (126, 4), (500, 2), (501, 1), (9999, 1)]
)
def test_the_largest_message_says_how_many_are_requested(largest: int, count: int) -> None:
    """A thousand bytes; it begins with eight, and doubles where twice as many fit."""
    size = ReadSize(max_bytes=1000)
    size.saw([1, largest, 1])
    assert size.count == count


def test_nothing_read_says_nothing() -> None:
    size = ReadSize()
    size.saw([])
    assert size.count == 8


def test_a_reader_waits_for_a_permit() -> None:
    slots = ReadSlots(2, turn_s=0.01, wait_s=0.01)
    with (
        slots.slot("me", lambda: None),
        slots.slot("you", lambda: None),
        pytest.raises(FullError, match="send the same again"),
        slots.slot("her", lambda: None),
    ):
        pytest.fail("a third reader")
    with slots.slot("me", lambda: None), slots.slot("you", lambda: None):
        pass


def test_a_name_leaves_one_permit_to_the_others() -> None:
    slots = ReadSlots(3, turn_s=0.01, wait_s=0.01)
    with slots.slot("me", lambda: None), slots.slot("me", lambda: None):
        with pytest.raises(FullError), slots.slot("me", lambda: None):
            pytest.fail("all permits under one name")
        with slots.slot("you", lambda: None):
            pass


@pytest.mark.parametrize(
    ("who", "cut_off"),
    [
        pytest.param("new", "first", id="of-any-name"),
        pytest.param("two", "second", id="of-its-own-where-that-has-its-share"),
    ],
)
def test_the_oldest_is_cut_off_once_somebody_waited_a_turn(who: str, cut_off: str) -> None:
    """Its permit goes to whoever waited."""
    ends = {name: threading.Event() for name in ("first", "second", "third")}
    slots, cut, started = ReadSlots(3, turn_s=0.01, wait_s=20), list[str](), threading.Semaphore(0)

    def read(who: str, name: str) -> None:
        def end() -> None:
            cut.append(name)
            ends[name].set()

        with slots.slot(who, end):
            started.release()
            assert ends[name].wait(120)

    readers: list[threading.Thread] = []
    for pair in (("one", "first"), ("two", "second"), ("two", "third")):
        readers.append(threading.Thread(target=read, args=pair))
        readers[-1].start()
        assert started.acquire(timeout=120)
    with slots.slot(who, lambda: None):
        assert cut == [cut_off]
    for each in ends.values():
        each.set()
    for reader in readers:
        reader.join(120)


def test_no_more_wait_than_there_are_threads_for() -> None:
    slots = ReadSlots(1, turn_s=60, wait_s=60, max_waiting=0)
    with (
        slots.slot("me", lambda: None),
        pytest.raises(FullError),
        slots.slot("me", lambda: None),
    ):
        pytest.fail("somebody waited")
