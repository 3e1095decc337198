"""Waiting in the event loop for commits of other threads."""

import asyncio
import contextlib
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any


async def durable(futures: "Sequence[Future[Any]]") -> None:
    """Wait for commits. A caller that is cancelled cancels no commit.

    Raises:
        Exception: The error of the first future that failed.
    """
    loop = asyncio.get_running_loop()
    for future in futures:
        if not future.done():
            woken = asyncio.Event()

            def wake(_: "Future[Any]", woken: asyncio.Event = woken) -> None:
                with contextlib.suppress(RuntimeError):  # the loop ended: nobody waits any more
                    loop.call_soon_threadsafe(woken.set)

            future.add_done_callback(wake)
            await woken.wait()
        future.result()
