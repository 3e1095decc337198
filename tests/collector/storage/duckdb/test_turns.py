"""Turns of threads, in the order in which they asked."""

import functools
import threading

import pytest

from collector.storage.duckdb.turns import Turns
from tests.support.processes import wait_until


def test_no_more_than_so_many_have_a_turn() -> None:
    turns, inside, most = Turns(3), set[int](), list[int]()

    def use(number: int) -> None:
        for _ in range(300):
            with turns:
                inside.add(number)
                most.append(len(inside))
                inside.discard(number)

    users = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for each in users:
        each.start()
    for each in users:
        each.join(120)
    assert len(most) == 8 * 300
    assert max(most) <= 3


def test_who_asked_first_is_first() -> None:
    """Even where the one who leaves comes back at once."""
    turns, order = Turns(1), list[int]()

    def use(number: int) -> None:
        with turns:
            order.append(number)

    waiting = list[threading.Thread]()
    with turns:
        for number in range(5):
            waiting.append(threading.Thread(target=use, args=(number,)))
            waiting[-1].start()
            wait_until(functools.partial(_waits, turns, number + 1), what="it waits")
    with turns:
        order.append(5)
    for each in waiting:
        each.join(120)
    assert order == [0, 1, 2, 3, 4, 5]


def _waits(turns: Turns, count: int) -> bool:
    return len(turns._waiting) == count  # pyright: ignore[reportPrivateUsage]


def test_a_fault_gives_the_turn_back() -> None:
    turns = Turns(1)
    with pytest.raises(ValueError, match="inside"), turns:
        raise ValueError("inside")
    with turns:
        pass
