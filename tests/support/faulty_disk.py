"""A disk that fails at a chosen call, or where a process ends there, and what a power cut leaves.

The calls go to the real system as well, so that a reader finds there what a page cache would give
it. Beside that, a model follows what is on the platter: the bytes of a file only after a sync of
the file, a name only after a sync of its folder. A sync that fails loses the bytes: they stay in
the page cache, and no later sync writes them (Rebello et al. 2020, "Can Applications Recover from
fsync Failures?").
"""

import errno
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

import pytest

WATCHED: Final = (
    "mkdir", "open", "close", "unlink", "replace", "ftruncate", "write", "writev", "fsync",
    "fdatasync",
)  # fmt: skip
"""Functions of `os` that change something, and those that end a file."""


class Fault(Enum):
    """The way in which a call does not do what it should."""

    ERROR = "error"
    """It fails, and nothing is done."""
    LATE_ERROR = "late error"
    """It fails after it was done, or a write after half of it."""
    SHORT = "short"
    """A write is done by half and says so, the next one fails; other calls fail."""
    END = "end"
    """The process ends before it."""
    LATE_END = "late end"
    """The process ends after it; in a write after half of it, in a sync as that has failed."""


class Loss(Enum):
    """The fate of what is not synced when the power goes."""

    ALL = "all"
    BYTES = "bytes"
    """Names have reached the platter, bytes have not."""
    ZEROS = "zeros"
    """Names and sizes have."""
    LAST_HALF = "last half"
    """Names have, and half of the bytes."""
    FIRST_HALF = "first half"


class ProcessEnded(BaseException):
    """Nothing more happens in this thread."""


@dataclass(slots=True, eq=False)
class _Node:
    """A file, whatever its name is."""

    path: Path
    """Its first name."""
    platter: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=lambda: [])
    """Writes at a place; without bytes, a cut."""

    def content(self, writes: Sequence[tuple[int, bytes | None]]) -> bytearray:
        """The content after some of the writes."""
        content = bytearray(self.platter)
        for at, data in writes:
            if data is None:
                del content[at:]
            else:
                content += bytes(max(0, at - len(content)))
                content[at : at + len(data)] = data
        return content


class FaultyDisk:
    """Follows the calls for one folder, from when it is installed.

    Args:
        folder: The folder; files of other folders are not watched.
        patch: Replaces the functions of `os`.
        at: Number of the call that does not do what it should; the first is 1.
        fault: The way in which it does not.
        number: Of the error, such as `errno.ENOSPC`.
    """

    def __init__(
        self,
        folder: Path,
        patch: pytest.MonkeyPatch,
        *,
        at: int = 0,
        fault: Fault = Fault.ERROR,
        number: int = errno.EIO,
    ) -> None:
        self.folder, self._at, self._fault, self._number = folder, at, fault, number
        self.calls: list[str] = []
        """Names of the calls so far."""
        self.ended = threading.Event()
        """Set when the process has ended; `restart` begins the next one."""
        self._lock = threading.RLock()
        self._files: dict[int, _Node] = {}
        """Open files by descriptor."""
        self._nodes: dict[int, _Node] = {}
        """All files by inode."""
        self._names: dict[str, _Node] = {}
        self._is_named = False
        self._real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in WATCHED}
        for name in WATCHED:
            patch.setattr(os, name, self._watched(name))
        report = threading.excepthook

        def report_others(found: threading.ExceptHookArgs) -> None:
            if found.exc_type is not ProcessEnded:
                report(found)

        patch.setattr(threading, "excepthook", report_others)

    @property
    def has_failed(self) -> bool:
        """Whether the call was reached."""
        return 0 < self._at <= len(self.calls)

    def restart(self) -> None:
        """Begin the next process: the files of the last one are closed, its memory is gone."""
        with self._lock:
            for file in self._files:
                self._real["close"](file)
            self._files.clear()
            self.ended.clear()

    def power_cut(self, folder: Path, loss: Loss) -> None:
        """Write down what is on the platter, in a new folder."""
        with self._lock:
            names, is_there = dict(self._names), self._is_named
            if loss is not Loss.ALL and self.folder.exists():
                names, is_there = self._listed(), True
            if not is_there:
                return
            folder.mkdir()
            for name, node in names.items():
                content = node.content(_kept(node.unsynced, loss))
                if loss is Loss.ZEROS:
                    content += bytes(max(0, len(node.content(node.unsynced)) - len(content)))
                (folder / name).write_bytes(content)

    # --- calls ------------------------------------------------------------------------------

    def _watched(self, name: str) -> Callable[..., Any]:
        def call(first: Any, *rest: Any, **named: Any) -> Any:
            with self._lock:
                if not self._concerns(name, first, rest):
                    return self._real[name](first, *rest, **named)
                if self.ended.is_set():
                    raise ProcessEnded
                self.calls.append(name)
                if len(self.calls) == self._at:
                    return self._fail(name, first, rest, named)
                return self._do(name, first, rest, named)

        return call

    def _fail(self, name: str, first: Any, rest: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Do a call as the fault says."""
        data = _data_of(name, rest)
        is_sync = name in ("fsync", "fdatasync")
        if is_sync and self._fault in (Fault.ERROR, Fault.LATE_END):
            self._files[first].unsynced.clear()
        elif self._fault not in (Fault.ERROR, Fault.END):
            if data is None:
                self._do(name, first, rest, named)
            else:
                written = self._do("write", first, (data[: len(data) // 2],), {})
                if self._fault is Fault.SHORT:
                    self._at, self._fault = self._at + 1, Fault.ERROR
                    return written
        if self._fault in (Fault.END, Fault.LATE_END):
            self.ended.set()
            raise ProcessEnded
        raise OSError(self._number, os.strerror(self._number))

    def _concerns(self, name: str, first: Any, rest: tuple[Any, ...]) -> bool:
        if isinstance(first, int):
            return first in self._files
        if name == "open" and rest[0] & os.O_DIRECTORY:
            return Path(first) in (self.folder, self.folder.parent)
        is_read = name == "open" and not rest[0] & (os.O_WRONLY | os.O_RDWR)
        return not is_read and (Path(first) == self.folder or self.folder in Path(first).parents)

    def _do(self, name: str, first: Any, rest: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Do a call, here and in the model."""
        place = os.lseek(first, 0, os.SEEK_CUR) if name in ("write", "writev") else 0
        result = self._real[name](first, *rest, **named)
        if name == "open":
            found = os.fstat(result)
            if rest[0] & os.O_CREAT:
                self._nodes.pop(found.st_ino, None)  # of a file that was removed
            self._files[result] = self._nodes.setdefault(found.st_ino, _Node(path=Path(first)))
        elif name == "close":
            del self._files[first]
        elif name in ("write", "writev"):
            self._files[first].unsynced.append((place, (_data_of(name, rest) or b"")[:result]))
        elif name == "ftruncate":
            self._files[first].unsynced.append((rest[0], None))
        elif name in ("fsync", "fdatasync"):
            node = self._files[first]
            node.platter = node.content(node.unsynced)
            node.unsynced.clear()
            if node.path == self.folder:
                self._names = self._listed()
            self._is_named |= node.path == self.folder.parent
        return result

    def _listed(self) -> dict[str, _Node]:
        return {each.name: self._nodes[each.stat().st_ino] for each in self.folder.iterdir()}


def _data_of(name: str, rest: tuple[Any, ...]) -> bytes | None:
    """Bytes that a call writes; None if it does not write."""
    if name == "write":
        return bytes(rest[0])
    return b"".join(rest[0]) if name == "writev" else None


def _kept(
    unsynced: Sequence[tuple[int, bytes | None]], loss: Loss
) -> Sequence[tuple[int, bytes | None]]:
    """Writes of a file that have reached the platter without a sync."""
    if loss is Loss.FIRST_HALF:  # of each write
        return [(at, data and data[: len(data) // 2]) for at, data in unsynced]
    if loss is Loss.LAST_HALF:
        return [
            (at, None) if data is None else (at + len(data) // 2, data[len(data) // 2 :])
            for at, data in unsynced
        ]
    return []
