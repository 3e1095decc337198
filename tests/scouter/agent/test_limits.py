"""Limits of an entry, on a clock that jumps: nothing here really waits."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.agent.entries import ProviderEntry
from scouter.agent.limits import MINUTE_S, Limits, PausedError, limits_of

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Does not wait for a timer: it moves the clock there."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout:
            self.now += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run(make: Callable[[JumpingLoop], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, JumpingLoop)
        return runner.run(make(loop))


@given(
    arrivals=st.lists(
        st.tuples(st.floats(0, 90), st.floats(0, 30), st.integers(0, 60), st.integers(0, 90)),
        max_size=25,
    ),
    concurrency=st.integers(1, 4),
    requests=st.none() | st.integers(1, 6),
    tokens=st.none() | st.integers(20, 100),
)
def test_no_window_of_a_minute_holds_too_much(
    arrivals: list[tuple[float, float, int, int]],
    concurrency: int,
    requests: int | None,
    tokens: int | None,
) -> None:
    """Counted by hand over every window: questions, tokens as estimated, and those at a time.

    Arrival, duration, estimate and real tokens of each question are drawn. The real tokens may pass
    the bound, as nobody can know them before. In a window in which no correction went up they may
    not.
    """
    began: list[tuple[float, int, int]] = []
    inside = [0, 0]
    turns: list[int] = []

    async def main(loop: JumpingLoop) -> None:
        limits = Limits(
            concurrency=concurrency,
            requests_per_minute=requests,
            tokens_per_minute=tokens,
            clock=loop.time,
        )
        queued: list[int] = []

        async def one(at: int) -> None:
            arrival, takes, estimate, real = arrivals[at]
            await asyncio.sleep(arrival)
            queued.append(at)
            ticket = await limits.enter(estimate)
            turns.append(queued.index(at))
            began.append((loop.time(), min(estimate, tokens or estimate), real))
            inside[0] += 1
            inside[1] = max(inside)
            await asyncio.sleep(takes)
            inside[0] -= 1
            ticket.leave(real)

        async with asyncio.TaskGroup() as group:
            for at in range(len(arrivals)):
                group.create_task(one(at))

    run(main)
    assert len(began) == len(arrivals)
    assert turns == sorted(turns), "first come, first served"
    assert inside[1] <= concurrency
    for start, *_ in began:
        window = [use for use in began if start <= use[0] < start + MINUTE_S - 1e-6]
        if requests is not None:
            assert len(window) <= requests
        if tokens is not None and all(real <= guess for _, guess, real in window):
            # A correction downwards lets others in, so that only what was really used is bounded.
            assert sum(real for *_, real in window) <= tokens


def test_tokens_are_corrected_after_the_call() -> None:
    """100 a minute: 90 guessed and 10 used let 80 more in at once; 90 used would not."""

    async def main(loop: JumpingLoop, used: int | None) -> float:
        limits = Limits(concurrency=9, tokens_per_minute=100, clock=loop.time)
        (await limits.enter(90)).leave(used)
        before = loop.time()
        (await limits.enter(80)).leave()
        return loop.time() - before

    assert run(lambda loop: main(loop, 10)) == 0
    assert run(lambda loop: main(loop, 90)) == pytest.approx(MINUTE_S)
    assert run(lambda loop: main(loop, None)) == pytest.approx(MINUTE_S)


def test_more_than_a_minutes_tokens_waits_for_an_empty_minute() -> None:
    async def main(loop: JumpingLoop) -> float:
        limits = Limits(concurrency=9, tokens_per_minute=100, clock=loop.time)
        (await limits.enter(1)).leave()
        (await limits.enter(5000)).leave()
        return loop.time() - 1000.0

    assert run(main) == pytest.approx(MINUTE_S)


def test_a_pause_holds_back_everyone() -> None:
    async def main(loop: JumpingLoop) -> list[float]:
        limits = Limits(concurrency=9, clock=loop.time)
        limits.pause(20)
        limits.pause(5)  # ends earlier, and shortens nothing

        async def one() -> float:
            (await limits.enter()).leave()
            return loop.time() - 1000.0

        return await asyncio.gather(*(one() for _ in range(4)))

    assert run(main) == pytest.approx([20.0] * 4)


def test_a_pause_that_begins_meanwhile_counts_for_those_who_wait() -> None:
    async def main(loop: JumpingLoop) -> float:
        limits = Limits(concurrency=1, clock=loop.time)
        first = await limits.enter()
        waiting = asyncio.create_task(limits.enter())
        await asyncio.sleep(0)
        limits.pause(30)
        first.leave()
        (await waiting).leave()
        return loop.time() - 1000.0

    assert run(main) == pytest.approx(30.0)


def test_a_pause_that_is_too_long_is_not_waited_for() -> None:
    async def main(loop: JumpingLoop) -> None:
        limits = Limits(concurrency=1, max_pause_s=60, clock=loop.time)
        first = await limits.enter()
        waiting = [asyncio.create_task(limits.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        limits.pause(3600)
        first.leave()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in found] == [PausedError] * 3
        with pytest.raises(PausedError, match="3600"):
            await limits.enter()

    run(main)


@given(cancelled=st.sets(st.integers(0, 7)))
def test_whoever_is_cancelled_leaves_the_queue(cancelled: set[int]) -> None:
    """Eight wait behind one place; some give up, first or last; the others all get it in turn."""

    async def main(loop: JumpingLoop) -> list[int]:
        limits = Limits(concurrency=1, clock=loop.time)
        holding = await limits.enter()
        order: list[int] = []

        async def one(at: int) -> None:
            ticket = await limits.enter()
            order.append(at)
            await asyncio.sleep(1)
            ticket.leave()

        tasks = [asyncio.create_task(one(at)) for at in range(8)]
        await asyncio.sleep(0)
        for at in cancelled:
            tasks[at].cancel()
        holding.leave()
        await asyncio.gather(*tasks, return_exceptions=True)
        (await limits.enter()).leave()  # nothing is taken any more
        return order

    assert run(main) == [at for at in range(8) if at not in cancelled]


def test_entries_that_are_alike_share_their_limits() -> None:
    entry = ProviderEntry(name="a", kind="openai")
    other = ProviderEntry(name="b", kind="openai")
    limits = limits_of(entry)
    assert limits_of(entry.model_copy()) is limits
    assert limits_of(other) is not limits
    ticket = asyncio.run(limits.enter())
    ticket.leave()
    ticket.leave()  # a second time gives nothing back
    assert asyncio.run(_inside(limits)) == entry.concurrency


async def _inside(limits: Limits) -> int:
    """The number that is let in without waiting."""
    tickets = 0
    while True:
        entering = asyncio.create_task(limits.enter())
        await asyncio.sleep(0)
        if not entering.done():
            entering.cancel()
            return tickets
        tickets += 1
