"""Decoding of request bodies: small ones in the event loop, large ones in threads."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from collector.receivers.http.body import SMALL

_THREADS: Final = 2
"""Decoding holds the interpreter: more threads would only keep others from answering."""
_SLOW_S: Final = 0.005
_REST: Final = 20

T = TypeVar("T")


class Decoders:
    """Two threads, and the event loop for what is done before a thread would have woken up.

    A small body can be made to take long: after one that did, the loop leaves all to the threads
    for twenty times as long, so that other requests never wait for more than that share.

    Args:
        clock: Seconds of processor time of the calling thread.
        monotonic: Seconds that pass.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.thread_time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._monotonic = clock, monotonic
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="scouter-decode")
        self._rests_until = 0.0

    async def run(self, size: int, decode: Callable[[], T]) -> T:
        """Decode.

        Args:
            size: Bytes of the body.
            decode: Does it, and never waits.
        """
        if size > SMALL or self._monotonic() < self._rests_until:
            return await asyncio.get_running_loop().run_in_executor(self._pool, decode)
        began = self._clock()
        try:
            return decode()
        finally:
            took = self._clock() - began
            if took > _SLOW_S:
                self._rests_until = self._monotonic() + took * _REST
