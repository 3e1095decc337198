"""Checks of the files of a log that is not open, and a copy of one that is."""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collector.log.file_log import FileLog
from collector.log.segment import (
    SEGMENT_HEADER_BYTES,
    SUFFIX,
    read_header,
    segment_header,
    segment_path,
    walk,
)
from scouter.errors import ConfigError

_COPY_BYTES: Final = 2**20


def segment_paths(folder: Path) -> list[Path]:
    """The files of a log, in order."""
    return sorted(folder.glob("[0-9]" * 20 + SUFFIX))


def log_identity(folder: Path) -> int | None:
    """The identity of the data folder of a log; None without a file that has it.

    Raises:
        ConfigError: A file cannot be read, or is not of this version.
    """
    try:
        found = [read_header(path) for path in segment_paths(folder)]
    except OSError as error:
        raise ConfigError(f"cannot read the log {folder}: {error}") from error
    return next((each for each in found if each is not None), None)


def copy_log(log: FileLog, start: int, folder: Path, identity: int) -> None:
    """Copy what a log has from an offset on into one of its own, which ends where it ends now.

    Args:
        log: A log that is pinned.
        start: Offset of an item.
        folder: Has no log.
        identity: Number of the data folder.

    Raises:
        OSError: The folder cannot be written.
        TransientError: The log cannot be read, or the copy not be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path, end = segment_path(folder, start), log.end
    path.touch(mode=0o600)
    path.write_bytes(segment_header(start, identity))
    copy = FileLog(folder, start, identity=identity)
    last: Future[int] | None = None
    try:
        while start < end:
            chunk = log.read(start, _COPY_BYTES)
            for entry in chunk.entries:
                last = copy.append(entry.item)
            start = chunk.next
            if last is not None:
                last.result()
    finally:
        copy.close()


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """Contents of a file of a log."""

    path: Path
    start: int
    end: int
    """Offset behind its last item."""
    items: int
    damaged_bytes: int
    torn_bytes: int
    """Bytes at its end that are no whole item, as an interrupted write leaves them."""
    identity: int | None


def check_log(folder: Path) -> Iterator[CheckedSegment]:
    """Read every byte of a log that is not open.

    Raises:
        ConfigError: A file is not of this version.
        OSError: A file cannot be read.
    """
    paths = segment_paths(folder)
    starts = [int(path.stem) for path in paths]
    for at, path in enumerate(paths):
        following = starts[at + 1] if at + 1 < len(paths) else None
        yield _check_segment(path, starts[at], following)


def _check_segment(path: Path, start: int, following: int | None) -> CheckedSegment:
    identity = read_header(path)
    items = damaged = torn = 0
    end = start
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = max(os.fstat(file).st_size - SEGMENT_HEADER_BYTES, 0)
        for piece in walk(file, start, start, start + size if following is None else following):
            if piece.item is not None:
                items, end = items + 1, piece.next
            elif piece.is_cut and following is None:
                torn += piece.next - piece.offset
            else:
                damaged, end = damaged + piece.next - piece.offset, piece.next
    finally:
        os.close(file)
    return CheckedSegment(path, start, end, items, damaged, torn, identity)
