"""How much is read at a time from senders that do not say how much there is."""

import pytest

from collector.receivers.budget import FullError
from collector.receivers.read_size import ReadSize
from collector.receivers.read_slots import ReadSlots


def test_small_messages_are_asked_for_in_ever_larger_numbers() -> None:
    size, counts = ReadSize(max_bytes=1000), list[int]()
    for _ in range(5):
        size.saw([10] * size.count)
        counts.append(size.count)
    assert counts == [16, 32, 64, 64, 64]  # 64 of 10 bytes are 640


@pytest.mark.parametrize(
    ("largest", "count"), [(63, 8), (62, 16), (125, 8), (126, 4), (500, 2), (501, 1), (9999, 1)]
)
def test_the_largest_message_says_how_many_are_asked_for(largest: int, count: int) -> None:
    """A thousand bytes; it begins with eight, and doubles where twice as many fit."""
    size = ReadSize(max_bytes=1000)
    size.saw([1, largest, 1])
    assert size.count == count


def test_nothing_read_says_nothing() -> None:
    size = ReadSize()
    size.saw([])
    assert size.count == 8


def test_readers_wait_for_their_turn() -> None:
    slots = ReadSlots(2, wait_s=0.01)
    with (
        slots.slot(lambda: None),
        slots.slot(lambda: None),
        pytest.raises(FullError, match="send the same again"),
        slots.slot(lambda: None),
    ):
        pytest.fail("a third reader")
    with slots.slot(lambda: None), slots.slot(lambda: None):
        pass


def test_whoever_is_slow_is_cut_off_once_others_wait() -> None:
    """At second 61 the first has read for 61 s, the second for 60."""
    now, cut = 0.0, list[str]()
    slots = ReadSlots(2, wait_s=0.01, read_s=60, clock=lambda: now)
    with slots.slot(lambda: cut.append("first")):
        now = 1.0
        with slots.slot(lambda: cut.append("second")):
            now = 61.0
            assert cut == []
            with pytest.raises(FullError), slots.slot(lambda: None):
                pass
    assert cut == ["first"]
