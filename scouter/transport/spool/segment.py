"""One file of the spool: frames of bytes that a crash can cut short only at the end.

A frame is a header (kind, payload size, number of items, CRC-32 of these numbers and the payload)
and its payload. The kind is outside of the checksum, so that a delivered frame is struck out by
overwriting one byte, which no crash can do by halves.

Bytes that were damaged on disk cost the frames that they are in; what is whole behind them is found
again by its checksum.
"""

import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Final

from scouter.transport.spool.lock import FILE_MODE

_HEADER: Final = struct.Struct("<cIII")
_NUMBERS: Final = struct.Struct("<II")
_DONE: Final = b"x"
_MAYBE_HEADER: Final = re.compile(rb"[RSDx](?=.{3}[\0-\x0f].{3}\0)", re.DOTALL)
"""A kind, a size below 256 MiB and a number of items below 16 million."""


class FrameKind(Enum):
    """What the payload of a frame is."""

    RECORD = b"R"
    """One record, as JSON."""
    SPANS = b"S"
    """Spans, as an OTLP `ExportTraceServiceRequest`."""
    DROPPED = b"D"
    """What was dropped before the next frame was written, as JSON: sender, reason and counts."""
    DAMAGED = b""
    """Never written: what is unreadable up to the next whole frame."""


_KINDS: Final = {kind.value: kind for kind in FrameKind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One entry of a segment."""

    kind: FrameKind
    payload: bytes
    count: int
    """How many records or spans it holds; of a damaged one, at least so many."""
    offset: int = 0
    """Where it begins in its file."""

    @property
    def size_bytes(self) -> int:
        """Room that it takes in the file."""
        return _HEADER.size + len(self.payload)

    @property
    def end(self) -> int:
        """Where the next one begins in the file."""
        return self.offset + self.size_bytes

    def to_bytes(self) -> bytes:
        """Header and payload."""
        checksum = _checksum(len(self.payload), self.count, self.payload)
        header = _HEADER.pack(self.kind.value, len(self.payload), self.count, checksum)
        return header + self.payload


def _checksum(size: int, count: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(_NUMBERS.pack(size, count)))


class Segment:
    """A file of frames; used under its folder's lock.

    Args:
        path: Its place; an existing file is taken up where it ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        """Bytes of whole frames; what is behind them a crash left, and the next frame replaces."""
        self.items = 0
        """Records and spans in it that are not struck out."""
        if path.exists():
            self._measure()

    def append(self, frames: Sequence[Frame]) -> None:
        """Write frames behind the last one.

        Raises:
            OSError: The disk is full, for instance; the file ends where it ended before.
        """
        data = b"".join(frame.to_bytes() for frame in frames)
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(file, data[written:], self.size_bytes + written)
        except OSError:
            os.ftruncate(file, self.size_bytes)
            raise
        finally:
            os.close(file)
        self.size_bytes += len(data)
        self.items += sum(frame.count for frame in frames)

    def frames(self, offset: int = 0) -> Iterator[Frame]:
        """Read what is not struck out, from a frame on; damage comes as a frame of its own kind.

        A frame's items stay in `items` until it is struck out.
        """
        if not self.path.exists():
            return
        with self.path.open("rb", buffering=0) as file:
            while offset + _HEADER.size <= self.size_bytes:
                file.seek(offset)
                kind, size, count, checksum = _HEADER.unpack(file.read(_HEADER.size))
                end = offset + _HEADER.size + size
                payload = file.read(size) if end <= self.size_bytes else b""
                if not _is_sound(kind, size, count) or checksum != _checksum(size, count, payload):
                    damage = _damage(file, offset, self.size_bytes)
                    yield damage
                    end = damage.end
                elif kind != _DONE:
                    yield Frame(kind=_KINDS[kind], payload=payload, count=count, offset=offset)
                offset = end

    def strike_out(self, frames: Sequence[Frame]) -> None:
        """Mark frames as settled; nobody reads them again."""
        if not frames:
            return
        file = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            for frame in frames:
                os.pwrite(file, _DONE, frame.offset)
                self.items -= frame.count
        finally:
            os.close(file)

    def _measure(self) -> None:
        """Walk over the headers of a file that somebody else left, or still writes to."""
        end = self.path.stat().st_size
        with self.path.open("rb") as file:
            while self.size_bytes + _HEADER.size <= end:
                kind, size, count, _ = _HEADER.unpack(file.read(_HEADER.size))
                after = self.size_bytes + _HEADER.size + size
                is_sound = _is_sound(kind, size, count)
                if not is_sound or after > end:
                    damage = _damage(file, self.size_bytes, end)
                    if is_sound and damage.end == end:
                        return  # cut short by a crash, before anybody was told that it is written
                    after, count = damage.end, damage.count
                self.size_bytes = after
                self.items += 0 if kind == _DONE else count
                file.seek(after)


def _is_sound(kind: bytes, size: int, count: int) -> bool:
    """True for the numbers of a header; no item is smaller than a byte."""
    return (kind == _DONE or kind in _KINDS) and count <= size


def _is_whole(data: bytes, offset: int) -> bool:
    """True if a frame begins there."""
    if offset + _HEADER.size > len(data):
        return False
    kind, size, count, checksum = _HEADER.unpack_from(data, offset)
    begin = offset + _HEADER.size
    return (
        _is_sound(kind, size, count)
        and begin + size <= len(data)
        and _checksum(size, count, data[begin : begin + size]) == checksum
    )


def _damage(file: BinaryIO, offset: int, end: int) -> Frame:
    """What is lost at a damaged header or payload.

    That is one frame if the next one, or the end, is where the header says. Else it is everything
    up to the next whole frame, of which only one item is known.
    """
    file.seek(offset)
    data = file.read(end - offset)
    kind, size, count, _ = _HEADER.unpack_from(data)
    after = _HEADER.size + size
    if count <= size and (after == len(data) or _is_whole(data, after)):
        lost = 0 if kind == _DONE else max(count, 1)
    else:
        places = (found.start() for found in _MAYBE_HEADER.finditer(data, _HEADER.size))
        after = next((place for place in places if _is_whole(data, place)), len(data))
        lost = 1
    payload = data[_HEADER.size : after]
    return Frame(kind=FrameKind.DAMAGED, payload=payload, count=lost, offset=offset)
