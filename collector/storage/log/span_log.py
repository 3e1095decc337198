"""The bytes of all spans: OTLP requests, one behind the other in files that are only appended to.

The log is two things. It is the journal: a request is acknowledged once it is here and synced,
before the database has its rows. And it is where the spans stay: the database keeps what spans are
found by, and the place of each one here (Lu et al. 2016, "WiscKey", doi:10.1145/3033273).

A place is a count of bytes since the log began and stays the same for good. A file is named by the
place where it begins. Each frame has a header that says what it holds, and a checksum.
"""

import bisect
import contextlib
import fcntl
import logging
import os
import struct
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final
from zlib import crc32

_log: Final = logging.getLogger(__name__)
LOG_FOLDER: Final = "spans"
"""Name of the log's folder inside a data folder."""
_MAGIC: Final = b"SPN1"
_HEADER: Final = struct.Struct("<4sIIHq")
"""Magic, checksum of all that follows it, bytes of the body, bytes of the space, time received."""
_PARTS: Final = 1000
"""That one call may write; systems take 1,024."""
_FILE_BYTES: Final = 16 * 2**20
_OPEN_FILES: Final = 64
_SUFFIX: Final = ".spans"
_PARTIAL: Final = ".partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One OTLP request and what has to be known to store its spans."""

    space: str
    received_ns: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Place of a frame in the log, in bytes."""

    body: int
    """Beginning of its OTLP request."""
    end: int
    """Beginning of the next frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """Result of checking one file of the log."""

    path: Path
    start: int
    """Place in the log at which the file begins."""
    size_bytes: int
    frames: int
    torn_bytes: int
    """Bytes at its end that are no whole frame, as a crash leaves them."""
    damaged_at: int | None
    """Position in the file of a frame that is damaged, and not torn by a crash; None without one.

    Whole frames follow it, or all of its bytes are there.
    """


def check_file(path: Path) -> FileCheck:
    """Read every frame of a file; changes nothing.

    Raises:
        OSError: It cannot be read.
    """
    content = path.read_bytes()
    stretches = list(_stretches(content))
    broken = [(at, end) for at, end, is_whole in stretches if not is_whole]
    damaged = [at for at, end in broken if not _is_torn(content, at, end)]
    frames = [is_whole for _, _, is_whole in stretches]
    torn = [end - at for at, end in broken if _is_torn(content, at, end)]
    return FileCheck(
        path=path,
        start=int(path.stem),
        size_bytes=len(content),
        frames=frames.count(True),
        torn_bytes=sum(torn),
        damaged_at=damaged[0] if damaged else None,
    )


def _stretches(content: bytes | bytearray) -> Iterator[tuple[int, int, bool]]:
    """Divide what a file holds: where a frame begins and ends, and what between them is none.

    Yields:
        Begin, end, and whether that is a whole frame.
    """
    at = 0
    while at < len(content):
        whole = _whole_frame(content, at)
        end = _next_frame(content, at + 1) if whole is None else whole
        yield at, end, whole is not None
        at = end


def _next_frame(content: bytes | bytearray, at: int) -> int:
    """Find the beginning of the next whole frame; the end of the content without one."""
    while (at := content.find(_MAGIC, at)) >= 0:
        if _whole_frame(content, at) is not None:
            return at
        at += 1
    return len(content)


def _is_torn(content: bytes | bytearray, at: int, end: int) -> bool:
    """Say of what is no whole frame whether a crash left it: a piece at the end of a file."""
    if end < len(content):
        return False
    if at + _HEADER.size > end:
        return True
    magic, _, body_size, space_size, _ = _HEADER.unpack_from(content, at)
    return magic != _MAGIC or at + _HEADER.size + space_size + body_size != end


def _whole_frame(content: bytes | bytearray, at: int) -> int | None:
    """Find the end of the frame that begins here; None if no whole frame does."""
    if at + _HEADER.size > len(content):
        return None
    magic, checksum, body_size, space_size, _ = _HEADER.unpack_from(content, at)
    end = at + _HEADER.size + space_size + body_size
    if magic != _MAGIC or end > len(content) or crc32(content[at + 8 : end]) != checksum:
        return None
    return end


def _frame_of(content: bytes | bytearray) -> Frame:
    """The frame that some bytes are."""
    _, _, _, space_size, received_ns = _HEADER.unpack_from(content)
    body = _HEADER.size + space_size
    space = content[_HEADER.size : body].decode()
    return Frame(space=space, received_ns=received_ns, body=bytes(content[body:]))


class SpanLog:
    """The files. One thread appends; any thread reads.

    Args:
        folder: Folder of the files; made if it is not there.
        applied: Place up to which the database has the rows of all frames.
        file_bytes: Size at which the next file is begun.

    Raises:
        OSError: The folder cannot be used.
    """

    def __init__(self, folder: Path, applied: int, file_bytes: int = _FILE_BYTES) -> None:
        self._folder, self._file_bytes = folder, file_bytes
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._starts = sorted(int(file.stem) for file in folder.glob(f"*{_SUFFIX}"))
        self._lock = threading.Lock()
        """Over the list of files and those that are open for reading."""
        self._appending = threading.Lock()
        """Over the last file, which alone is written to."""
        for left in folder.glob(f"*{_PARTIAL}"):
            left.unlink()
        self._pins = 0
        self.damaged = 0
        """Stretches that `frames` has passed over, although they had been acknowledged."""
        self._readers: OrderedDict[int, int] = OrderedDict()
        self._file = -1
        if self._starts and not self._size(self._starts[-1]):
            self._path(self._starts.pop()).unlink()  # its name is that of the next file
        self._end = max(applied, self._last_end())

    @property
    def end(self) -> int:
        """Place at which the next frame will begin."""
        return self._end

    @property
    def size_bytes(self) -> int:
        """Size of all files."""
        return sum(self._size(start) for start in list(self._starts))

    # --- writing ----------------------------------------------------------------------------

    def append(self, frames: Sequence[Frame]) -> list[Place]:
        """Write frames and sync them; they are there once this returns.

        Raises:
            OSError: They cannot be written; nothing of them stays.
        """
        with self._appending:
            return self._append(frames)

    def _append(self, frames: Sequence[Frame]) -> list[Place]:
        file = self._writable()
        parts: list[bytes] = []
        places: list[Place] = []
        at = self._end
        for frame in frames:
            space = frame.space.encode()
            parts += _parts_of(frame, space)
            body = at + _HEADER.size + len(space)
            at = body + len(frame.body)
            places.append(Place(body=body, end=at))
        try:
            _write_all(file, parts)
            _sync(file)
        except BaseException:  # no memory either: what was written in part must not stay
            self._undo(file)
            raise
        self._end = at
        return places

    def _writable(self) -> int:
        """The file to append to."""
        start = self._starts[-1] if self._starts else -1
        if self._file < 0 or self._end - start >= self._file_bytes:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
                self._uncache()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path(self._end), flags, 0o600)
            sync_folder(self._folder)
            with self._lock:
                self._starts.append(self._end)
        return self._file

    def _uncache(self) -> None:
        """Give the system back the memory behind the file before the last one.

        Old bytes are seldom read again. The next writes take those very pages, and other programs
        keep their pages in memory.
        """
        if not hasattr(os, "posix_fadvise"):
            return
        for start in self._starts[-2:-1]:
            with contextlib.suppress(OSError):  # retention has taken the file; or no such system
                file = os.open(self._path(start), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(file)

    def _undo(self, file: int) -> None:
        """Take back what a failed write left; a file that failed to sync is not trusted again."""
        start = self._starts[-1]
        try:
            os.ftruncate(file, self._end - start)
            if self._end == start:
                with self._lock:
                    self._path(start).unlink()
                    self._starts.pop()
        except OSError as error:
            _log.warning("a torn end stays in %s: %s", self._path(start), error)
        os.close(file)
        self._file = -1
        if self._starts and self._starts[-1] == self._end:
            # Nothing could be taken back, and the name of the next file is in use.
            self._end += 1

    # --- reading ----------------------------------------------------------------------------

    def frames(self, place: int) -> Iterator[tuple[Frame, Place]]:
        """Every whole frame from a place on; no span of a torn frame was acknowledged.

        A damaged frame is passed over and counted in `damaged`.
        """
        for start, following in pairwise([*self._starts, self._end]):
            at = max(place, start)
            end = min(start + self._size(start), following)
            while at < end:
                found = self._frame(at, end)
                if found is None:
                    at = self._behind_damage(start, at, end)
                    continue
                yield found
                at = found[1].end

    def _behind_damage(self, start: int, at: int, end: int) -> int:
        """Find the place at which to go on after bytes that are no whole frame, and log them."""
        rest = self.read(at, end - at)
        behind = _next_frame(rest, 1)
        if _is_torn(rest, 0, behind):
            _log.warning("%d torn bytes at the end of %s", end - at, self._path(start))
        else:
            self.damaged += 1
            _log.error(
                "%s: the %d bytes from byte %d on are damaged; the spans in them are lost",
                self._path(start), behind, at - start,
            )  # fmt: skip
        return at + behind

    def gaps(self, first: int, applied: int) -> list[tuple[int, int]]:
        """Stretches of the log of which nothing is left: no file, or one without a whole frame.

        Args:
            first: The place of the first byte that is needed.
            applied: The place behind the last one that is known to have been written.

        Returns:
            Begin and end of each, in order.

        Cost: a look at each file's size and first bytes.
        """
        found: list[tuple[int, int]] = []
        at = first
        for start in self._starts:
            end = start + self._size(start)
            found.append((at, min(start, applied)))
            if end > first and self._is_ruined(start):
                found.append((start, end))
            at = max(at, end)
        found.append((at, applied))
        return [(begin, end) for begin, end in found if begin < end]

    def _is_ruined(self, start: int) -> bool:
        """Say whether a file holds something else than frames."""
        with self._path(start).open("rb") as file:
            if file.read(len(_MAGIC)) == _MAGIC:
                return False
        content = self._path(start).read_bytes()
        return not any(is_whole for *_, is_whole in _stretches(content))

    def _frame(self, at: int, end: int) -> tuple[Frame, Place] | None:
        if at + _HEADER.size > end:
            return None
        head = self.read(at, _HEADER.size)
        magic, checksum, body_size, space_size, received_ns = _HEADER.unpack(head)
        body = at + _HEADER.size + space_size
        if magic != _MAGIC or body + body_size > end:
            return None
        rest = self.read(at + _HEADER.size, space_size + body_size)
        if crc32(rest, crc32(head[8:])) != checksum:
            return None
        space = rest[:space_size].decode()
        frame = Frame(space=space, received_ns=received_ns, body=rest[space_size:])
        return frame, Place(body=body, end=body + body_size)

    def read(self, place: int, size: int) -> bytes:
        """Some bytes of one frame.

        Raises:
            OSError: They are not there, for instance because their file was released.
        """
        with self._lock:
            index = bisect.bisect_right(self._starts, place) - 1
            if index < 0:
                raise FileNotFoundError(f"the log begins behind place {place}")
            start = self._starts[index]
            found = os.pread(self._reader(start), size, place - start)
        if len(found) < size:
            raise EOFError(f"place {place} of the log: {len(found)} of {size} bytes are there")
        return found

    def _reader(self, start: int) -> int:
        file = self._readers.get(start)
        if file is None:
            file = self._readers[start] = os.open(self._path(start), os.O_RDONLY | os.O_CLOEXEC)
            if len(self._readers) > _OPEN_FILES:
                os.close(self._readers.popitem(last=False)[1])
        else:
            self._readers.move_to_end(start)
        return file

    # --- care -------------------------------------------------------------------------------

    def release(self, before: int) -> int:
        """Remove the files that end before a place, as no row points into them any more.

        Returns:
            Bytes that were freed.
        """
        freed = 0
        with self._lock:
            while not self._pins and len(self._starts) > 1 and self._starts[1] <= before:
                start = self._starts[0]
                freed += self._size(start)
                if start in self._readers:
                    os.close(self._readers.pop(start))
                self._path(start).unlink(missing_ok=True)
                del self._starts[0]
        return freed

    def rewrite(
        self,
        concerns: Callable[[bytes], bool],
        change: Callable[[Frame], bytes | None],
        is_used: Callable[[int, int], bool] = lambda begin, end: False,
    ) -> int:
        """Put other bytes into frames, of the same length; every place stays.

        A file is written anew beside the old one and takes its name: whatever happens meanwhile,
        the log holds the one or the other. A frame that is damaged stays as it is, unless it may
        hold what is to change: then nothing of it stays.

        Args:
            concerns: Says of a file's content whether any frame of it may change.
            change: Gives a frame's new body; None to leave it.
            is_used: Says whether something that is stored has its bytes between two places; what
                looks like a piece that a crash left is then a frame whose header is damaged.

        Returns:
            Frames that changed.

        Raises:
            OSError: A file cannot be written; those before it are.
        """
        changed = 0
        for start in list(self._starts):
            if start >= self._starts[-1]:
                with self._appending:
                    changed += self._rewrite(start, concerns, change, is_used)
            else:
                changed += self._rewrite(start, concerns, change, is_used)
        return changed

    def _rewrite(
        self,
        start: int,
        concerns: Callable[[bytes], bool],
        change: Callable[[Frame], bytes | None],
        is_used: Callable[[int, int], bool],
    ) -> int:
        path = self._path(start)
        try:
            content = bytearray(path.read_bytes())
        except FileNotFoundError:  # retention has taken it
            return 0
        if not concerns(bytes(content)):
            return 0
        changed = 0
        for at, end, is_whole in _stretches(content):
            if is_whole:
                frame = _frame_of(content[at:end])
                body = change(frame)
                if body is not None:
                    new = Frame(space=frame.space, received_ns=frame.received_ns, body=body)
                    content[at:end] = b"".join(_parts_of(new, frame.space.encode()))
                    changed += 1
                continue
            has_spans = is_used(start + at, start + end)
            is_rest = _is_torn(content, at, end) and not has_spans
            if is_rest or concerns(bytes(content[at:end])):
                content[at:end] = bytes(end - at)  # nobody knows what else it says
                if has_spans:
                    _log.error(
                        "%s: the frame at byte %d was damaged and held something that was erased; "
                        "its other spans are lost", path.name, at,
                    )  # fmt: skip
        self._replace(start, content)
        return changed

    def _replace(self, start: int, content: bytes | bytearray) -> None:
        """Let a file have another content at once."""
        path = self._path(start)
        partial = path.with_name(path.name + _PARTIAL)
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write_all(file, [bytes(content)])
            _sync(file)
        finally:
            os.close(file)
        with self._lock:
            if start not in self._starts:  # retention has taken it
                partial.unlink()
                return
            partial.replace(path)
            if start in self._readers:
                os.close(self._readers.pop(start))
            if start == self._starts[-1] and self._file >= 0:
                os.close(self._file)
                self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        sync_folder(self._folder)

    def files(self) -> list[Path]:
        """All files, in order."""
        with self._lock:
            return [self._path(start) for start in self._starts]

    @contextlib.contextmanager
    def pinned(self) -> Generator[None]:
        """Keep all files, for as long as they are read or copied."""
        with self._lock:
            self._pins += 1
        try:
            yield
        finally:
            with self._lock:
                self._pins -= 1

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            for file in (self._file, *self._readers.values()):
                if file >= 0:
                    os.close(file)
            self._file = -1
            self._readers.clear()

    # --- inside -----------------------------------------------------------------------------

    def _path(self, start: int) -> Path:
        return self._folder / f"{start:020d}{_SUFFIX}"

    def _size(self, start: int) -> int:
        try:
            return self._path(start).stat().st_size
        except FileNotFoundError:
            return 0

    def _last_end(self) -> int:
        return self._starts[-1] + self._size(self._starts[-1]) if self._starts else 0


def _parts_of(frame: Frame, space: bytes) -> tuple[bytes, ...]:
    """Parts of a frame as bytes, in the order in which they are written."""
    head = _HEADER.pack(_MAGIC, 0, len(frame.body), len(space), frame.received_ns)
    checksum = crc32(frame.body, crc32(space, crc32(head[8:])))
    return head[:4], checksum.to_bytes(4, "little"), head[8:], space, frame.body


def _write_all(file: int, parts: Sequence[bytes]) -> None:
    for start in range(0, len(parts), _PARTS):
        views = [memoryview(part) for part in parts[start : start + _PARTS]]
        left = sum(map(len, views)) - os.writev(file, views)
        if left:  # a disk that is nearly full, or a signal
            rest = memoryview(b"".join(views))[-left:]
            while rest:
                rest = rest[os.write(file, rest) :]


def _sync(file: int) -> None:
    if sys.platform == "darwin":  # where fsync leaves the bytes to the drive's own memory
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(file)


def sync_folder(folder: Path) -> None:
    """Make the names of a folder's files durable."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
