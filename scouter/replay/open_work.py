"""Threads and tasks that may still work for a scenario after its answer."""

import asyncio
import dis
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from queue import SimpleQueue
from types import CodeType, CoroutineType, FrameType
from typing import Any, Final, TypeAlias, cast

Source: TypeAlias = "threading.Thread | asyncio.Task[Any]"
"""Thread or task that may make records and spans."""

_LOOPS: Final = {
    ("selectors", f"{kind}.select")
    for kind in ("EpollSelector", "KqueueSelector", "_PollLikeSelector", "SelectSelector")
}
"""Functions, by module and name, in which an event loop waits."""
_HANDLES: Final = {
    ("multiprocessing.pool", "_handle_results"),
    ("multiprocessing.pool", "_handle_tasks"),
    ("multiprocessing.pool", "_handle_workers"),
}
"""Functions, by module and name, of threads that only hand work on."""
_FIRST_LOOK_S: Final = 0.000_5
_LONGEST_LOOK_S: Final = 0.02
_SECOND_LOOK_S: Final = 0.001


class OpenWork:
    """Finds the threads and tasks that took up work after a moment, and still have it.

    A thread or task that waits for others to give it work has none: a pool's thread, a thread in
    `queue.get()`, a task in `await queue.get()`. A thread or task that sleeps has work.

    Args:
        loops: Gives the event loops to look into.
    """

    def __init__(self, loops: Callable[[], Iterable[asyncio.AbstractEventLoop]]) -> None:
        self._loops = loops
        sources = self._sources()
        idle = idle_of(sources)
        self._before = {source: source in idle for source in sources}

    def left(self) -> list[Source]:
        """List the threads and tasks that have work now and had none at that moment, or are new.

        Cost: a millisecond if there are such threads and they seem to wait for work, as one that
        has just been given some seems so, too.
        """
        found = [source for source in self._sources() if self._before.get(source, True)]
        idle = idle_of(found)
        if any(isinstance(source, threading.Thread) for source in idle):
            time.sleep(_SECOND_LOOK_S)
            again = idle_of(idle)
            idle = {source for source, place in again.items() if place == idle[source]}
        return [source for source in found if source not in idle]

    def wait(self, sources: Iterable[Source], timeout_s: float) -> None:
        """Wait until these have ended or wait for work themselves, at most for a time.

        The end of a thread or task ends the wait at once; whether a thread waits for work is looked
        at every few milliseconds. Tasks of a loop that does not run are not waited for.
        """
        until, pause = time.monotonic() + timeout_s, _FIRST_LOOK_S
        for source in sources:
            if source is threading.current_thread():
                continue  # the replay's own
            if isinstance(source, threading.Thread):
                while (left_s := until - time.monotonic()) > 0 and not is_idle(source):
                    source.join(min(left_s, pause))
                    pause = min(2 * pause, _LONGEST_LOOK_S)
            elif source.get_loop().is_running() and (left_s := until - time.monotonic()) > 0:
                waiting = asyncio.wait([source], timeout=left_s)
                done = asyncio.run_coroutine_threadsafe(waiting, source.get_loop())
                with suppress(TimeoutError):
                    done.result(left_s)

    def _sources(self) -> list[Source]:
        here = threading.current_thread()
        found: list[Source] = [thread for thread in threading.enumerate() if thread is not here]
        running = asyncio._get_running_loop()
        for loop in list(self._loops()):
            if not loop.is_closed():
                found += asyncio.all_tasks(loop) - {running and asyncio.current_task()}
        return found


def current_source() -> Source:
    """The task that the calling code runs in, or else its thread."""
    if asyncio._get_running_loop() is not None:
        task = asyncio.current_task()
        if task is not None:
            return task
    return threading.current_thread()


def is_over(source: object) -> bool:
    """Tell whether a thread or task has ended."""
    if isinstance(source, threading.Thread):
        return not source.is_alive()
    return not isinstance(source, asyncio.Task) or cast("asyncio.Task[Any]", source).done()


def is_idle(source: Source) -> bool:
    """Tell whether a thread or task has ended, or waits for others to give it work."""
    return bool(idle_of([source]))


def idle_of(sources: Iterable[Source]) -> dict[Source, object]:
    """Pick those that have ended or wait for others to give them work.

    Returns:
        With each the place where it waits: another one after it had some work.
    """
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - documented
    found: dict[Source, object] = {}
    for source in sources:
        if is_over(source):
            found[source] = None
        elif isinstance(source, threading.Thread):
            frame = frames.get(source.ident or 0)
            if frame is not None and _waits(frame):
                found[source] = (id(frame), frame.f_lasti)
        elif _task_waits(source):
            found[source] = None
    return found


def _task_waits(task: "asyncio.Task[Any]") -> bool:
    coroutine: object = task.get_coro()
    code: CodeType | None = None
    while isinstance(coroutine, CoroutineType):
        code, coroutine = coroutine.cr_code, coroutine.cr_await
    return code is not None and code.co_qualname == "Queue.get"


def _waits(frame: FrameType) -> bool:
    """Tell whether a thread waits for work, and nothing lies there for it."""
    place, caller = _place(frame), frame.f_back
    if place == ("threading", "Condition.wait") and caller is not None:
        outer, around = _place(caller), caller.f_back
        if outer == ("queue", "Queue.get"):
            return not caller.f_locals["self"]._qsize()
        if outer == ("threading", "Event.wait"):  # with a limit it is a way to sleep
            is_limited = caller.f_locals.get("timeout") is not None
            if is_limited or caller.f_locals["self"].is_set():
                return False
            outer = ("", "") if around is None else _place(around)
        # A thread that waits for its own pool, or for the start of its own thread, has work.
        return not outer[0].startswith(("concurrent.futures", "threading"))
    if place in _LOOPS:  # with a limit it has timers, and wakes by itself
        return frame.f_locals.get("timeout") in {None, -1}
    if place in _HANDLES:
        return True
    waiting_queue = _waiting_queue(frame)
    return waiting_queue is not None and waiting_queue.empty()


def _waiting_queue(frame: FrameType) -> "SimpleQueue[Any] | None":
    """The queue whose `get` a frame calls at this moment; it is in C and has no frame itself."""
    names = _called(frame.f_code, frame.f_lasti)
    if names[-1:] != ("get",):
        return None
    found: object = frame.f_locals.get(names[0], frame.f_globals.get(names[0]))
    if len(names) == 1:
        found = getattr(found, "__self__", None)
    for name in names[1:-1]:
        found = getattr(found, "__dict__", {}).get(name)  # runs no property of the agent
    return cast("SimpleQueue[Any]", found) if isinstance(found, SimpleQueue) else None


def _place(frame: FrameType) -> tuple[str, str]:
    return str(frame.f_globals.get("__name__")), frame.f_code.co_qualname


@lru_cache(maxsize=1000)
def _called(code: CodeType, at: int) -> tuple[str, ...]:
    """Name the `get` that a frame calls at an instruction, as `self.jobs.get`; else nothing."""
    path: tuple[str, ...] = ()
    method: tuple[str, ...] = ()
    for step in dis.get_instructions(code):
        is_call = step.opname.startswith("CALL")
        if step.offset >= at:
            return method if is_call else ()
        if is_call:
            path = method = ()
        elif step.opname in {"LOAD_METHOD", "LOAD_ATTR"}:
            path = (*path, str(step.argval))
        elif step.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME")):
            path = (str(step.argval),)
        if path[-1:] == ("get",):
            method = path
    return ()
