"""The files of the log: their format, and what can be read of one in whatever state it is.

A segment is a header and items, one behind the other; nothing in it is ever changed.
It is named by the offset of its first item. Each item has a frame with two checksums: one of the
frame's own fields, so that the length of a damaged item is known and the next one is found, and one
of space, source and body. The fields have the item's offset: bytes that belong to another place, as
an old block of the disk or a copied file has them, are never taken for an item.
"""

import os
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from collector.log.port import Item, Kind
from scouter.errors import ConfigError, DataError

SUFFIX: Final = ".log"
_SEGMENT_MAGIC: Final = b"SCTRLOG1"
_SEGMENT: Final = struct.Struct("<8sQQI")
"""Magic with the version, offset of the first item, identity of the data folder, checksum."""
SEGMENT_HEADER_BYTES: Final = _SEGMENT.size
_MAGIC: Final = b"ITM1"
_FRAME: Final = struct.Struct("<4sIQqqIIHHB3x")
"""Magic, checksum of all that follows, offset, time received, time behind the brokers, bytes of the
body, checksum of space, source and body, bytes of the space, bytes of the source, kind."""
FRAME_BYTES: Final = _FRAME.size
_CHECKED: Final = 8
"""Place in a frame at which the checked fields begin."""
_STEP_BYTES: Final = 2**20
"""Bytes that are read at once while looking through a file."""
_PARTS: Final = 1000
"""That one call may write; systems take 1,024."""
_KINDS: Final = {int(kind): kind for kind in Kind}


def segment_path(folder: Path, start: int) -> Path:
    """Path of the segment whose first item has this offset."""
    return folder / f"{start:020d}{SUFFIX}"


def segment_header(start: int, identity: int) -> bytes:
    """First bytes of a segment."""
    head = _SEGMENT.pack(_SEGMENT_MAGIC, start, identity, 0)[:-4]
    return head + crc32(head).to_bytes(4, "little")


def read_header(path: Path) -> int | None:
    """Read the header of a segment, and compare it with the name.

    Returns:
        The identity of its data folder; None if it is not whole. A file without one, or with a
        damaged one, is named rightly as far as anybody knows, and its items can be read.

    Raises:
        ConfigError: Another version has written the file, or its name lies: read under it, each
            item would seem to be damaged, and a trim would remove the file.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_SEGMENT.size)
    if len(head) < _SEGMENT.size or crc32(head[:-4]) != int.from_bytes(head[-4:], "little"):
        return None
    magic, start, identity, _ = _SEGMENT.unpack(head)
    if magic != _SEGMENT_MAGIC:
        raise ConfigError(
            f"{path} was written by another version of the collector ({magic!r}): start that "
            "version until everything is stored, or remove the file to do without what is in it"
        )
    if segment_path(path.parent, start) != path:
        raise ConfigError(
            f"{path} is the file {segment_path(path.parent, start).name} under another name: "
            "rename it, or take it away if it is a copy"
        )
    return int(identity)


@dataclass(frozen=True, slots=True)
class PackedItem:
    """An item that only lacks its offset; its checksum is made in the thread that appends."""

    item: Item
    space: bytes
    source: bytes
    body: memoryview
    checksum: int

    @property
    def size_bytes(self) -> int:
        """Size of its frame, space, source and body."""
        return FRAME_BYTES + len(self.space) + len(self.source) + len(self.body)

    def parts(self, offset: int) -> tuple[bytes, memoryview]:
        """The bytes at an offset, in the order in which they are written."""
        item = self.item
        fields = _FRAME.pack(
            _MAGIC, 0, offset, item.received_ns, item.behind_ns, len(self.body), self.checksum,
            len(self.space), len(self.source), item.kind,
        )[_CHECKED:]  # fmt: skip
        frame = _MAGIC + crc32(fields).to_bytes(4, "little") + fields
        return frame + self.space + self.source, self.body


def pack(item: Item) -> PackedItem:
    """Prepare an item for writing.

    Raises:
        DataError: It is too large for a frame.
    """
    space, source, body = item.space.encode(), item.source.encode(), memoryview(item.body).cast("B")
    if len(body) >= 2**32 or max(len(space), len(source)) >= 2**16:
        raise DataError(
            f"the log takes no item of {len(body):,} bytes in a space of {len(space):,} bytes from "
            f"a source of {len(source):,} bytes; at most {2**32 - 1:,} and {2**16 - 1:,} each"
        )
    checksum = crc32(body, crc32(source, crc32(space)))
    return PackedItem(item=item, space=space, source=source, body=body, checksum=checksum)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a segment: an item, or bytes that are none."""

    offset: int
    next: int
    item: Item | None
    is_cut: bool = False
    """True if the bytes are no item because the file ends within it, as an interrupted write
    leaves it, and not because any of them are wrong."""


def walk(
    file: int, start: int, offset: int, end: int, max_bytes: int | None = None
) -> Iterator[Piece]:
    """Divide a part of a segment into items and what is none, without a byte left over.

    Args:
        file: Descriptor of the segment.
        start: Offset of its first item.
        offset: Offset at which to begin.
        end: Offset at which to end, whether or not the file reaches there.
        max_bytes: Ends before the item that would make it more; never before the first.

    Raises:
        OSError: The disk does not give the bytes.
    """
    at, limit = offset, sys.maxsize if max_bytes is None else offset + max_bytes
    window = _Window(file, start, end, min(limit - offset, _STEP_BYTES))
    while at < end and (at + FRAME_BYTES <= limit or at == offset):
        frame = _read_frame(window, at)
        if frame is None:
            is_cut = end - at < FRAME_BYTES
            following = _next_frame(window, at + 1)
            yield Piece(at, following, None, is_cut=is_cut)
            at = following
            continue
        received_ns, behind_ns, body_size, checksum, space_size, source_size, kind = frame
        source = FRAME_BYTES + space_size
        body = source + source_size
        following = at + body + body_size
        if following > limit and at > offset:
            return
        found = window.view(at, following - at)
        if len(found) < following - at:
            yield Piece(at, end, None, is_cut=True)
            return
        item = None
        if crc32(found[FRAME_BYTES:]) == checksum and kind in _KINDS:
            item = Item(
                _KINDS[kind], str(found[FRAME_BYTES:source], "utf-8"), received_ns,
                bytes(found[body:]), str(found[source:body], "utf-8"), behind_ns,
            )  # fmt: skip
        yield Piece(at, following, item)
        at = following


class _Window:
    """The part of a segment that is in memory."""

    def __init__(self, file: int, start: int, end: int, step_bytes: int) -> None:
        self._file, self._start, self.end, self._step = file, start, end, step_bytes
        self._at, self._bytes = start, memoryview(b"")

    def view(self, at: int, size: int) -> memoryview:
        """Bytes at an offset; fewer where the part or the file ends."""
        size = min(size, self.end - at)
        begin = at - self._at
        if not 0 <= begin <= begin + size <= len(self._bytes):
            wanted = min(max(size, self._step), self.end - at)
            place = SEGMENT_HEADER_BYTES + at - self._start
            self._at, self._bytes, begin = at, memoryview(_pread(self._file, wanted, place)), 0
        return self._bytes[begin : begin + size]


def _pread(file: int, size: int, place: int) -> bytes:
    """Bytes at a place in a file, fewer only at its end: one call gives 2 GiB at most."""
    found = os.pread(file, size, place)
    while len(found) < size and (more := os.pread(file, size - len(found), place + len(found))):
        found += more
    return found


def _read_frame(window: _Window, at: int) -> tuple[int, int, int, int, int, int, int] | None:
    """Fields of the frame that begins at an offset; None if no whole frame does."""
    view = window.view(at, FRAME_BYTES)
    if len(view) < FRAME_BYTES:
        return None
    magic, checksum, offset, *fields = _FRAME.unpack(view)
    if magic != _MAGIC or offset != at or crc32(view[_CHECKED:]) != checksum:
        return None
    received_ns, behind_ns, body_size, body_checksum, space_size, source_size, kind = fields
    return received_ns, behind_ns, body_size, body_checksum, space_size, source_size, kind


def _next_frame(window: _Window, at: int) -> int:
    """Offset of the next whole frame; the end without one."""
    while window.end - at >= FRAME_BYTES:
        content = bytes(window.view(at, _STEP_BYTES))
        if len(content) < FRAME_BYTES:  # the file ends before its time
            break
        found = -1
        while (found := content.find(_MAGIC, found + 1)) >= 0:
            if _read_frame(window, at + found) is not None:
                return at + found
        at += len(content) - len(_MAGIC) + 1
    return window.end


def write_all(file: int, parts: Sequence[bytes | memoryview]) -> None:
    """Write at the place of a file at which it is written.

    Raises:
        OSError: Not everything was written; nobody knows how much was.
    """
    for first in range(0, len(parts), _PARTS):
        views = [memoryview(part) for part in parts[first : first + _PARTS]]
        left = sum(map(len, views)) - os.writev(file, views)
        if left:  # a disk that is nearly full, or more than one call takes
            rest = memoryview(b"".join(views))[-left:]
            while rest:
                rest = rest[os.write(file, rest) :]
