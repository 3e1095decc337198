"""Request bodies with limits: what was sent, and what comes out of decompression."""

import asyncio
import zlib
from typing import Final

from fastapi import Request
from starlette.requests import ClientDisconnect

from collector.receivers.problem import ProblemError

_MAX_MEMBERS: Final = 65
"""One more than are taken: each costs a copy of all that follow it, and clients send one."""


async def read_body(request: Request, max_body: int, max_inflated: int) -> bytes:
    """Read a body, gzip or plain.

    Args:
        request: The request.
        max_body: Largest size as sent, in bytes.
        max_inflated: Largest size after decompression, in bytes.

    Raises:
        ProblemError: 413 too large, 415 another encoding, 400 broken gzip.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > max_body:
                raise ProblemError(
                    413, f"the body is larger than {max_body} bytes; send smaller batches"
                )
            parts.append(part)
    except ClientDisconnect as error:
        raise ProblemError(400, "the client went away before it had sent the body") from error
    data = b"".join(parts)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return data
    if encoding not in ("gzip", "x-gzip"):
        raise ProblemError(415, f"Content-Encoding {encoding[:40]!r} is not known; use gzip")
    return await asyncio.to_thread(inflate, data, max_inflated)


def inflate(data: bytes, max_inflated: int) -> bytes:
    """Decompress gzip, never beyond a limit.

    Raises:
        ProblemError: 413 it would be larger, 400 it is not gzip or ends too early.
    """
    out = bytearray()
    for _ in range(_MAX_MEMBERS):
        if not data:
            return bytes(out)
        inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            out += inflater.decompress(data, max_inflated + 1 - len(out))
        except zlib.error as error:
            raise ProblemError(400, f"the body is not gzip: {error}") from error
        if len(out) > max_inflated:
            raise ProblemError(
                413, f"the body is larger than {max_inflated} bytes when decompressed"
            )
        if not inflater.eof:
            raise ProblemError(400, "the gzip body ends too early")
        data = inflater.unused_data  # gzip members may follow each other
    raise ProblemError(400, f"the body has more than {_MAX_MEMBERS - 1} gzip members")
