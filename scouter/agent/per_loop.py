"""One object for each event loop, closed when the loop ends, or when nobody can ask for it."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, finalize, ref

T = TypeVar("T")


class _Held(NamedTuple, Generic[T]):
    """An object of a loop."""

    made: T
    holding: AsyncGenerator[None]
    end: "finalize[..., Any]"


_OfLoops = WeakKeyDictionary[asyncio.AbstractEventLoop, _Held[T]]


class PerLoop(Generic[T]):
    """Makes an object when an event loop first asks for one, and closes it with the loop.

    Connections belong to the loop that opened them, while a judge is asked from many: each
    synchronous evaluation has a loop of its own. A suspended async generator holds each object,
    and `loop.shutdown_asyncgens`, which `asyncio.run` calls, ends it. If the last reference to
    this is gone before, each loop closes its own object.

    Until then something outside holds the generator. If it were collected together with its
    connections, asyncio would close their sockets first. New sockets could have the same numbers
    by then. Closing the connections would make the loop watch those no longer, and answers on them
    would never be read.

    Args:
        make: Makes an object; called inside the loop. The object must not refer to this.
        close: Closes an object; must not refer to this, either.
    """

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[object]]) -> None:
        self._make = make
        self._close = close
        self._lock = threading.Lock()
        self._held: _OfLoops[T] = WeakKeyDictionary()

    async def get(self) -> T:
        """The running loop's object."""
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._held.get(loop)
        if found is not None:
            return found.made
        made = self._make()
        holding = _hold(made, self._close, self._held, self._lock, ref(loop))
        await anext(holding)  # lets nobody else run: no second one is made meanwhile
        end = finalize(self, _end, ref(loop), holding)
        end.atexit = False  # the loop's own end comes before
        with self._lock:
            self._held[loop] = _Held(made, holding, end)
        return made

    async def close(self) -> None:
        """Close the running loop's object, if there is one; the next one that asks gets another."""
        with self._lock:
            found = self._held.get(asyncio.get_running_loop())
        if found is not None:
            await found.holding.aclose()


async def _hold(
    made: T,
    close: Callable[[T], Awaitable[object]],
    held: _OfLoops[T],
    lock: threading.Lock,
    loop: ReferenceType[asyncio.AbstractEventLoop],
) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        running = loop()
        with lock:
            found = None if running is None else held.pop(running, None)
        if found is not None:
            found.end.detach()
        await close(made)


def _end(loop: ReferenceType[asyncio.AbstractEventLoop], holding: AsyncGenerator[None]) -> None:
    """Have a loop close what it has; called in any thread."""
    running = loop()
    if running is not None:
        with suppress(RuntimeError):  # it was closed
            running.call_soon_threadsafe(_close, running, holding)


def _close(loop: asyncio.AbstractEventLoop, holding: AsyncGenerator[None]) -> None:
    loop.create_task(holding.aclose())  # the loop knows it
