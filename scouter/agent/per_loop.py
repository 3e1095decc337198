"""One object for each event loop, closed when the loop ends."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Makes an object when an event loop first asks for one, and closes it with the loop.

    Connections belong to the loop that opened them, while a judge is asked from many: each
    synchronous evaluation has a loop of its own. A suspended async generator holds each object,
    and `loop.shutdown_asyncgens`, which `asyncio.run` calls, ends it.

    Args:
        make: Makes one; called inside the loop.
        close: Closes one.
    """

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[object]]) -> None:
        self._make = make
        self._close = close
        self._lock = threading.Lock()
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncGenerator[T], T]] = (
            WeakKeyDictionary()
        )

    async def get(self) -> T:
        """The running loop's object."""
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._held.get(loop)
        if found is not None:
            return found[1]
        holding = self._hold(loop)
        made = await anext(holding)  # lets nobody else run: no second one is made meanwhile
        with self._lock:
            self._held[loop] = holding, made
        return made

    async def close(self) -> None:
        """Close the running loop's object, if there is one; the next one that asks gets another."""
        with self._lock:
            found = self._held.get(asyncio.get_running_loop())
        if found is not None:
            await found[0].aclose()

    async def _hold(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[T]:
        made = self._make()
        try:
            yield made
        finally:
            with self._lock:
                self._held.pop(loop, None)
            await self._close(made)
