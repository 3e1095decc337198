"""The start of a store: what is gone, older, damaged or of another folder is refused, not hidden.

A start refuses such a folder and leaves it as it is. A start that accepts the loss puts aside what
cannot be used, and goes on with what is left.
"""

import logging
import re
from collections import Counter
from pathlib import Path
from typing import Final

from collector.metrics import RECEIVED, TotalKey, TotalName, Totals
from collector.store.database import Database
from collector.store.files import DamagedStoreError, store_files
from collector.store.mark import Mark, read_mark
from scouter.errors import ConfigError

_log: Final = logging.getLogger(__name__)
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

    @property
    def known(self) -> Mark | None:
        """What the store had, where something of it is missing; None if nobody knows it."""
        return self.mark if self.lost else None

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
