"""A small file beside the store, which tells a start what the store had.

Its first line has the number of the newest commit. It is written over, without a sync, behind
every commit: the file is never ahead of a whole store, and after a power cut perhaps behind it. Its
second line has the identity of the data folder, and the totals that the store had when the log was
trimmed last: what the log has not any more, the store has, or nobody. It names also the files
beside the store without which a collector starts, and does something else than before. No backup
has this file.
"""

import json
import logging
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from collector.judging.ledger import LEDGER_NAME
from scouter.errors import ConfigError

_log: Final = logging.getLogger(__name__)
FILE_NAME: Final = "store.mark"
"""Name of the file inside a data folder."""
TOKENS_NAME: Final = "access.db"
"""File of the tokens."""
_BESIDE: Final = (TOKENS_NAME, LEDGER_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Content of the file."""

    identity: int
    """Of the data folder."""
    seq: int
    """Number of the newest commit."""
    offset: int
    """Of the log, up to which the totals reach."""
    totals: Sequence[Sequence[Any]]
    """What the store counted up to there; a name's columns, and its number."""
    files: frozenset[str]
    """Names of the files beside the store that were there."""


def read_mark(folder: Path) -> Mark | None:
    """Read the file of a data folder; None if it is not there, or damaged.

    Raises:
        ConfigError: It cannot be read.
    """
    path = folder / FILE_NAME
    try:
        newest, _, rest = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    found = _text(rest.strip())
    if found is None:
        _log.warning("%s is damaged: a loss before this start would not be noticed", path)
        return None
    identity, seq, offset, totals, files = json.loads(found)
    seq = max(seq, int(_text(newest) or 0))
    return Mark(identity=identity, seq=seq, offset=offset, totals=totals, files=frozenset(files))


def missing_files(folder: Path, mark: Mark | None) -> frozenset[str]:
    """Names of the files beside the store that were there, and are not."""
    files = frozenset[str]() if mark is None else mark.files
    return files - _present(folder)


def _present(folder: Path) -> frozenset[str]:
    paths = {name: folder / name for name in _BESIDE}
    return frozenset(name for name, path in paths.items() if path.exists() and path.stat().st_size)


class MarkFile:
    """Writes the file; to be used by one thread at a time.

    Args:
        folder: The data folder.
        identity: Its number.
        missed: Files beside the store that are gone, which nobody has accepted.
    """

    def __init__(self, folder: Path, identity: int, missed: Collection[str]) -> None:
        self._folder, self._path, self._identity = folder, folder / FILE_NAME, identity
        # Without a token file nobody is asked for one: whoever removes it wants that.
        self._missed = frozenset(missed) - {TOKENS_NAME}
        self._seq, self._offset, self._totals = 0, 0, list[Sequence[Any]]()
        self._file = -1
        self._is_closed = False

    def write(self, seq: int, offset: int, totals: Sequence[Sequence[Any]]) -> None:
        """Write all anew, and sync it; where that fails the log of the program says so."""
        self._leave()
        self._seq, self._offset, self._totals = seq, offset, list(totals)
        partial = self._path.with_name(f"{FILE_NAME}.partial")
        files = sorted(self._missed | _present(self._folder))
        content = [self._identity, seq, offset, totals, files]
        try:
            partial.unlink(missing_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file = os.open(partial, flags, 0o600)
            text = _line(f"{seq:020d}") + _line(json.dumps(content))
            if os.write(self._file, text) < len(text):
                raise OSError("only a part of it was taken")
            os.fsync(self._file)
            partial.replace(self._path)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            self._give_up(error)

    def note(self, seq: int) -> None:
        """Note the newest commit, which is on the disk; takes some microseconds."""
        self._seq = seq
        if self._file < 0:
            return
        try:
            os.pwrite(self._file, _line(f"{seq:020d}"), 0)
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Write it once more, with the files that came meanwhile, and close it; once."""
        if self._is_closed:
            return
        self._is_closed = True
        self.write(self._seq, self._offset, self._totals)
        self._leave()

    def _leave(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _give_up(self, error: OSError) -> None:
        _log.warning("%s cannot be written, a loss would not be noticed: %s", self._path, error)
        self._leave()


def _line(text: str) -> bytes:
    content = text.encode()
    return b"%08x %s\n" % (crc32(content), content)


def _text(line: bytes) -> bytes | None:
    """The text of a line; None if it is damaged."""
    checksum, _, text = line.partition(b" ")
    return text if checksum == b"%08x" % crc32(text) else None
