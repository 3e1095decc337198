"""Request bodies: read and decompressed within limits, and decoded in the loop or in threads."""

import asyncio
import sys
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from fastapi import Request
from starlette.types import Receive, Scope

from collector.items.limits import Limits
from collector.problem import ProblemError
from collector.receivers.budget import Lease

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_CHUNK: Final = 2**20
_MAX_MEMBERS: Final = 65
"""One more than are taken: each costs a copy of all that follow it, and clients send one."""
_ZSTD_WINDOW_LOG: Final = 23
"""8 MiB, which RFC 8878 (3.1.1.1.2) has everybody support; a frame may ask for terabytes."""


class _Inflater(Protocol):
    """The interface that zlib's and zstd's decompressors share."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _gzip(_: bytes) -> _Inflater:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)


def _deflate(data: bytes) -> _Inflater:
    """The zlib format, as RFC 9110 has it; without its header, as some clients send it.

    No encoder's bare deflate begins like a header: that would be the padding of a stored block.
    """
    is_zlib = len(data) > 1 and data[0] & 15 == zlib.DEFLATED and not (data[0] << 8 | data[1]) % 31
    return zlib.decompressobj(wbits=zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


def _zstd(_: bytes) -> _Inflater:
    limits: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
    return zstd.ZstdDecompressor(options=limits)


_INFLATERS: Final[dict[str, Callable[[bytes], _Inflater]]] = {
    "gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
    "x-gzip": _gzip,
    "zlib": _deflate,
}
ENCODINGS: Final = tuple(_INFLATERS)
"""Values of Content-Encoding; of them `x-gzip` and `zlib` are other names, used by some clients."""


def inflate(data: bytes, encoding: str, max_inflated: int, take: Callable[[int], None]) -> bytes:
    """Decompress, never beyond a limit.

    Args:
        data: One or more members (zstd calls them frames) behind each other.
        encoding: One of `ENCODINGS`.
        max_inflated: Largest size after decompression, in bytes.
        take: Is called with every part of the size before more is made of it; may raise.

    Raises:
        ProblemError: 413 it would be larger, 400 it is not so encoded or ends too early.
    """
    out = bytearray()
    for _ in range(_MAX_MEMBERS):
        if not data:
            return bytes(out)
        data = _inflate_member(data, encoding, out, max_inflated, take)
    raise ProblemError(400, f"the body has more than {_MAX_MEMBERS - 1} {encoding} members")


def _inflate_member(
    data: bytes, encoding: str, out: bytearray, max_inflated: int, take: Callable[[int], None]
) -> bytes:
    """Decompress one member; returns what follows it."""
    inflater = _INFLATERS[encoding](data)
    while not inflater.eof:
        room = min(_CHUNK, max_inflated + 1 - len(out))
        try:
            part = inflater.decompress(data, room)
        except (zlib.error, zstd.ZstdError) as error:
            raise ProblemError(400, f"the body is not {encoding}: {error}") from error
        take(len(part))
        out += part
        if len(out) > max_inflated:
            raise ProblemError(
                413, f"the body is larger than {max_inflated} bytes when decompressed"
            )
        # zlib gives back what it has not looked at, zstd keeps it.
        data = getattr(inflater, "unconsumed_tail", b"")
        if not part and not data and not inflater.eof:
            raise ProblemError(400, f"the {encoding} body ends too early")
    return inflater.unused_data


SMALL: Final = 2**16
"""Bytes of a body that is not worth a thread of its own."""
_BODY_S: Final = 60
"""Seconds that a body may take to arrive: until then its bytes are in memory."""
_THREADS: Final = 2
"""Decoding holds the interpreter: more threads would only keep others from answering."""
_SLOW_S: Final = 0.005
_REST: Final = 20

T = TypeVar("T")


async def read_body(request: Request, limits: Limits, lease: Lease) -> bytes:
    """Read a body, compressed or plain.

    Args:
        request: The request.
        limits: Largest sizes of the body.
        lease: Takes the memory for it, as it arrives and as it is decompressed.

    Raises:
        ProblemError: 413 too large, 415 another encoding, 400 broken compression, 408 too slow.
        FullError: There is no memory for it now.
    """
    most = limits.max_body
    why = f"the body is larger than {most} bytes; send smaller batches"
    data = await read_whole(request.scope, request.receive, lease, most, _BODY_S, why)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return data
    if encoding not in ENCODINGS:
        known = ", ".join(ENCODINGS[:3])
        raise ProblemError(
            415,
            f"Content-Encoding {encoding[:40]!r} is not known; expected one of {known}, or none",
            headers={"Accept-Encoding": known},
        )
    if len(data) <= SMALL:
        with suppress(ProblemError):  # it is larger, or broken: the thread says which
            small = inflate(data, encoding, min(SMALL, limits.max_inflated), lambda size: None)
            lease.take(len(small))
            return small
    return await asyncio.to_thread(inflate, data, encoding, limits.max_inflated, lease.take)


async def read_whole(
    scope: Scope, receive: Receive, lease: Lease, most: int, seconds: float, too_large: str
) -> bytes:
    """Read a body as it comes.

    Args:
        scope: Of its request.
        receive: The server's.
        lease: Takes the memory for it.
        most: Bytes that it may have.
        seconds: That it may take.
        too_large: Says what to do about one that is larger.

    Raises:
        ProblemError: 413 too large, 408 too slow, 400 the client went away.
        FullError: There is no memory for it now.
    """
    declared = dict(scope["headers"]).get(b"content-length", b"")
    if declared.isdigit() and int(declared[:19]) > most:
        raise ProblemError(413, too_large)
    parts: list[bytes] = []
    size, is_more = 0, True
    try:
        async with asyncio.timeout(seconds):
            while is_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ProblemError(400, "the client went away before it had sent the body")
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > most:
                    raise ProblemError(413, too_large)
                lease.take(len(part))
                parts.append(part)
                is_more = message.get("more_body", False)
    except TimeoutError as error:
        raise ProblemError(408, f"the body took more than {seconds:g} s to arrive") from error
    return b"".join(parts)


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
