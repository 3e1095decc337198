"""Calls of functions: directly, in a loop, in threads; and what is left when one stops."""

import asyncio
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from scouter.evaluate.judge.loops import at_once, in_other_thread
from scouter.replay.at_once import is_async
from scouter.replay.calls import DirectCalls, LoopCalls, with_loop

WORD: ContextVar[str] = ContextVar("word", default="none")
SOON_S = 120


async def async_function(number: int) -> int:
    await asyncio.sleep(0)
    return number


class AsyncCallable:
    """An object that can be called."""

    async def __call__(self, number: int) -> int:
        return number


def wrapped(number: int) -> Any:
    """A plain function that gives back a coroutine."""
    return async_function(number)


NAMED: dict[str, Callable[[int], Any]] = {
    "async": async_function,
    "partial of async": functools.partial(async_function),
    "object": AsyncCallable(),
    "wrapped": wrapped,
    "partial of wrapped": functools.partial(wrapped),
    "built in": abs,
    "class": int,
}
ALL = list(NAMED.values())


@pytest.mark.parametrize("function", ALL, ids=list(NAMED))
def test_every_kind_of_function(function: Callable[[int], Any]) -> None:
    """The same result directly and in a loop."""

    async def in_loop() -> object:
        calls = LoopCalls()
        try:
            return await calls.call(function, 7)
        finally:
            calls.close()

    calls = DirectCalls()
    assert at_once(calls.call(function, 7)) == 7
    calls.close()
    assert asyncio.run(in_loop()) == 7


def test_what_can_be_seen_beforehand() -> None:
    """Only what is declared async; a wrapper shows when it is called."""
    assert [is_async(function) for function in ALL] == [True, True, True] + [False] * 4
    assert not is_async(None)


def test_one_thread_through_an_attempt_and_its_context() -> None:
    """Objects bound to a thread live on; changes to the context stay inside of a call."""
    threads: list[threading.Thread] = []
    words: list[str] = []

    def look() -> None:
        threads.append(threading.current_thread())
        words.append(WORD.get())
        WORD.set("changed")

    async def main() -> None:
        WORD.set("given")
        calls = LoopCalls()
        await calls.call(look)
        await calls.call(look)
        calls.close()

    asyncio.run(main())
    assert words == ["given", "given"]
    assert threads[0] is threads[1]
    assert threads[0] is not threading.current_thread()
    threads[0].join(SOON_S)
    assert not threads[0].is_alive()


@pytest.mark.parametrize("error", [LookupError("x"), StopIteration(1), SystemExit(3)])
def test_exceptions_come_back_as_they_are(error: BaseException) -> None:
    """But for StopIteration, which no coroutine may raise."""

    def fail() -> None:
        raise error

    async def main() -> None:
        calls = LoopCalls()
        wanted = RuntimeError if isinstance(error, StopIteration) else type(error)
        with pytest.raises(wanted) as caught:
            await calls.call(fail)
        assert caught.value is error or caught.value.__cause__ is error
        calls.close()

    asyncio.run(main())


def test_a_call_that_is_given_up_goes_on_alone() -> None:
    """Its thread ends after it; a coroutine that it gives back is closed, not forgotten."""
    release = threading.Event()
    threads: list[threading.Thread] = []

    def hang() -> Any:
        threads.append(threading.current_thread())
        assert release.wait(SOON_S)
        return async_function(1)

    async def main() -> None:
        calls = LoopCalls()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await calls.call(hang)
        assert calls.was_given_up
        calls.close()
        release.set()
        await asyncio.to_thread(threads[0].join, SOON_S)

    asyncio.run(main())
    assert not threads[0].is_alive()


def test_a_loop_that_is_closed_meanwhile() -> None:
    """Nobody waits for the answer any more; the thread ends without a word."""
    started, release = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def hang() -> None:
        threads.append(threading.current_thread())
        started.set()
        assert release.wait(SOON_S)

    async def main() -> None:
        calls = LoopCalls()
        call = asyncio.create_task(calls.call(hang))
        assert await asyncio.to_thread(started.wait, SOON_S)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        calls.close()

    asyncio.run(main())
    release.set()
    threads[0].join(SOON_S)
    assert not threads[0].is_alive()


def test_driving_what_waits_is_refused() -> None:
    """It would wait for ever."""

    class Forever:
        def __await__(self) -> Any:
            yield

    async def wait() -> None:
        await Forever()

    with pytest.raises(RuntimeError, match="it waits"):
        at_once(wait())


def test_an_interrupt_of_a_notebook() -> None:
    """The stop button: the caller goes on at once, after its clean-up was called."""
    release = threading.Event()
    calls: list[str] = []

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert release.wait(SOON_S)

    with pytest.raises(KeyboardInterrupt):
        in_other_thread(work, lambda: calls.append("called"))
    assert calls == ["called"]
    release.set()


def test_results_and_errors_of_another_thread() -> None:
    """With the caller's context."""
    WORD.set("outside")
    assert in_other_thread(WORD.get, lambda: None) == "outside"
    with pytest.raises(ZeroDivisionError):
        in_other_thread(lambda: 1 // 0, lambda: None)


def loop_of(thread_of: Callable[[Callable[[], object]], object]) -> list[Any]:
    """The loops that functions with a loop of their own see, one after the other in one thread."""
    seen: list[Any] = []

    def run() -> str:
        loop = asyncio.get_event_loop()
        seen.append(loop)
        return loop.run_until_complete(asyncio.sleep(0, "x"))

    def takes_it_away() -> int:
        return asyncio.run(asyncio.sleep(0, 1))

    def closes_it() -> None:
        asyncio.get_event_loop().close()

    def sets_another() -> None:
        own.append(asyncio.new_event_loop())
        asyncio.set_event_loop(own[0])

    own: list[asyncio.AbstractEventLoop] = []
    steps = (run, run, takes_it_away, run, closes_it, run, sets_another, run)
    for work in steps:
        thread_of(work)
    own[0].close()
    return [*seen, own[0]]


def test_a_thread_keeps_one_loop_for_those_that_look_for_one() -> None:
    """As `run_sync` of frameworks does; it is made anew where somebody closed it."""
    threads: list[threading.Thread] = []

    async def main() -> list[Any]:
        calls = LoopCalls()

        def thread_of(work: Callable[[], object]) -> object:
            def noted() -> object:
                threads.append(threading.current_thread())
                return work()

            return asyncio.run_coroutine_threadsafe(calls.call(noted), running).result(SOON_S)

        running = asyncio.get_running_loop()
        seen = await asyncio.to_thread(loop_of, thread_of)
        calls.close()
        return seen

    first, second, third, fourth, fifth, own = asyncio.run(main())
    assert first is second
    assert first is third
    assert fourth is not first
    assert fifth is own
    threads[0].join(SOON_S)
    assert set(threads) == {threads[0]}
    assert [loop.is_closed() for loop in (first, fourth)] == [True, True]


def test_what_is_left_on_the_loop_of_a_thread_is_cancelled() -> None:
    """A task that a function started and forgot ends with its thread."""
    ended = threading.Event()

    async def forgotten() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def start() -> None:
        tasks.append(asyncio.create_task(forgotten()))
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []

    async def main() -> None:
        calls = LoopCalls()
        await calls.call(lambda: asyncio.get_event_loop().run_until_complete(start()))
        assert not ended.is_set()
        calls.close()

    asyncio.run(main())
    assert ended.wait(SOON_S)
    assert tasks[0].cancelled()


def test_a_notebook_has_a_loop_for_plain_functions() -> None:
    """Its own is running in the thread that waits."""

    async def cell() -> object:
        work = functools.partial(asyncio.sleep, 0, "x")
        return in_other_thread(
            lambda: with_loop(lambda: asyncio.get_event_loop().run_until_complete(work())),
            lambda: None,
        )

    assert asyncio.run(cell()) == "x"


NO_FILES_LEFT = """
import asyncio, os, resource
from scouter.replay.calls import LoopCalls

async def main():
    calls = LoopCalls()
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))
    return await asyncio.wait_for(calls.call(abs, -7), 10)

print(asyncio.run(main()))
"""


def test_a_thread_without_a_loop_serves_those_that_need_none() -> None:
    """No file descriptor is left for one."""
    done = subprocess.run(
        [sys.executable, "-c", NO_FILES_LEFT], capture_output=True, encoding="utf-8",
        check=False, timeout=120,
    )  # fmt: skip
    assert done.stdout == "7\n", done.stderr
