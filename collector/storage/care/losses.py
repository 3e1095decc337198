"""Check at the start for missing or damaged parts of a data folder, so that no loss is hidden.

A start refuses such a folder and leaves it as it is. A start that accepts the loss puts aside what
cannot be used, takes spans back from the span log, and counts the rest as lost.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from collector.metrics import RECEIVED, UNCOUNTED, TotalKey, TotalName, Totals
from collector.storage.care.salvage import salvage
from collector.storage.care.tally import Held, Kind, Told, held_of, read_tally
from collector.storage.duckdb.database import FILE_NAME, DamagedStoreError, Database, explain
from collector.storage.log.span_log import LOG_FOLDER
from collector.store.mark import TOKENS_NAME
from collector.store.opening import LostDataError
from collector.store.sheets import Conservation
from scouter.errors import ConfigError

_log: Final = logging.getLogger(__name__)
_BROKEN_ENTRY: Final = re.compile(r"Corrupt WAL file: entry at byte position (\d+)")


class Losses:
    """Opens the database of a folder, and finds what is missing.

    Args:
        folder: The data folder.
        accept: Go on without what is missing.

    Raises:
        ConfigError: The folder cannot be read.
    """

    def __init__(self, folder: Path, *, accept: bool) -> None:
        self._folder, self._accept = folder, accept
        self._path = folder / FILE_NAME
        self._wal = folder / f"{FILE_NAME}.wal"
        self._whole_wal: Path | None = None
        """The log as it was found, where what is behind a broken entry was cut off."""
        self.found: list[str] = []
        """Descriptions of the missing parts whose loss was accepted."""
        self._of_database = False
        self._found_held: Mapping[Kind, Held] = {}
        self._without_bytes: Mapping[Kind, int] = {}
        try:
            self.told: Told | None = read_tally(folder)
        except OSError as error:
            raise ConfigError(f"cannot open the store {self._path}: {explain(error)}") from error
        files = frozenset[str]() if self.told is None else self.told.files
        self.missing_files = frozenset(each for each in files if not _size(folder / each))
        """Files beside the database that were there."""
        if TOKENS_NAME in self.missing_files:
            _log.warning("%s is gone: nobody is asked for a token", folder / TOKENS_NAME)
        if self.told is not None and self.told.is_damaged:
            _log.warning("the counts beside %s are damaged, and begin anew", self._path)

    @property
    def missed_files(self) -> frozenset[str]:
        """Files of `missing_files` that the next start will miss as well.

        The file of tokens is not among them: whoever removes it wants none.
        """
        return frozenset() if self._accept else self.missing_files - {TOKENS_NAME}

    @property
    def can_count(self) -> bool:
        """True if it is known what the database held."""
        return self.told is not None and not self.told.is_damaged

    @property
    def seq(self) -> int:
        """The last commit that is known to have been made."""
        return 0 if self.told is None else self.told.seq

    def open(self, memory_limit_bytes: int) -> Database:
        """Open the database, or what can be had of it.

        Raises:
            ConfigError: See `Database`.
            LostDataError: It is gone or damaged.
        """
        had_rows = self._had_rows()
        if had_rows and not _size(self._path):
            self._lose(f"{self._path} is gone")
            self._put_aside(self._wal, self._path)
        while True:
            is_known = had_rows and not self.found
            try:
                database = Database(self._folder, memory_limit_bytes, may_be_new=not is_known)
                break
            except DamagedStoreError as error:
                self._mend(error)
        if self._accept and (fresh := salvage(database)) is not None:
            self._of_database = True
            self.found.append(f"{self._path} has damaged blocks")
            database.abandon()
            self._put_aside(self._wal, self._path)
            fresh.replace(self._path)
            database = Database(self._folder, memory_limit_bytes)
        return database

    def check_commits(self, seq: int, totals: Totals) -> None:
        """Find out whether the database has every commit that was made.

        Args:
            seq: Its last one.
            totals: Its counts.

        Raises:
            LostDataError: It has not.
        """
        now = self._found_held = held_of(totals)
        if self._of_database:
            return
        told = {} if self.told is None else self.told.held
        # Also of a start that was accepted, and ended before it had counted what was lost.
        lacking = {kind: n.received - now.get(kind, Held()).received for kind, n in told.items()}
        if self.seq > seq or any(n > 0 for n in lacking.values()):
            records = sum(n for (_, kind), n in lacking.items() if kind == "record" and n > 0)
            self._lose(
                f"{self._path} ends with commit {seq}, and commit {self.seq} was acknowledged; "
                f"{records} records are missing. Its log is gone, or it is an older copy"
            )
        elif self._whole_wal is not None and not self.can_count:
            self._lose(f"{self._wal} has a broken entry, and nothing tells what was behind it")
        elif self._whole_wal is not None:
            _log.warning("%s ended with a torn entry, of nothing acknowledged", self._wal)
            self._whole_wal.unlink()
            self._whole_wal = None

    def check_bytes(self, spans: Mapping[Kind, int]) -> None:
        """Refuse rows without bytes.

        Args:
            spans: By space and kind, how many are in no file of the span log any more.

        Raises:
            LostDataError: There are any.
        """
        self._without_bytes = spans
        if n := sum(spans.values()):
            what = f"files of {self._folder / LOG_FOLDER} are gone, cut or overwritten"
            self._lose(f"{what}: {n} spans were in them", of_database=False)

    def undo(self) -> None:
        """Leave the folder as it was found."""
        if self._whole_wal is not None:
            self._whole_wal.replace(self._wal)

    def deltas(
        self, sheets: Mapping[str, Conservation], damaged_frames: int
    ) -> dict[TotalKey, int]:
        """Compute the corrections of the counts with which each sheet adds up again.

        Retention removes the oldest data first. So the records that it removed, and that are in an
        older copy of the database, will be removed again. Spans come back from the log; these are
        the newest, and the missing ones are the oldest.

        Args:
            sheets: Counts by space, after all spans were taken back, including those without bytes.
            damaged_frames: Requests in the span log that nobody can read.
        """
        found: dict[TotalKey, int] = {}
        for space, sheet in sheets.items() if self.found else ():
            records, spans, events = sheet.records, sheet.spans, sheet.events
            decided = records.evaluated + records.skipped + records.dead_lettered
            there = {
                "record": records.waiting + decided,
                "span": spans.stored - self._without_bytes.get((space, "span"), 0),
                "event": events.stored - self._without_bytes.get((space, "event"), 0),
            }
            for kind, counts in (("record", records), ("span", spans), ("event", events)):
                held = self._held(space, kind)
                gone = counts.expired + counts.erased + counts.lost
                # Spans of which rows were lost, and not the count, were counted again.
                before = self._found_held.get((space, kind), Held()).received
                counted = before if self._of_database else counts.accepted
                accepted = max(held.received, counted, there[kind] + gone)
                missing = accepted - there[kind] - gone
                again = there[kind] if kind == "record" else 0
                expired = min(missing, max(0, held.gone - gone - again))
                found[TotalKey(RECEIVED[kind], space)] = accepted - counts.accepted
                found[TotalKey(TotalName.EXPIRED, space, label=kind)] = expired
                found[TotalKey(TotalName.LOST, space, label=kind)] = missing - expired
        is_counted = self.can_count if self._of_database else not damaged_frames
        if not is_counted:
            found[UNCOUNTED] = 1
        return {key: n for key, n in found.items() if n}

    # --- inside -----------------------------------------------------------------------------

    def _held(self, space: str, kind: str) -> Held:
        return Held() if self.told is None else self.told.held.get((space, kind), Held())

    def _had_rows(self) -> bool:
        if self.seq or self.can_count:
            return self.seq > 0
        log = (self._folder / LOG_FOLDER).glob("*.spans")
        is_left = not self._path.exists() and _size(self._wal)
        return bool(is_left) or any(map(_size, log))

    def _lose(self, what: str, *, of_database: bool = True) -> None:
        if not self._accept:
            raise LostDataError(self._folder, what)
        _log.warning("data was lost: %s", what)
        self.found.append(what)
        self._of_database |= of_database

    def _mend(self, error: DamagedStoreError) -> None:
        """Take away from the files what hinders opening them.

        Raises:
            LostDataError: That would lose something, and nobody has accepted it.
        """
        entry = _BROKEN_ENTRY.search(str(error))
        if entry is not None and self._whole_wal is None and self._wal.exists():
            # Perhaps the power went while it was written: the commits tell whether anything of it
            # was acknowledged.
            whole = self._wal.read_bytes()
            self._whole_wal = self._free_name(self._wal)
            self._wal.replace(self._whole_wal)
            self._wal.touch(mode=0o600)
            self._wal.write_bytes(whole[: int(entry[1])])
            return
        try:
            self._lose(str(error))
        except LostDataError:
            self.undo()
            raise
        if "WAL" in str(error) and _size(self._wal):
            self._put_aside(self._wal)
        else:
            self._put_aside(self._wal, self._path)

    def _put_aside(self, *files: Path) -> None:
        for file in files:
            if _size(file):
                aside = self._free_name(file)
                file.replace(aside)
                _log.warning("%s is now %s; remove it once nobody needs it", file, aside)
            else:
                file.unlink(missing_ok=True)

    def _free_name(self, file: Path) -> Path:
        number = 1
        while (aside := file.with_name(f"{file.name}.damaged-{number}")).exists():
            number += 1
        return aside


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
