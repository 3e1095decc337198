"""Files that a version before the table left in a folder: read once, and removed."""

import json
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from scouter.transport.spool.lock import FileLock

_WRITER: Final = re.compile(r"[0-9]+-[0-9a-f]{12}")
_FILE: Final = re.compile(r"[0-9]{20}-[0-9a-f]{8}\.seg")
_HEADER: Final = struct.Struct("<cIII")
_DONE: Final = b"x"


def bring_over(folder: Path) -> Iterator[tuple[list[tuple[bytes, int, bytes]], list[Any]]]:
    """Read the files of dead writers: frames of kind, items and payload, and reports of drops."""
    for writer in sorted(path for path in folder.iterdir() if _WRITER.fullmatch(path.name)):
        if writer.is_symlink() or not writer.is_dir():
            continue
        with suppress(BlockingIOError), closing(FileLock(writer / "lock")):
            for path in sorted(path for path in writer.iterdir() if _FILE.fullmatch(path.name)):
                frames = list(_frames(path.read_bytes()))
                told = [row for kind, _, text in frames if kind == b"D" for row in json.loads(text)]
                yield [frame for frame in frames if frame[0] in b"RS"], told
                path.unlink()
        with suppress(OSError):  # somebody else's files are in it
            writer.rmdir()


def _frames(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    begin = 0
    while begin + _HEADER.size <= len(data):
        kind, size, items, checksum = _HEADER.unpack_from(data, begin)
        begin += _HEADER.size + size
        payload = data[begin - size : begin]
        if kind != _DONE:
            if zlib.crc32(payload, zlib.crc32(struct.pack("<II", size, items))) != checksum:
                return  # cut short by a crash
            yield kind, items, payload
