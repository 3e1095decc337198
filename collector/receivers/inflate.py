"""Decompression of bodies within a bound, however small their compressed form is."""

import sys
import zlib
from collections.abc import Callable
from typing import Final, Protocol

from collector.problem import ProblemError

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
