"""Bodies as they arrive, piece by piece, and what they become."""

import asyncio
import gzip
import time
import tracemalloc
import zlib
from collections.abc import Callable, Sequence

import pytest
from fastapi import Request
from starlette.types import Message
from zstandard import ZstdCompressor

from collector.items.limits import Limits
from collector.problem import ProblemError
from collector.receivers.budget import ByteBudget, FullError
from collector.receivers.http.body import SMALL, read_body

MB = 2**20


def read(
    pieces: Sequence[bytes],
    encoding: str = "",
    limits: Limits | None = None,
    budget: ByteBudget | None = None,
) -> tuple[bytes, int]:
    """The body made of the pieces, and the bytes that were taken for it."""
    messages: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    messages.append({"type": "http.request"})  # both other keys may be left out
    messages.reverse()

    async def receive() -> Message:
        return messages.pop()

    headers = [(b"content-encoding", encoding.encode())] if encoding else []
    scope = {"type": "http", "headers": headers}
    lease = (budget or ByteBudget(64 * MB)).lease()
    with lease:
        data = asyncio.run(read_body(Request(scope, receive), limits or Limits(), lease))
        return data, lease.size


def test_pieces_are_joined_and_counted() -> None:
    assert read([b"ab", b"", b"c"]) == (b"abc", 3)
    assert read([]) == (b"", 0)


def bare_deflate(data: bytes) -> bytes:
    """Deflate without the header of zlib, as some clients call deflate."""
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


def streamed_zstd(data: bytes) -> bytes:
    """A frame that does not say how large its content is."""
    compressor = ZstdCompressor(write_checksum=True).compressobj()
    return compressor.compress(data) + compressor.flush()


WAYS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate, stored": ("DEFLATE", lambda data: zlib.compress(data, 0)),
    "deflate, small window": ("zlib", lambda data: zlib.compress(data, wbits=9)),
    "deflate, bare": ("deflate", bare_deflate),
    "zstd": ("zstd", ZstdCompressor().compress),
    "zstd, streamed": ("zstd", streamed_zstd),
}
"""By name: what a client calls it, and how it compresses."""
ways = pytest.mark.parametrize("way", WAYS)


@ways
@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1, 3 * MB])
def test_every_encoding_and_size(way: str, size: int) -> None:
    """As sent and as decompressed, both are in memory."""
    encoding, compress = WAYS[way]
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    sent = compress(data)
    assert read([sent[:7], sent[7:]], encoding) == (data, len(sent) + size)
    halves = compress(data[: size // 2]) + compress(data[size // 2 :])
    assert read([halves], encoding) == (data, len(halves) + size)


@ways
@pytest.mark.parametrize("limit", [1000, SMALL, 2 * MB])
def test_the_limit_of_what_comes_out(way: str, limit: int) -> None:
    encoding, compress = WAYS[way]
    limits = Limits(max_inflated=limit)
    assert len(read([compress(bytes(limit))], encoding, limits)[0]) == limit
    with pytest.raises(ProblemError, match=f"larger than {limit} bytes when decompressed") as got:
        read([compress(bytes(limit + 1))], encoding, limits)
    assert got.value.status == 413


@ways
@pytest.mark.parametrize("size", [50_000, 2 * MB])
def test_what_does_not_fit_into_memory(way: str, size: int) -> None:
    encoding, compress = WAYS[way]
    with pytest.raises(FullError):
        read([compress(bytes(size))], encoding, budget=ByteBudget(size))


@pytest.mark.pace
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_bomb_takes_neither_memory_nor_time(encoding: str) -> None:
    """128 MiB of zeros; of it no more is made than the limit, and a megabyte at a time."""
    whole, step = 2**27, bytes(2**24)
    making = {
        "gzip": zlib.compressobj(wbits=16 + zlib.MAX_WBITS),
        "deflate": zlib.compressobj(),
        "zstd": ZstdCompressor().compressobj(),
    }[encoding]
    bomb = b"".join(making.compress(step) for _ in range(whole // len(step))) + making.flush()
    assert len(bomb) < 2 * MB
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(ProblemError, match="larger than 1048576 bytes when decompressed"):
        read([bomb], encoding, Limits(max_inflated=MB))
    took, most = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert most < 8 * MB
    assert took < 1


def test_a_zstd_frame_that_wants_a_large_window() -> None:
    """Ten bytes that would have 3.75 TB set aside; the second descriptor asks for 8 MiB.

    Source: RFC 8878, 3.1.1.1.2, window size = (1 + mantissa / 8) * 2**(10 + exponent).
    """
    magic, descriptor, block = b"\x28\xb5\x2f\xfd", b"\x00", b"\x01\x00\x00"
    with pytest.raises(ProblemError, match="too much memory") as got:
        read([magic + descriptor + bytes([31 << 3 | 7]) + block], "zstd")
    assert got.value.status == 400
    assert read([magic + descriptor + bytes([13 << 3]) + block], "zstd")[0] == b""


@ways
@pytest.mark.parametrize("cut", [1, 5, 9, 13])
def test_a_body_that_ends_too_early(way: str, cut: int) -> None:
    encoding, compress = WAYS[way]
    with pytest.raises(ProblemError, match="ends too early") as got:
        read([compress(b"some text" * 99)[:-cut]], encoding)
    assert got.value.status == 400


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_body_that_is_something_else(encoding: str) -> None:
    with pytest.raises(ProblemError, match=f"not {encoding}") as got:
        read([b"\xff" * 99], encoding)
    assert got.value.status == 400


def test_more_members_than_anybody_sends() -> None:
    assert read([gzip.compress(b"a") * 64], "gzip")[0] == b"a" * 64
    with pytest.raises(ProblemError, match="more than 64 gzip members"):
        read([gzip.compress(b"a") * 65], "gzip")


def test_an_encoding_that_nobody_reads() -> None:
    with pytest.raises(ProblemError, match="'br' is not known") as got:
        read([b"x"], "br")
    assert (got.value.status, got.value.headers) == (
        415,
        {"Accept-Encoding": "gzip, deflate, zstd"},
    )


def test_a_body_that_grows_too_large() -> None:
    with pytest.raises(ProblemError) as caught:
        read([b"12345", b"67890", b"1"], limits=Limits(max_body=10))
    assert caught.value.status == 413


def test_a_sender_that_goes_away() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    lease = ByteBudget(MB).lease()
    request = Request({"type": "http", "headers": []}, receive)
    with pytest.raises(ProblemError, match="went away") as caught:
        asyncio.run(read_body(request, Limits(), lease))
    assert caught.value.status == 400
