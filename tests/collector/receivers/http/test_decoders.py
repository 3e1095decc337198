"""Bodies that the event loop decodes itself."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from collector.receivers.http.body import SMALL, Decoders


class Clock:
    """Time that passes only when set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def decoded_in(decoders: Decoders, size: int, work: Callable[[], object] = int) -> str:
    """The name of the thread that decodes a body of that size."""

    def decode() -> str:
        work()
        return threading.current_thread().name

    return asyncio.run(decoders.run(size, decode))


def test_large_bodies_go_to_a_thread() -> None:
    decoders = Decoders()
    here = threading.current_thread().name
    assert decoded_in(decoders, SMALL) == here
    assert decoded_in(decoders, SMALL + 1).startswith("scouter-decode")


@pytest.mark.parametrize(("took_s", "rests_s"), [(0.25, 5.0), (0.006, 0.12)])
def test_after_a_slow_one_the_loop_rests_for_twenty_times_as_long(
    took_s: float, rests_s: float
) -> None:
    used, passed = Clock(), Clock()
    decoders = Decoders(used, passed)
    here = threading.current_thread().name

    def work() -> None:
        used.now_s += took_s
        raise ValueError("not what it should be")

    with pytest.raises(ValueError, match="not what it should be"):
        decoded_in(decoders, 1, work)
    assert decoded_in(decoders, 1) != here
    passed.now_s = rests_s - 0.001
    assert decoded_in(decoders, 1) != here
    passed.now_s = rests_s + 0.001
    assert decoded_in(decoders, 1) == here


def test_quick_ones_earn_no_rest() -> None:
    used = Clock()
    decoders = Decoders(used, Clock())

    def work() -> None:
        used.now_s += 0.004

    here = threading.current_thread().name
    assert {decoded_in(decoders, 1, work) for _ in range(100)} == {here}
