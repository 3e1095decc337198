"""The folder of a spool: one locked folder inside it for each writer, adopted when it dies.

    folder/lock                  held for moments, while writers come, go and adopt
    folder/PID-TOKEN/lock        held by its writer for as long as it lives, `kill -9` included
    folder/PID-TOKEN/TIME.seg    frames, oldest file first

A forked child shares no file with its parent: it opens a folder of its own. Whatever else lies in
these folders is somebody else's and stays, as an application may name a folder that it uses.
"""

import contextlib
import json
import os
import re
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from scouter.errors import ConfigError, TransientError
from scouter.transport.drops import Count, Dropped, joined, left_of
from scouter.transport.fork import watch
from scouter.transport.spool.lock import FileLock
from scouter.transport.spool.segment import Frame, FrameKind, Segment

FOLDER_MODE: Final = 0o700
FULL: Final = "spool_full"
"""Dropped as the oldest, to make room."""
CORRUPT: Final = "spool_corrupt"
"""Dropped because the bytes on disk were damaged."""
_SUFFIX: Final = ".seg"
_LOCK: Final = "lock"
_WRITER_NAME: Final = re.compile(r"[0-9]+-[0-9a-f]{12}")
_SEGMENT_NAME: Final = re.compile(r"[0-9]{20}-[0-9a-f]{8}\.seg")
_MIN_SEGMENT_BYTES: Final = 4096
_MAX_SEGMENT_BYTES: Final = 8 * 1024 * 1024
_MAX_BATCH_FRAMES: Final = 512
_MAX_BATCH_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The oldest frames of a spool: records, or one request of spans, and what was dropped."""

    segment: Segment
    frames: tuple[Frame, ...]
    """Of one kind; none where only damage is left."""
    dropped: Dropped
    settled: tuple[Frame, ...]
    """Frames to strike out with them: those that tell of drops."""
    lost: int
    """Records and spans in damaged frames between them."""

    @property
    def count(self) -> int:
        """Records or spans in it."""
        return sum(frame.count for frame in self.frames)


class SpoolFolder:
    """This writer's part of a spool, with what dead writers left; safe between two threads.

    Args:
        folder: The spool; made if it is not there.
        max_bytes: Bound of all files in the spool, those of other live writers included.

    Raises:
        ConfigError: Other users can write to the folder.
        TransientError: The file system refuses.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._root, self._max_bytes = folder, max_bytes
        self._segment_bytes = max(_MIN_SEGMENT_BYTES, min(_MAX_SEGMENT_BYTES, max_bytes // 16))
        self._lock = threading.RLock()
        self._segments: deque[Segment] = deque()
        self._active: Segment | None = None
        self._untold: Dropped = {}
        self._lost: Counter[str] = Counter()  # here, by reason
        self._reading: Segment | None = None
        self._offset = 0
        with _file_errors(folder):
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            _refuse_shared(folder)
            self.own = folder / f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
            with _moment_lock(folder):
                self.own.mkdir(mode=FOLDER_MODE)
                self._own_lock = _try_lock(self.own)
        watch(self)
        self.adopt()

    def after_fork_in_child(self) -> None:
        """Leave the folder to the parent."""
        self._lock = threading.RLock()
        self._own_lock = None

    def adopt(self) -> int:
        """Take over what dead writers left; returns how many records and spans that is."""
        adopted: list[Segment] = []
        with self._lock, _file_errors(self._root), _moment_lock(self._root):
            for other in _writers(self._root):
                lock = None if other == self.own else _try_lock(other)
                if lock is None:
                    continue
                with contextlib.closing(lock):
                    adopted += [
                        Segment(path.rename(self.own / path.name)) for path in _files(other)
                    ]
                    _remove_writer(other)
            adopted.sort(key=lambda segment: segment.path.name)
            self._segments.extendleft(reversed(adopted))
        return sum(segment.items for segment in adopted)

    @property
    def is_empty(self) -> bool:
        """True if nothing waits."""
        return not self._segments

    def append(self, frames: Sequence[Frame], dropped: Dropped) -> int:
        """Keep frames; the oldest ones make room.

        Args:
            frames: Records or spans.
            dropped: What the far side is to be told with them.

        Returns:
            How many older records and spans were dropped for them.

        Raises:
            TransientError: The disk refuses; nothing was kept.
        """
        size = sum(frame.size_bytes for frame in frames)
        with self._lock, _file_errors(self.own):
            lost = 0
            segment = self._active
            if segment is None or segment.size_bytes + size > self._segment_bytes:
                lost = self._make_room(max(size, self._segment_bytes))
                name = f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}{_SUFFIX}"
                segment = Segment(self.own / name)
            told = joined(self._untold, dropped)
            first = [_dropped_frame(told)] if told else []
            segment.append([*first, *frames])
            self._untold = {}
            if segment is not self._active:
                self._active = segment
                self._segments.append(segment)
            return lost

    def untold(self) -> Dropped:
        """What the far side is still to be told of, but for what is in the files."""
        with self._lock:
            return self._untold

    def told(self, dropped: Dropped) -> None:
        """Forget what the far side knows now."""
        with self._lock:
            self._untold = left_of(self._untold, dropped)

    def tell(self, dropped: Dropped) -> None:
        """Have the far side told of drops."""
        with self._lock:
            self._untold = joined(self._untold, dropped)

    def count(self, reason: str, number: int) -> None:
        """Have the far side told of what is lost here."""
        with self._lock:
            before = self._lost[reason]
            self._lost[reason] += number
            self.tell({(self.own.name, reason): Count(before, before + number)})

    def oldest(self) -> Backlog | None:
        """The frames to deliver next; None if nothing waits. Ends with `settle`."""
        with self._lock, _file_errors(self.own):
            if not self._segments:
                return None
            head = self._segments[0]
            if self._reading is not head:
                self._reading, self._offset = head, 0
            return self._gather(head)

    def settle(self, backlog: Backlog) -> int:
        """Strike out what was delivered, and remove its file once nothing is left in it.

        Returns:
            How many records and spans were lost because the file is damaged, as far as known.
        """
        with self._lock, _file_errors(self.own):
            segment = backlog.segment
            segment.strike_out((*backlog.settled, *backlog.frames))
            if not backlog.frames:  # nobody has heard of them
                self.tell(backlog.dropped)
            if not any(segment.frames(self._offset)):
                self._remove(segment)
            if backlog.lost:
                self.count(CORRUPT, backlog.lost)
            return backlog.lost

    def close(self) -> None:
        """Give up the lock; what waits is the next writer's."""
        with self._lock, _file_errors(self._root), _moment_lock(self._root):
            lock, self._own_lock = self._own_lock, None
            if lock is None:
                return
            with contextlib.closing(lock):
                if not self._segments:
                    _remove_writer(self.own)

    def _gather(self, segment: Segment) -> Backlog:
        frames: list[Frame] = []
        settled: list[Frame] = []
        dropped: Dropped = {}
        size, lost, end = 0, 0, self._offset
        for frame in segment.frames(end):
            if frame.kind is FrameKind.DROPPED:
                dropped = joined(dropped, _read_dropped(segment, frame))
                settled.append(frame)
            elif frame.kind is FrameKind.DAMAGED:
                lost += frame.count
            elif frames and (
                frame.kind is FrameKind.SPANS
                or frames[0].kind is FrameKind.SPANS
                or len(frames) >= _MAX_BATCH_FRAMES
                or size + len(frame.payload) > _MAX_BATCH_BYTES
            ):
                break
            else:
                frames.append(frame)
                size += len(frame.payload)
            end = frame.end
        self._offset = end  # only now: what could not be read is read again
        return Backlog(
            segment=segment,
            frames=tuple(frames),
            dropped=dropped,
            settled=tuple(settled),
            lost=lost,
        )

    def _make_room(self, size: int) -> int:
        """Remove own files, oldest first, until so many bytes fit; returns the items in them."""
        lost = 0
        used = sum(_size(path) for other in _writers(self._root) for path in _files(other))
        for segment in [each for each in self._segments if each is not self._reading]:
            if used + size <= self._max_bytes:
                break
            for frame in segment.frames():
                if frame.kind is FrameKind.DROPPED:
                    self.tell(_read_dropped(segment, frame))
            self._remove(segment)
            used -= segment.size_bytes
            lost += segment.items
        if lost:
            self.count(FULL, lost)
        return lost

    def _remove(self, segment: Segment) -> None:
        self._segments.remove(segment)
        segment.path.unlink(missing_ok=True)
        if segment is self._active:
            self._active = None
        if segment is self._reading:
            self._reading = None


def _dropped_frame(dropped: Dropped) -> Frame:
    rows = [[*key, *count] for key, count in dropped.items()]
    payload = json.dumps(rows, separators=(",", ":")).encode()
    return Frame(kind=FrameKind.DROPPED, payload=payload, count=0)


def _read_dropped(segment: Segment, frame: Frame) -> Dropped:
    found: object = json.loads(frame.payload)
    if isinstance(found, dict):  # from an earlier version: counts without a sender
        counts = cast("dict[str, int]", found)
        sender = f"{segment.path.stem}-{frame.offset}"
        return {(sender, reason): Count(0, count) for reason, count in counts.items()}
    rows = cast("list[tuple[str, str, int, int]]", found)
    return {(sender, reason): Count(told, total) for sender, reason, told, total in rows}


def waiting_in(folder: Path) -> tuple[int, int]:
    """Records and spans that wait in a spool, and the bytes of its files.

    Cost: one look at every frame's header.
    """
    items = size = 0
    for other in _writers(folder) if folder.is_dir() else ():
        for path in _files(other):
            with contextlib.suppress(FileNotFoundError):  # delivered this moment
                segment = Segment(path)
                items, size = items + segment.items, size + segment.size_bytes
    return items, size


def _writers(root: Path) -> list[Path]:
    return sorted(
        path
        for path in root.iterdir()
        if _WRITER_NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    )


def _files(writer: Path) -> list[Path]:
    try:
        return sorted(path for path in writer.iterdir() if _SEGMENT_NAME.fullmatch(path.name))
    except FileNotFoundError:  # its writer has just ended
        return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # another writer has just delivered it
        return 0


def _remove_writer(writer: Path) -> None:
    """Remove the folder of a writer that has no segments any more; not with others' files in it."""
    (writer / _LOCK).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        writer.rmdir()


def _try_lock(writer: Path) -> FileLock | None:
    """Lock a writer's folder; None if another holds it."""
    try:
        return FileLock(writer / _LOCK, waits=False)
    except BlockingIOError:
        return None


def _moment_lock(root: Path) -> contextlib.closing[FileLock]:
    return contextlib.closing(FileLock(root / _LOCK, waits=True))


@contextlib.contextmanager
def _file_errors(place: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise TransientError(f"spool {place}: {error.strerror or error}") from error


def _refuse_shared(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise ConfigError(
            f"spool {folder}: other users can write to it; use a folder of this user's own, "
            f"or chmod 700 it"
        )
