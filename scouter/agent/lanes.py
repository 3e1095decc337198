"""Connections to a provider, at a cost for each request that does not grow with their number."""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final, cast

import httpx2

KEPT_S: Final = 30.0
"""How long a connection that nobody uses stays open."""


class Lanes(httpx2.AsyncBaseTransport):
    """Sends each request over a lane of its own, and keeps the lane for the next one.

    A lane is the client's usual transport with, as a rule, one connection. The usual pool looks at
    all its connections for every request and again for every answer: at 50 connections that is a
    tenth of the processor time of a call. A lane that was used last is taken first, so that those
    that are not needed grow old, and are closed.

    It bounds nothing: as many requests are sent at a time as come. Belongs to one event loop.

    Args:
        clock: Seconds that never run backwards.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tls = httpx2.create_ssl_context()  # for all lanes, as making one takes a while
        self._free: deque[tuple[httpx2.AsyncHTTPTransport, float]] = deque()
        """Lanes that nobody uses, and since when; the last is the one that was used last."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; its lane is free again when the answer is closed."""
        await self._close_old()
        lane = self._free.pop()[0] if self._free else self._open()
        try:
            response = await lane.handle_async_request(request)
        except BaseException:
            self._release(lane)
            raise
        stream = cast("httpx2.AsyncByteStream", response.stream)  # a transport's always is
        response.stream = _Answer(stream, lambda: self._release(lane))
        return response

    def _open(self) -> httpx2.AsyncHTTPTransport:
        # Not bound to one connection: a request never waits for one that did not close well.
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=1, keepalive_expiry=KEPT_S
        )
        return httpx2.AsyncHTTPTransport(verify=self._tls, limits=limits)

    def _release(self, lane: httpx2.AsyncHTTPTransport) -> None:
        self._free.append((lane, self._clock()))

    async def _close_old(self) -> None:
        since = self._clock() - KEPT_S
        while self._free and self._free[0][1] < since:
            await self._free.popleft()[0].aclose()

    async def aclose(self) -> None:
        """Close all lanes that nobody uses."""
        while self._free:
            await self._free.pop()[0].aclose()


class _Answer(httpx2.AsyncByteStream):
    """What is read of an answer; says when it is closed."""

    def __init__(self, stream: httpx2.AsyncByteStream, release: Callable[[], None]) -> None:
        self._stream = stream
        self._release: Callable[[], None] | None = release

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        """Close it, and give its lane back once."""
        try:
            await self._stream.aclose()
        finally:
            release, self._release = self._release, None
            if release is not None:
                release()
