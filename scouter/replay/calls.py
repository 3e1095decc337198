"""Calls of the user's functions in a replay, plain and async, and the place of what they raise."""

import asyncio
import contextvars
import functools
import inspect
import os
import sysconfig
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Final, Self, TypeAlias, TypeVar

from scouter.evaluate.judge.loops import awaited
from scouter.replay.at_once import is_over_at_once

_MOST: Final = 5
_PACKAGE: Final = str(Path(__file__).parents[1])
_LIBRARIES: Final = tuple(
    path for name, path in sysconfig.get_paths().items() if name in {"stdlib", "purelib", "platlib"}
)


def own_frames(error: BaseException) -> tuple[str, ...]:
    """Name the places that an exception came through, without values.

    Returns:
        At most five, such as `shop.py:12 in answer`, the innermost last: those in the agent's own
        code, or in the libraries that it calls where there are none. Files below the working
        folder are named from there.
    """
    frames = _outside(error.__traceback__)
    if not frames and error.__cause__ is not None:
        frames = _outside(error.__cause__.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    return tuple(map(_text, (own or frames)[-_MOST:]))


def _outside(found: TracebackType | None) -> list[traceback.FrameSummary]:
    """The frames outside of this package, and of what the interpreter has no file of."""
    return [
        frame
        for frame in traceback.StackSummary.extract(traceback.walk_tb(found), lookup_lines=False)
        if not frame.filename.startswith((_PACKAGE + os.sep, "<frozen"))
    ]


def _text(frame: traceback.FrameSummary) -> str:
    file, folder = frame.filename, os.getcwd() + os.sep
    return f"{file.removeprefix(folder)}:{frame.lineno} in {frame.name}"


T = TypeVar("T")

Work: TypeAlias = Callable[[], object]
Answer: TypeAlias = tuple[object, BaseException | None]


class DirectCalls:
    """Calls everything in the thread that it is in, one after the other.

    Plain functions see no running event loop, so that they may start one themselves. All awaitables
    that they return run in one event loop, so that clients can stay connected.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Event loop in which async functions run; it stands still between calls."""
        return None if self._runner is None else self._runner.get_loop()

    async def call(self, function: Callable[..., object], *args: object) -> object:
        """Call it here and now."""
        value = function(*args)
        if not inspect.isawaitable(value):
            return value
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(awaited(value), context=contextvars.copy_context())

    async def sleep(self, seconds: float) -> object:
        """Wait in this thread."""
        time.sleep(seconds)  # noqa: ASYNC251 - no loop is running, and nothing else is to run
        return None

    def close(self) -> None:
        """Close the event loop, if there was one."""
        if self._runner is not None:
            self._runner.close()


class LoopCalls:
    """Calls async functions in the running event loop and plain ones in a thread of its own.

    One attempt has one such thread, started when first needed, so that objects bound to a thread
    live as long as a conversation; so does the event loop that it has, for frameworks that look
    for one (`run_sync`). A call that is given up goes on in its thread, which nobody waits for, not
    even the end of the process.
    """

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Work, Callable[[Answer], None]] | None] | None = None
        self.was_given_up = False
        """True if a plain function may still be running."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running one."""
        return asyncio.get_running_loop()

    @classmethod
    @asynccontextmanager
    async def while_needed(cls) -> AsyncGenerator[Self]:
        """Close it at the end of a block."""
        with closing(cls()) as calls:
            yield calls

    async def call(self, function: Callable[..., object], *args: object) -> object:
        """Call it where it belongs, in a copy of the calling context."""
        if is_over_at_once(function):
            value = function(*args)
            return await value if inspect.isawaitable(value) else value
        context = contextvars.copy_context()
        value = await self._in_thread(functools.partial(context.run, function, *args))
        return await value if inspect.isawaitable(value) else value

    async def _in_thread(self, work: Work) -> object:
        if self._work is None:
            self._work = SimpleQueue()
            threading.Thread(
                target=_serve, args=(self._work,), name="scouter-replay", daemon=True
            ).start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()

        def hand_over(answer: Answer) -> None:
            if not future.done():
                future.set_result(answer)
            elif inspect.iscoroutine(answer[0]):
                answer[0].close()  # nobody is left to await it

        def from_thread(answer: Answer) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(hand_over, answer)

        self._work.put((work, from_thread))
        try:
            value, error = await future
        except asyncio.CancelledError:
            self.was_given_up = True
            raise
        if error is not None:
            raise error
        return value

    async def sleep(self, seconds: float) -> object:
        """Wait, and let others run."""
        await asyncio.sleep(seconds)
        return None

    def close(self) -> None:
        """Let the thread end after the call that it is in, if it is in one."""
        if self._work is not None:
            self._work.put(None)
            self._work = None


Calls: TypeAlias = DirectCalls | LoopCalls
"""Calls functions, plain and async, and waits for their results or exceptions."""


def _serve(work: "SimpleQueue[tuple[Work, Callable[[Answer], None]] | None]") -> None:
    with closing(_ThreadLoop()) as loop:
        while (item := work.get()) is not None:
            function, hand_over = item
            loop.set()
            try:
                answer: Answer = (function(), None)
            except BaseException as error:  # noqa: BLE001 - raised again where the call was made
                answer = (None, error)
            try:
                hand_over(answer)
            except RuntimeError:  # the loop closed in between: nobody waits any more
                return
            del item, function, hand_over, answer  # nothing stays alive while it waits


class _ThreadLoop:
    """The event loop of a thread, for plain functions that look for one and run it themselves."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._loop: asyncio.AbstractEventLoop | None = None

    def set(self) -> None:
        """See to it that the current loop is an open one: that of an earlier call, or ours."""
        try:
            current = asyncio.get_event_loop()
        except RuntimeError:  # never set, or taken away by `asyncio.run`
            current = self._loop
        if current is None or current.is_closed():
            self._runner = asyncio.Runner()
            try:
                current = self._loop = self._runner.get_loop()
            except OSError:  # no file descriptor is left, and few functions need a loop
                return
        asyncio.set_event_loop(current)

    def close(self) -> None:
        """Cancel what functions left on the loop, and close it."""
        if self._loop is not None and not self._loop.is_closed():
            self._runner.close()


def with_loop(work: Callable[[], T]) -> T:
    """Run a function in this thread, with an event loop that it can find and run itself."""
    with closing(_ThreadLoop()) as loop:
        loop.set()
        return work()
