"""The start of a store: what is gone, older, damaged or of another folder is refused, not hidden.

A start refuses such a folder and leaves it as it is. A start that accepts the loss puts aside what
cannot be used, and goes on with what is left.
"""

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from collector.metrics import RECEIVED, TotalKey, TotalName, Totals
from collector.store.database import Database
from collector.store.files import DamagedStoreError, store_files, sync_folder
from collector.store.ledger import LEDGER_NAME
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
    """Totals of the store up to there; a name's columns, and its number."""
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
        # Without a token file nobody needs one: whoever removes it wants that.
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
            sync_folder(self._folder)
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


NOTED: Final = frozenset({*RECEIVED.values(), TotalName.EXPIRED, TotalName.ERASED, TotalName.LOST})
"""The totals that a mark has: what came in, and what became of it but for what is stored."""
_BROKEN_ENTRY: Final = re.compile(r"Corrupt WAL file: entry at byte position (\d+)")


class LostDataError(ConfigError):
    """Something that was there is gone or damaged, and nobody has said to do without it.

    Args:
        folder: The data folder.
        what: Is missing.
    """

    def __init__(self, folder: Path, what: str) -> None:
        super().__init__(folder, what)
        self.folder, self.what = folder, what

    def __str__(self) -> str:
        return (
            f"data was lost: {self.what}. Nothing was changed. Restore a backup (`scouter collector"
            f" restore`), see `scouter collector check --data {self.folder}`, or start once with "
            "--accept-loss to go on with what is left"
        )


class Opening:
    """Opens the database of a folder, and finds what is missing.

    Args:
        folder: The data folder.
        accept_loss: Go on without what is missing.

    Raises:
        ConfigError: The folder cannot be read.
    """

    def __init__(self, folder: Path, *, accept_loss: bool) -> None:
        self._folder, self._accept = folder, accept_loss
        self._cut: tuple[Path, bytes] | None = None
        """A log of DuckDB's with its whole content, where what is behind a broken entry was cut."""
        self.mark: Final = read_mark(folder)
        self.lost: Final = list[str]()
        """Descriptions of what is missing."""

    def open(self, memory_bytes: int, identity: int | None) -> Database:
        """Open the database, or what can be had of it.

        Args:
            memory_bytes: Memory that DuckDB may use.
            identity: Number of the folder, if it is known and the store is gone.

        Raises:
            ConfigError: See `Database`.
            LostDataError: Something is gone or damaged, and nobody has accepted it.
        """
        if self.mark is not None:
            identity = self.mark.identity
            if not store_files(self._folder):
                self._lose(f"the store in {self._folder} is gone")
        if not store_files(self._folder):
            self._put_aside(*self._folder.glob("store-*.duckdb.wal"))
        while True:
            try:
                database = Database(self._folder, memory_bytes, identity)
                break
            except DamagedStoreError as error:
                self._mend(error)
        try:
            self._compare(database)
        except LostDataError:
            database.abandon()
            if self._cut is not None:
                self._cut[0].write_bytes(self._cut[1])
            raise
        return database

    def _compare(self, database: Database) -> None:
        """Compare what was opened with what was there."""
        mark, store = self.mark, f"the store in {self._folder}"
        if mark is None or self.lost:
            return
        if database.identity != mark.identity:
            self._lose(f"{store} is of another data folder")
        newest = database.newest_commit()
        if newest < mark.seq:
            self._lose(
                f"{store} ends with commit {newest}, and {mark.seq} were made: its file "
                "store-*.duckdb.wal is gone or damaged, or it is an older copy"
            )

    def _lose(self, what: str) -> None:
        if not self._accept:
            raise LostDataError(self._folder, what)
        _log.error("going on without what was lost: %s", what)
        self.lost.append(what)

    def _mend(self, error: DamagedStoreError) -> None:
        """Take away from the files what hinders opening them.

        Raises:
            LostDataError: That would lose something, and nobody has accepted it.
        """
        *_, file = store_files(self._folder)
        log = file.with_name(f"{file.name}.wal")
        entry = _BROKEN_ENTRY.search(str(error))
        if entry is not None and self._cut is None and self.mark is not None and log.exists():
            # Perhaps the power went while it was written: the number of the newest commit tells
            # whether anything of it was acknowledged.
            self._cut = log, log.read_bytes()
            log.write_bytes(self._cut[1][: int(entry[1])])
            return
        if self._cut is not None:
            log.write_bytes(self._cut[1])
            self._cut = None
        self._lose(str(error))
        if "WAL" in str(error) and log.exists() and log.stat().st_size:
            self._put_aside(log)
        else:
            self._put_aside(file, log)

    def _put_aside(self, *files: Path) -> None:
        for file in files:
            if file.exists() and file.stat().st_size:
                number = 1
                while (aside := file.with_name(f"damaged-{number}-{file.name}")).exists():
                    number += 1
                file.replace(aside)
                _log.warning("%s is now %s; remove it once nobody needs it", file, aside)
            else:
                file.unlink(missing_ok=True)


def lost_since(mark: Mark, totals: Totals) -> Counter[TotalKey]:
    """The totals to add for what a mark has and a store has not.

    Args:
        mark: What was there.
        totals: What is there. If it is nothing, what expired and was erased before is counted so.
    """
    kinds = {name: kind for kind, name in RECEIVED.items()}
    found = Counter[TotalKey]()
    for name, *parts, n in mark.totals:
        key = TotalKey(TotalName(name), *parts)
        if key.name in kinds:
            more = max(0, n - totals.get(key, 0))
            found[key] += more
            found[TotalKey(TotalName.LOST, key.space, label=kinds[key.name])] += more
        elif not totals and key.label in RECEIVED:
            found[key] += n
            found[TotalKey(TotalName.LOST, key.space, label=key.label)] -= n
    return found
