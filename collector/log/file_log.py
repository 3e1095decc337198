"""The log in files of one folder: one thread writes and syncs, any thread reads.

Durability. A future is done once its bytes are synced, and the name of their file, if that is new.
After a failed write or sync nobody knows what is on the disk: the system may drop the pages that it
could not write, give their content to readers all the same, and call the next sync of the file a
success (Rebello et al. 2020, "Can Applications Recover from fsync Failures?", USENIX ATC). So the
senders of the group get an error, no file is written to again after a failure, and the next group
goes into a new file that begins at the same offset. What the old file has behind that offset is
never read, as each file counts as ending where the next one begins. And as a process may end
between a failed sync and all that, a start writes again what it finds at the end of the log before
anybody reads it.

A new file is written under another name first, and gets its own once its bytes are synced: no
file is ever there in part.

The data folder is locked by the store, which is opened before its log.
"""

import contextlib
import fcntl
import logging
import os
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collector.log.port import Chunk, Entry, Gap, Item, LostLogError
from collector.log.segment import (
    SEGMENT_HEADER_BYTES,
    SUFFIX,
    PackedItem,
    Piece,
    pack,
    read_header,
    segment_header,
    segment_path,
    walk,
    write_all,
)
from scouter.errors import ConfigError, TransientError

_log: Final = logging.getLogger(__name__)
SEGMENT_BYTES: Final = 64 * 2**20
"""Size at which the next segment is started."""
RETRY_S: Final = 1.0
"""Seconds between two tries to write again without an append: senders that were refused may not
come again before the collector reports that it is ready."""
_PARTIAL: Final = ".partial"
_COPY_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An item, or without one the wish for a new segment, and who waits for it."""

    packed: PackedItem | None
    future: "Future[int]"


class FileLog:
    """A log in a folder; see `collector.log.port.Log`.

    Args:
        folder: Its folder, which nobody else uses; made if it is not there.
        start: Offset up to which the store has everything.
        identity: Number of the data folder, 64 bits; every file has it.
        accept_loss: Go on if the log does not go with that: at `start` if it ends before, else
            with a gap up to the first item behind.
        before_trim: Called before a trim removes files, with the oldest offset that stays.
        on_sync: Called with the seconds that each sync takes, in the log's thread.
        segment_bytes: Size at which the next segment is started.

    Raises:
        LostLogError: The log lacks items that the store has not, as far as can be seen; nothing
            was changed.
        ConfigError: The folder cannot be used, or has files that are not this log's.

    Cost: reads and writes again the items of the last segment that the store has not.
    """

    def __init__(
        self,
        folder: Path,
        start: int = 0,
        *,
        identity: int = 0,
        accept_loss: bool = False,
        before_trim: Callable[[int], None] = lambda begin: None,
        on_sync: Callable[[float], None] = lambda seconds: None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._folder, self._segment_bytes, self._identity = folder, segment_bytes, identity
        self._before_trim, self._on_sync = before_trim, on_sync
        self.lost: LostLogError | None = None
        """The loss that was accepted; None without any."""
        self._lock = threading.Lock()
        """Over changes of the list of segments."""
        self._starts: tuple[int, ...] = ()
        """Offset of the first item of each segment; replaced, never changed."""
        self._pins = 0
        """Copies that are being made of the log."""
        self._file = -1
        """The last segment, if it can be written to; the thread's alone."""
        self._end = start
        self._fault = ""
        try:
            self._open(start, accept_loss=accept_loss)
        except OSError as error:
            raise ConfigError(f"cannot open the log {folder}: {error}") from error
        self._synced = threading.Condition()
        self._wanted = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._is_closed = False
        self._last_append_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="scouter-log", daemon=True)
        self._thread.start()

    # --- opening ----------------------------------------------------------------------------

    def _open(self, start: int, *, accept_loss: bool) -> None:
        """Find the segments and the end, compare them with the store, and mend the end."""
        starts = tuple(sorted(int(each.stem) for each in self._folder.glob("[0-9]" * 20 + SUFFIX)))
        for path in map(self._path, starts):
            identity = read_header(path)
            if identity is None:
                _log.warning("%s has no whole header", path)
            elif identity != self._identity:
                raise ConfigError(
                    f"{path} is of another data folder: take it away, and bring the files back "
                    "that were here"
                )
        begin = end = None
        if starts:
            begin, end = starts[0], self._find_end(starts[-1], start)
        if begin is None or end is None:
            goes_with_store = start == 0
        else:
            goes_with_store = begin <= start <= end and not self._is_within_item(starts, start, end)
        if not goes_with_store:
            self.lost = LostLogError(str(self._folder), start, begin, end)
            if not accept_loss:
                raise self.lost
            _log.error("going on without what was lost: %s", self.lost.what)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in self._folder.glob(f"*{_PARTIAL}"):
            each.unlink()
        self._starts = starts
        if end is not None:
            self._end = end
            self._mend_end(start)
        if end is None:
            sync_folder(self._folder.parent)  # an earlier start may have ended before it
        if end is None or end < start:
            self._end = start
            self._make_segment(())

    def _is_within_item(self, starts: Sequence[int], offset: int, end: int) -> bool:
        """True if an item lies across an offset at which one should begin or end."""
        index = bisect_right(starts, offset) - 1
        bound = starts[index + 1] if index + 1 < len(starts) else end
        for piece in self._pieces(starts[index], offset, bound):
            if piece.offset >= offset:
                return False
            if piece.item is not None and piece.next > offset:
                return True
        return False

    def _find_end(self, segment: int, start: int) -> int:
        """Offset behind the last segment's items and damages, without a torn item."""
        file_end = segment + max(self._path(segment).stat().st_size - SEGMENT_HEADER_BYTES, 0)
        end = segment
        if start == file_end:  # the store has read all of it
            return start
        for piece in self._pieces(segment, start, file_end):
            if not piece.is_cut:
                end = piece.next
        return end

    def _pieces(self, segment: int, offset: int, end: int) -> Iterator[Piece]:
        """Pieces of a segment from the item on that begins at an offset, else from its first one.

        An offset of another log may be anywhere in an item.
        """
        with _opened(self._path(segment), os.O_RDONLY) as file:
            first = next(walk(file, segment, offset, end), None) if offset > segment else None
            is_item = first is not None and first.item is not None
            yield from walk(file, segment, offset if is_item else segment, end)

    def _mend_end(self, start: int) -> None:
        """Cut a torn item off the last segment, and make what the store has not durable anew."""
        segment = self._starts[-1]
        path = self._path(segment)
        size = path.stat().st_size
        if size < SEGMENT_HEADER_BYTES:
            return  # the next group replaces it
        torn = size - SEGMENT_HEADER_BYTES - (self._end - segment)
        if torn:
            _log.warning("%d torn bytes are cut off %s", torn, path)
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            end = SEGMENT_HEADER_BYTES + self._end - segment
            os.ftruncate(file, end)
            at = os.lseek(file, SEGMENT_HEADER_BYTES + max(start - segment, 0), os.SEEK_SET)
            while at < end:
                content = os.pread(file, min(_COPY_BYTES, end - at), at)
                write_all(file, [content])
                at += len(content)
            _sync(file)
            sync_folder(self._folder)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    # --- writing ----------------------------------------------------------------------------

    def append(self, item: Item) -> "Future[int]":
        """Append an item; see `Appends.append`."""
        self._last_append_s = time.monotonic()
        return self._submit(pack(item))

    def roll(self) -> "Future[int]":
        """Begin a new file, so that a trim can remove all items that were appended before.

        An erasure needs it: in a log without traffic the last file would stay for ever.

        Returns:
            Done once the file is there, with its offset: `trim` of it or of a later offset removes
            every item before it. Fails as that of `append` does.
        """
        return self._submit(None)

    def _submit(self, packed: PackedItem | None) -> "Future[int]":
        future: Future[int] = Future()
        # Running: a receiver whose client has gone cancels what it waits for, and the item is
        # written all the same.
        future.set_running_or_notify_cancel()
        with self._wanted:
            if not self._is_closed:
                self._waiting.append(_Waiting(packed, future))
                self._wanted.notify()
                return future
        future.set_exception(TransientError(f"the log {self._folder} is closed"))
        return future

    def _run(self) -> None:
        while (group := self._next_group()) is not None:
            items = [each for each in group if each.packed is not None]
            if items:
                self._try(items, self._write)
            if (
                len(items) < len(group) or not group
            ):  # a wish; or a try, as nothing could be written
                self._try([each for each in group if each.packed is None], self._begin_anew)

    def _next_group(self) -> list[_Waiting] | None:
        """Everything that waits, once something does; nothing for a try; None at the end."""
        with self._wanted:
            self._wanted.wait_for(
                lambda: bool(self._waiting) or self._is_closed, RETRY_S if self._fault else None
            )
            if not self._waiting and self._is_closed:
                return None
            group, self._waiting = self._waiting, []
            return group

    def _try(
        self, group: Sequence[_Waiting], work: Callable[[Sequence[_Waiting]], list[int]]
    ) -> None:
        """Do what a group waits for, and answer each of it."""
        try:
            offsets = work(group)
        except Exception as error:  # noqa: BLE001 no memory either: the thread must go on
            self._fail(group, error)
            return
        if self._fault:
            self._fault = ""
            _log.info("the log %s is written again", self._folder)
        with self._synced:
            self._synced.notify_all()
        for waiting, offset in zip(group, offsets, strict=True):
            waiting.future.set_result(offset)

    def _write(self, group: Sequence[_Waiting]) -> list[int]:
        """Make the items of a group durable; the offset behind each."""
        parts: list[bytes | memoryview] = []
        offsets: list[int] = []
        end = self._end
        for each in group:
            if each.packed is not None:
                parts += each.packed.parts(end)
                end += each.packed.size_bytes
            offsets.append(end)
        if self._file < 0 or self._end - self._starts[-1] >= self._segment_bytes:
            self._make_segment(parts)
        else:
            write_all(self._file, parts)
            self._sync(self._file)
        self._end = end
        return offsets

    def _begin_anew(self, group: Sequence[_Waiting]) -> list[int]:
        """Begin a segment, unless the last one has no items; the offset of it for each."""
        if self._file < 0 or self._starts[-1] < self._end:
            self._make_segment(())
        return [self._end] * len(group)

    def _make_segment(self, parts: Sequence[bytes | memoryview]) -> None:
        """Begin a segment at the end of the log with these bytes, and make it durable.

        A segment without items has the same name; it is replaced.
        """
        self._leave_file()
        path = self._path(self._end)
        partial = path.with_name(path.name + _PARTIAL)
        partial.unlink(missing_ok=True)
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(file, [segment_header(self._end, self._identity), *parts])
            self._sync(file)
            partial.replace(path)
            sync_folder(self._folder)
        except BaseException:
            os.close(file)
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
        self._file = file
        with self._lock:
            if self._starts[-1:] != (self._end,):
                self._starts = (*self._starts, self._end)

    def _sync(self, file: int) -> None:
        began = time.perf_counter()
        _sync(file)
        self._on_sync(time.perf_counter() - began)

    def _leave_file(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            with contextlib.suppress(OSError):  # all that counts of it is synced
                os.close(file)

    def _fail(self, group: Sequence[_Waiting], error: Exception) -> None:
        """Leave the file as one that is not written to again, and fail what the group waits for."""
        if self._file >= 0:
            with contextlib.suppress(OSError):  # what stays is not read, and cut at the next start
                os.ftruncate(self._file, SEGMENT_HEADER_BYTES + self._end - self._starts[-1])
            self._leave_file()
        if not self._fault:
            _log.warning("cannot write the log %s: %s", self._folder, error)
        self._fault = str(error) or type(error).__name__
        for waiting in group:
            waiting.future.set_exception(
                TransientError(f"cannot write the log {self._folder}: {self._fault}")
            )

    # --- reading ----------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int) -> Chunk:
        """Read items in order; see `Log.read`."""
        entries: list[Entry] = []
        gaps: list[Gap] = []
        at, end = offset, self._end  # before the segments: those have all that is before it
        while at < end and not entries:
            starts = self._starts
            index = bisect_right(starts, at) - 1
            following = starts[index + 1] if index + 1 < len(starts) else end
            bound = min(following, end)
            if index < 0:
                at = _add_gap(gaps, at, bound)
                continue
            path = self._path(starts[index])
            try:
                with _opened(path, os.O_RDONLY) as file:
                    for piece in walk(file, starts[index], at, bound, max_bytes):
                        if piece.item is None:
                            _add_gap(gaps, at, piece.next)
                        else:
                            entries.append(Entry(at, piece.next, piece.item))
                        at = piece.next
            except FileNotFoundError:
                if starts[0] == self._starts[0]:  # else it was trimmed meanwhile
                    at = _add_gap(gaps, at, bound)
            except OSError as error:
                raise TransientError(f"cannot read {path}: {error}") from error
        for gap in gaps:
            _log.error(
                "%d bytes of the log %s from offset %d on are damaged or gone, with their items",
                gap.size_bytes, self._folder, gap.offset,
            )  # fmt: skip
        return Chunk(entries, at, gaps, at != offset and at in self._starts)

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Wait until something lies behind an offset; see `Log.wait`."""
        with self._synced:
            self._synced.wait_for(lambda: self._end > offset or self._is_closed, timeout_s)
            return self._end > offset

    # --- care -------------------------------------------------------------------------------

    def trim(self, offset: int) -> None:
        """Remove what the store has; see `Log.trim`.

        A removal that a power cut takes back, or that fails, is made up for by the next trim.
        Appends do not wait for it: a large file takes some milliseconds.
        """
        if self._can_trim(offset):
            self._before_trim(max(each for each in self._starts if each <= offset))
        try:
            while self._can_trim(offset):
                first = self._starts[0]
                self._path(first).unlink(missing_ok=True)
                with self._lock:
                    if self._starts[0] == first:  # else another thread was here
                        self._starts = self._starts[1:]
        except OSError as error:
            _log.warning("cannot trim the log %s: %s", self._folder, error)

    def _can_trim(self, offset: int) -> bool:
        starts = self._starts
        return not self._pins and len(starts) > 1 and starts[1] <= offset

    @contextlib.contextmanager
    def pinned(self) -> Generator[None]:
        """Have no trim remove anything for a time, in which a copy is made."""
        with self._lock:
            self._pins += 1
        try:
            yield
        finally:
            with self._lock:
                self._pins -= 1

    def last_append_s(self) -> float:
        """Time of the last append; see `Log.last_append_s`."""
        return self._last_append_s

    @property
    def begin(self) -> int:
        """Oldest offset that can be read."""
        return self._starts[0]

    @property
    def end(self) -> int:
        """Offset behind the last item that is synced."""
        return self._end

    @property
    def size_bytes(self) -> int:
        """Size of the files."""
        sizes = 0
        for start in self._starts:
            with contextlib.suppress(FileNotFoundError):  # trimmed meanwhile
                sizes += self._path(start).stat().st_size
        return sizes

    @property
    def fault(self) -> str:
        """Reason that nothing can be appended now; empty if something can, as far as known."""
        return self._fault

    def close(self) -> None:
        """Write what waits, and end."""
        with self._wanted:
            self._is_closed = True
            self._wanted.notify()
        self._thread.join()
        with self._synced:
            self._synced.notify_all()
        self._leave_file()

    def _path(self, start: int) -> Path:
        return segment_path(self._folder, start)


def _add_gap(gaps: list[Gap], offset: int, following: int) -> int:
    """Note bytes that cannot be read, as one gap with those before them; the offset behind."""
    if gaps and gaps[-1].next == offset:
        offset = gaps.pop().offset
    gaps.append(Gap(offset, following - offset))
    return following


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Generator[int]:
    """A file for the time of one use: a segment that is trimmed is not open for longer."""
    file = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


def _sync(file: int) -> None:
    """Make the bytes of a file durable."""
    if sys.platform == "darwin":  # where fsync leaves them to the drive's own memory
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(file)


def sync_folder(folder: Path) -> None:
    """Make the names of a folder's files durable."""
    with _opened(folder, os.O_RDONLY | os.O_DIRECTORY) as file:
        os.fsync(file)
