"""The space whose question is answered next."""

import asyncio

import pytest

from collector.api.front import Turns
from collector.problem import ProblemError


def test_each_space_has_one_of_its_questions_answered_in_turn() -> None:
    """Any questions of the others make no difference; within a space the first is served first."""
    order: list[str] = []

    async def ask(turns: Turns, space: str, name: str) -> None:
        await turns.take(space)
        order.append(name)
        await asyncio.sleep(0)
        turns.give_back()

    async def main() -> None:
        turns = Turns(1)
        requests = [("a", f"a{n}") for n in range(6)] + [("b", "b0"), ("b", "b1"), ("c", "c0")]
        await asyncio.gather(*(ask(turns, *each) for each in requests))

    asyncio.run(asyncio.wait_for(main(), 120))
    assert order == ["a0", "a1", "b0", "c0", "a2", "b1", "a3", "a4", "a5"]


def test_so_many_questions_of_a_space_wait_and_no_more() -> None:
    async def main() -> None:
        turns = Turns(1)
        assert await turns.take("a") is False
        waiting = [asyncio.create_task(turns.take("a")) for _ in range(100)]
        await asyncio.sleep(0)
        with pytest.raises(ProblemError) as caught:
            await turns.take("a")
        assert (caught.value.status, caught.value.headers["Retry-After"]) == (503, "5")
        other = asyncio.create_task(turns.take("b"))
        await asyncio.sleep(0)
        turns.give_back()
        turns.give_back()
        assert await waiting[0] is True
        assert await other is True
        for each in waiting:
            each.cancel()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_turn_of_one_that_was_cancelled_goes_to_the_next() -> None:
    """While it waits, and at the moment that its turn comes."""

    async def main() -> None:
        turns = Turns(1)
        await turns.take("a")
        waiting = [asyncio.create_task(turns.take("a")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        turns.give_back()
        waiting[1].cancel()
        assert await waiting[2] is True
        turns.give_back()
        assert await turns.take("b") is False

    asyncio.run(asyncio.wait_for(main(), 120))
