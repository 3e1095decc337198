"""What the one who runs a collector may have done while it runs: erase, and back up."""

import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from collector.access.tokens import TokenFile
from collector.pipeline.pipeline import Pipeline
from collector.storage.backups import (
    UNFINISHED,
    KnownBackup,
    holding,
    known_backups,
    note_backup,
)
from collector.storage.duckdb_store import DuckDBStore
from collector.storage.rows import Erased, EraseTarget
from scouter.errors import ConfigError, TransientError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What was erased, and where it still is."""

    erased: Erased
    is_gone: bool
    """True if no file of the data folder holds any of it."""
    backups: Sequence[KnownBackup]
    """That were made before, and hold some of it."""


class Operation:
    """Everything below the scope `admin` that is more than one read or write of the store.

    Args:
        store: The store.
        pipeline: Forgets what is erased.
        tokens: Go with a backup.
        data: The data folder.
        backups: Folder in which backups are made; None if a request may make none.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: DuckDBStore,
        pipeline: Pipeline,
        tokens: TokenFile,
        *,
        data: Path,
        backups: Path | None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store, self._pipeline, self._tokens = store, pipeline, tokens
        self._data, self._backups, self._now_ns = data, backups, now_ns

    def erase(self, target: EraseTarget) -> Erasure:
        """Take out everything that a target names; no answer shows it from then on.

        Raises:
            TransientError: The store takes nothing now.
        """
        try:
            erased = self._pipeline.erase(target).result(_WAIT_S)
        except FutureTimeoutError as error:
            raise TransientError(f"not erased within {_WAIT_S:g} s; ask again", 5) from error
        return Erasure(
            erased=erased,
            is_gone=not self._store.has_rests(),
            backups=holding(known_backups(self._data), erased.first_seq),
        )

    def back_up(self, name: str) -> KnownBackup:
        """Copy the store and its tokens into a new folder below the one that is set for it.

        Args:
            name: Of the folder; no path.

        Raises:
            ConfigError: No folder is set, the name is none, or it is in use.
            TransientError: The copy failed.
        """
        if self._backups is None:
            raise ConfigError(
                "no folder for backups is set; start the collector with --backups FOLDER"
            )
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name[:100]!r} is no name for a backup: letters, digits, dots, dashes and "
                "underscores, at most 100, the first a letter or digit"
            )
        return back_up(self._store, self._tokens, self._data, self._backups / name, self._now_ns())


def back_up(
    store: DuckDBStore, tokens: TokenFile, data: Path, folder: Path, now_ns: int
) -> KnownBackup:
    """Copy a store and its tokens into an empty folder, and take note of it.

    Raises:
        ConfigError: The folder holds a store or cannot be written.
        TransientError: The copy failed.
    """
    made = KnownBackup(path=str(folder.resolve()), made_ns=now_ns, seq=UNFINISHED)
    try:
        note_backup(data, made)  # first: what is erased from now on may be in it
        store.backup(folder)
        tokens.copy_to(folder)
        made = replace(made, seq=store.last_seq())
        note_backup(data, made)
    except OSError as error:
        raise TransientError(f"the backup into {folder} failed: {error}") from error
    return made
