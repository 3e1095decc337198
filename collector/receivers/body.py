"""Request bodies with limits: what was sent, and what comes out of decompression."""

import asyncio
import zlib
from collections.abc import Callable
from typing import Final

from fastapi import Request
from starlette.types import Receive

from collector.problem import ProblemError
from collector.receivers.budget import Lease
from collector.receivers.limits import Limits

SMALL: Final = 2**16
"""Bytes of a body that is not worth a thread of its own."""
_CHUNK: Final = 2**20
_BODY_S: Final = 60
"""Seconds that a body may take to arrive: until then its bytes are held in memory."""
_MAX_MEMBERS: Final = 65
"""One more than are taken: each costs a copy of all that follow it, and clients send one."""


async def read_body(request: Request, limits: Limits, lease: Lease) -> bytes:
    """Read a body, gzip or plain.

    Args:
        request: The request.
        limits: How large it may be.
        lease: Takes the memory for it, as it arrives and as it is decompressed.

    Raises:
        ProblemError: 413 too large, 415 another encoding, 400 broken gzip, 408 too slow.
        FullError: There is no memory for it now.
    """
    headers = request.headers
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:19]) > limits.max_body:
        raise _too_large(limits)
    try:
        async with asyncio.timeout(_BODY_S):
            data = await _read(request.receive, limits, lease)
    except TimeoutError as error:
        raise ProblemError(408, f"the body took more than {_BODY_S} s to arrive") from error
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return data
    if encoding not in ("gzip", "x-gzip"):
        raise ProblemError(415, f"Content-Encoding {encoding[:40]!r} is not known; use gzip")
    small = _inflate_small(data, min(SMALL, limits.max_inflated))
    if small is not None:
        lease.take(len(small))
        return small
    return await asyncio.to_thread(inflate, data, limits.max_inflated, lease.take)


async def _read(receive: Receive, limits: Limits, lease: Lease) -> bytes:
    parts: list[bytes] = []
    size = 0
    is_more = True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ProblemError(400, "the client went away before it had sent the body")
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limits.max_body:
            raise _too_large(limits)
        lease.take(len(part))
        parts.append(part)
        is_more = message.get("more_body", False)
    return b"".join(parts)


def _too_large(limits: Limits) -> ProblemError:
    return ProblemError(
        413, f"the body is larger than {limits.max_body} bytes; send smaller batches"
    )


def _inflate_small(data: bytes, at_most: int) -> bytes | None:
    """Decompress what is small enough that no thread is needed; None if it is not, or is broken."""
    if len(data) > at_most:
        return None
    inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        out = inflater.decompress(data, at_most + 1)
    except zlib.error:
        return None  # who takes it from the start says what is wrong
    return out if inflater.eof and not inflater.unused_data and len(out) <= at_most else None


def inflate(data: bytes, max_inflated: int, take: Callable[[int], None]) -> bytes:
    """Decompress gzip, never beyond a limit, however small the compressed form is.

    Args:
        data: One or more gzip members.
        max_inflated: Largest size after decompression, in bytes.
        take: Is told of every part of the size before more is made of it; may raise.

    Raises:
        ProblemError: 413 it would be larger, 400 it is not gzip or ends too early.
    """
    out = bytearray()
    for _ in range(_MAX_MEMBERS):
        if not data:
            return bytes(out)
        data = _inflate_member(data, out, max_inflated, take)
    raise ProblemError(400, f"the body has more than {_MAX_MEMBERS - 1} gzip members")


def _inflate_member(
    data: bytes, out: bytearray, max_inflated: int, take: Callable[[int], None]
) -> bytes:
    """Decompress one member; returns what follows it, as gzip members may follow each other."""
    inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    while not inflater.eof:
        room = min(_CHUNK, max_inflated + 1 - len(out))
        try:
            part = inflater.decompress(data, room)
        except zlib.error as error:
            raise ProblemError(400, f"the body is not gzip: {error}") from error
        take(len(part))
        out += part
        if len(out) > max_inflated:
            raise ProblemError(
                413, f"the body is larger than {max_inflated} bytes when decompressed"
            )
        data = inflater.unconsumed_tail
        if not part and not data and not inflater.eof:
            raise ProblemError(400, "the gzip body ends too early")
    return inflater.unused_data
