"""Counts of the database's rows, kept in a file beside it: a loss is noticed, and can be counted.

A line of the file is a checksum and JSON. The first line has the counts of all spaces. Each commit
adds a line with its number and the counts that it changed. So a torn or damaged line loses only its
own counts. A line is written after its commit is on the disk. So the file is never ahead of a whole
database, and need not be synced itself. A power cut may leave it behind the database; then it
reports no loss.
"""

import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from collector.judging.ledger import LEDGER_NAME
from collector.metrics import RECEIVED, TotalKey, TotalName, Totals
from collector.storage.log.span_log import sync_folder
from collector.store.mark import TOKENS_NAME

_log: Final = logging.getLogger(__name__)
FILE_NAME: Final = "tally.jsonl"
"""Name of the file inside a data folder; no backup has one."""
_BESIDE: Final = (TOKENS_NAME, LEDGER_NAME)
"""Files without which a collector starts, and does something else than before."""
_FULL_BYTES: Final = 64 * 1024
"""Bytes of lines added by commits, after which the file is written anew."""
_RETRY_COMMITS: Final = 1000
"""Commits after which a file that could not be written is tried again."""
_KIND_OF: Final = {name: kind for kind, name in RECEIVED.items()}
_GONE: Final = frozenset({TotalName.EXPIRED, TotalName.ERASED, TotalName.LOST})
KINDS: Final = tuple(RECEIVED)
Kind = tuple[str, str]
"""Space, and one of `KINDS`."""


class Held(NamedTuple):
    """Counts of one space and kind."""

    received: int = 0
    """Ever accepted."""
    gone: int = 0
    """Part of `received` that expired, was erased or was lost."""


@dataclass(slots=True, kw_only=True)
class Told:
    """Content of a tally file."""

    seq: int = 0
    """Number of the last commit."""
    held: dict[Kind, Held] = field(default_factory=dict[Kind, Held])
    files: frozenset[str] = frozenset()
    """Names of the files beside the database that existed."""
    is_damaged: bool = False
    """True if a line before the last one cannot be read."""


def read_tally(folder: Path) -> Told | None:
    """Read the tally file of a data folder; None without one.

    Raises:
        OSError: It cannot be read.
    """
    try:
        *lines, last = (folder / FILE_NAME).read_bytes().split(b"\n")
    except FileNotFoundError:
        return None
    told = Told(is_damaged=not lines)
    for line in lines:
        content = _read_line(line)
        if content is None:
            told.is_damaged = True
            continue
        told.seq = max(told.seq, content.seq)
        told.files |= frozenset(content.files)
        told.held |= {(space, kind): Held(*counts) for space, kind, *counts in content.held}
    del last  # torn, if it is anything
    return told


def held_of(totals: Totals) -> dict[Kind, Held]:
    """The counts by space and kind among those of the store."""
    received: defaultdict[Kind, int] = defaultdict(int)
    gone: defaultdict[Kind, int] = defaultdict(int)
    for key, n in totals.items():
        if key.name in _KIND_OF:
            received[key.space, _KIND_OF[key.name]] += n
        elif key.name in _GONE and key.label in KINDS:
            gone[key.space, key.label] += n
    return {key: Held(received[key], gone[key]) for key in received.keys() | gone.keys()}


class Tally:
    """Writes the file. The thread that commits uses it, and nobody else.

    Args:
        folder: The data folder.
        files: Files beside the database that are gone, which nobody has accepted.
    """

    def __init__(self, folder: Path, files: Iterable[str] = ()) -> None:
        self._folder, self._path = folder, folder / FILE_NAME
        self._files = set(files)
        self._held: dict[Kind, Held] = {}
        self._file = -1
        self._added = self._missed = 0

    @property
    def is_due(self) -> bool:
        """True once it is to be written anew: it has grown, or could not be written before."""
        return self._added >= _FULL_BYTES or self._missed >= _RETRY_COMMITS

    def write(self, seq: int, totals: Totals) -> None:
        """Write all anew, and sync it; where that fails the old file stays, and the log says so.

        Args:
            seq: The last commit that has rows.
            totals: Of the store as of then.
        """
        self._held = held_of(totals)
        self._added = self._missed = 0
        self.close()
        partial = self._path.with_name(f"{FILE_NAME}.partial")
        self._files.update(each for each in _BESIDE if _is_there(self._folder / each))
        line = _line(seq, self._held, sorted(self._files))
        try:
            partial.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(partial, flags, 0o600)
            self._append(line)
            os.fsync(self._file)
            partial.replace(self._path)
            sync_folder(self._folder)
        except OSError as error:
            self._give_up(error)

    def note(self, seq: int, deltas: Mapping[TotalKey, int]) -> None:
        """Add what a commit has changed; takes some microseconds.

        Args:
            seq: The commit, which has rows and is on the disk.
            deltas: Its changes of counts.
        """
        changed = held_of(deltas)
        for key, (received, gone) in changed.items():
            before = self._held.get(key, Held())
            changed[key] = Held(before.received + received, before.gone + gone)
        self._held.update(changed)
        if self._file < 0:
            self._missed += 1
            return
        line = _line(seq, changed)
        try:
            self._append(line)
        except OSError as error:
            self._give_up(error)
        self._added += len(line)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, line: bytes) -> None:
        if os.write(self._file, line) < len(line):
            raise OSError("only a part of it was taken")

    def _give_up(self, error: OSError) -> None:
        _log.warning("%s cannot be written, a loss would not be counted: %s", self._path, error)
        self.close()


class _Content(NamedTuple):
    """Content of one line."""

    seq: int
    held: list[tuple[str, str, int, int]]
    files: list[str]


def _line(seq: int, held: Mapping[Kind, Held], files: Sequence[str] = ()) -> bytes:
    text = json.dumps([seq, [[*kind, *counts] for kind, counts in held.items()], files]).encode()
    return b"%08x %s\n" % (crc32(text), text)


def _read_line(line: bytes) -> _Content | None:
    checksum, _, text = line.partition(b" ")
    return _Content(*json.loads(text)) if checksum == b"%08x" % crc32(text) else None


def _is_there(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
