"""Bodies as they arrive, piece by piece, and what they become."""

import asyncio
import gzip
from collections.abc import Sequence

import pytest
from fastapi import Request
from starlette.types import Message

from collector.problem import ProblemError
from collector.receivers.body import SMALL, read_body
from collector.receivers.budget import ByteBudget, FullError
from collector.receivers.limits import Limits

MB = 2**20


def read(
    pieces: Sequence[bytes],
    encoding: str = "",
    limits: Limits | None = None,
    budget: ByteBudget | None = None,
) -> tuple[bytes, int]:
    """What comes of the pieces, and the bytes that were taken for it."""
    messages: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    messages.append({"type": "http.request"})  # both other keys may be left out
    messages.reverse()

    async def receive() -> Message:
        return messages.pop()

    headers = [(b"content-encoding", encoding.encode())] if encoding else []
    scope = {"type": "http", "headers": headers}
    lease = (budget or ByteBudget(64 * MB, lambda: 0)).lease()
    with lease:
        data = asyncio.run(read_body(Request(scope, receive), limits or Limits(), lease))
        return data, lease.size


def test_pieces_are_joined_and_counted() -> None:
    assert read([b"ab", b"", b"c"]) == (b"abc", 3)
    assert read([]) == (b"", 0)


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1, 3 * MB])
def test_gzip_of_every_size(size: int) -> None:
    """As sent and as decompressed, both are held in memory."""
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    sent = gzip.compress(data)
    assert read([sent[:7], sent[7:]], "gzip") == (data, len(sent) + size)
    halves = gzip.compress(data[: size // 2]) + gzip.compress(data[size // 2 :])
    assert read([halves], "x-gzip") == (data, len(halves) + size)


@pytest.mark.parametrize("limit", [1000, SMALL, 2 * MB])
def test_the_limit_of_what_comes_out(limit: int) -> None:
    limits = Limits(max_inflated=limit)
    assert len(read([gzip.compress(bytes(limit))], "gzip", limits)[0]) == limit
    with pytest.raises(ProblemError, match=f"larger than {limit} bytes when decompressed"):
        read([gzip.compress(bytes(limit + 1))], "gzip", limits)


@pytest.mark.parametrize("size", [50_000, 2 * MB])
def test_what_does_not_fit_into_memory(size: int) -> None:
    with pytest.raises(FullError):
        read([gzip.compress(bytes(size))], "gzip", budget=ByteBudget(size, lambda: 0))


@pytest.mark.parametrize("cut", [1, 8, 9, 20])
def test_gzip_that_ends_too_early(cut: int) -> None:
    with pytest.raises(ProblemError, match="ends too early"):
        read([gzip.compress(b"some text" * 9)[:-cut]], "gzip")


def test_a_body_that_grows_too_large() -> None:
    with pytest.raises(ProblemError) as caught:
        read([b"12345", b"67890", b"1"], limits=Limits(max_body=10))
    assert caught.value.status == 413


def test_a_sender_that_goes_away() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    lease = ByteBudget(MB, lambda: 0).lease()
    request = Request({"type": "http", "headers": []}, receive)
    with pytest.raises(ProblemError, match="went away") as caught:
        asyncio.run(read_body(request, Limits(), lease))
    assert caught.value.status == 400
