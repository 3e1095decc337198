"""How much is read at a time from senders that do not say how much there is."""

from threading import Thread

import pytest

from collector.receivers.budget import FullError
from collector.receivers.grpc.read_slots import ReadSlots
from collector.receivers.message_servers.fetch_size import ReadSize
from tests.support.processes import wait_until


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


@pytest.mark.parametrize(
    ("who", "turns", "cut_off"),
    [
        pytest.param("new", 1, ["first"], id="reads-most"),
        pytest.param("new", 5, ["first", "second", "one"], id="one-in-a-turn"),
        pytest.param("one", 1, ["first", "one"], id="who-reads-more-and-its-own"),
        pytest.param("many", 1, ["first", "second"], id="all-of-its-own-name"),
        pytest.param("late", 1, ["first"], id="none-while-its-turns-begin"),
    ],
)
def test_whoever_is_slow_is_cut_off_once_others_wait(
    who: str, turns: int, cut_off: list[str]
) -> None:
    """Three read for a second, two of them under one name, then "late" begins."""
    now, cut = 0.0, list[str]()
    slots = ReadSlots(4, turn_s=0.01, wait_s=0.01 * turns, clock=lambda: now)
    with (
        slots.slot("many", lambda: cut.append("first")),
        slots.slot("many", lambda: cut.append("second")),
        slots.slot("one", lambda: cut.append("one")),
    ):
        now = 1.0
        late = slots.slot("late", lambda: cut.append("late"))
        with late, pytest.raises(FullError), slots.slot(who, lambda: None):
            pytest.fail("a fifth reader")
    assert cut == cut_off


def _waiting(slots: ReadSlots) -> int:
    lines = slots._waiting.values()  # pyright: ignore[reportPrivateUsage]
    return sum(map(len, lines))


def test_a_turn_goes_to_the_name_that_reads_least_and_there_to_the_first() -> None:
    """Two read under the name of "many"; then come three more of it, "one" and "other"."""
    slots, order = ReadSlots(2, max_waiting=3), list[str]()
    first, second = slots.slot("many", lambda: None), slots.slot("many", lambda: None)
    first.__enter__()
    second.__enter__()

    def read(who: str, name: str) -> None:
        with slots.slot(who, lambda: None):
            order.append(name)

    names = [("many", "m1"), ("many", "m2"), ("many", "m3"), ("one", "o"), ("other", "p")]
    threads = [Thread(target=read, args=pair) for pair in names]
    for number, thread in enumerate(threads, start=1):
        thread.start()
        wait_until(lambda n=number: _waiting(slots) == n, what="it waits")
    with pytest.raises(FullError), slots.slot("many", lambda: None):
        pytest.fail("a fourth one waits")
    first.__exit__(None, None, None)
    for thread in threads:
        thread.join(30)
    second.__exit__(None, None, None)
    assert order == ["o", "p", "m1", "m2", "m3"]
