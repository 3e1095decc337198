"""Coroutines run to their end by code that is none: in this thread, in another, without a loop."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def awaited(value: Awaitable[T]) -> T:
    """Make a coroutine of anything that can be awaited."""
    return await value


def at_once(walk: Coroutine[Any, Any, T]) -> T:
    """Run to its end what waits for nothing, without an event loop.

    Raises:
        RuntimeError: It waits.
    """
    try:
        walk.send(None)
    except StopIteration as done:
        return done.value
    finally:
        walk.close()
    raise RuntimeError("it waits, and nobody is there to answer")


def run_to_end(make: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine to its end in this thread, or apart where it runs an event loop already.

    Args:
        make: Makes the coroutine.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(awaited(make()))
    return run_apart(make)


def run_apart(make: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine to its end in an event loop of its own, in a thread of its own.

    So it works in notebooks, where a loop is running already, and changes nothing about the
    calling thread's loop. Context variables are those of the caller. An interrupt cancels the
    coroutine before it is raised.

    Args:
        make: Makes the coroutine; called in the other thread.
    """
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[object] | None]] = []
    given_up = threading.Event()

    async def main() -> T:
        started.append((asyncio.get_running_loop(), asyncio.current_task()))
        if given_up.is_set():
            raise asyncio.CancelledError
        return await make()

    def cancel() -> None:
        given_up.set()  # before looking: who begins later sees it
        for loop, task in started:
            if task is not None:
                with suppress(RuntimeError):  # the loop has ended meanwhile
                    loop.call_soon_threadsafe(task.cancel)

    return in_other_thread(lambda: asyncio.run(main()), cancel, is_ended=True)


def in_other_thread(
    work: Callable[[], T], on_interrupt: Callable[[], None], *, is_ended: bool = False
) -> T:
    """Run a function in a thread of its own, in a copy of the context, and wait for it.

    Args:
        work: The function.
        on_interrupt: Called if the wait is interrupted (a notebook's stop button), before the
            interruption is raised.
        is_ended: True if the call ends the function: its end is then waited for. Else it goes on
            alone.
    """
    future: Future[T] = Future()

    def serve() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 — raised again where it is waited for
            future.set_exception(error)

    context, is_left = contextvars.copy_context(), False
    thread = threading.Thread(target=context.run, args=(serve,), name="scouter-apart", daemon=True)
    try:
        thread.start()
        return future.result()
    except BaseException:
        if not future.done():
            on_interrupt()
            is_left = not is_ended
        raise
    finally:
        if not is_left:
            with suppress(RuntimeError):  # interrupted before the thread had started
                thread.join()
