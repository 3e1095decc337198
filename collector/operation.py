"""Orders to a running collector: erasure and backup."""

import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from collector.access.tokens import TokenFile
from collector.care.data_folder import (
    DataFolder,
    KnownBackup,
    known_backups,
    note_backup,
    pass_on,
    refuse_store,
    still_there,
)
from collector.judging.answers import Answers
from collector.store.erase import Erased, EraseTarget
from collector.store.ledger import copy_ledger
from scouter.agent.ledger import LedgerError
from scouter.errors import ConfigError, TransientError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """Counts of what was erased, and the backups that still hold it."""

    erased: Erased
    is_gone: bool
    """True if no file holds any of it, as far as that is known."""
    backups: Sequence[KnownBackup]
    """Backups that were made before, and may hold some of it.

    A stored item does not tell its first arrival: a better span has taken the place of another, a
    letter was replayed, retention took the older half. So this names every backup that may hold it.
    """


class Eraser(Protocol):
    """The part that erases; see `Worker`."""

    def erase(self, target: EraseTarget) -> "Future[Erased]":
        """Take out everything that a target names, of what was acknowledged before this call."""
        ...


class Orders(Protocol):
    """Everything below the scope `admin` that is more than one read or write of the store."""

    def erase(self, target: EraseTarget) -> Erasure:
        """Take out everything that a target names; no answer shows it from then on.

        Raises:
            ConfigError: It cannot be said which backups there are; nothing is erased then.
            TransientError: The store takes nothing now.
        """
        ...

    def back_up(self, name: str) -> KnownBackup:
        """Make a backup.

        Args:
            name: Of its folder; no path.

        Raises:
            ConfigError: There can be none, or none of this name.
            TransientError: The copy failed, or another one is being made.
        """
        ...


class Erasing:
    """Takes data out of the store, and the answers of judges before it.

    Args:
        eraser: Erases.
        answers: Of judges; None where none are stored.
    """

    def __init__(self, eraser: Eraser, answers: Answers | None) -> None:
        self._eraser, self._answers = eraser, answers

    def erase(self, target: EraseTarget) -> Erased:
        """Take out everything that a target names.

        Raises:
            TransientError: It is not out within a minute, or the store takes nothing now.
        """
        try:
            return self._begin(target).result(_WAIT_S)
        except FutureTimeoutError as error:
            raise TransientError(f"not erased within {_WAIT_S:g} s; ask again", 5) from error

    def _begin(self, target: EraseTarget) -> "Future[Erased]":
        """Take the answers of judges out before the rest, and keep none until that is done."""
        answers = self._answers
        if answers is None:
            return self._eraser.erase(target)
        answers.begin_erasing(target.space)

        def end(done: "Future[Erased]") -> None:
            is_done = not done.cancelled() and done.exception() is None
            answers.end_erasing(target.space, done.result().seq if is_done else 0)

        try:
            erasing = self._eraser.erase(target)
        except BaseException:
            answers.end_erasing(target.space, 0)
            raise
        erasing.add_done_callback(end)  # also where nobody waits for it any more
        return erasing


class Operation:
    """The orders to a collector with a data folder.

    Args:
        files: The data folder.
        eraser: Erases.
        tokens: Go with a backup.
        answers: Of judges; None where none are stored. They go with no backup.
        data: The data folder.
        backups: Folder in which backups are made; None if a request may make none.
        on_erased: Has the bytes removed of what was erased.
    """

    def __init__(
        self,
        files: DataFolder,
        eraser: Eraser,
        tokens: TokenFile,
        answers: Answers | None,
        *,
        data: Path,
        backups: Path | None,
        on_erased: Callable[[], None] = lambda: None,
    ) -> None:
        self._files, self._tokens = files, tokens
        self._erasing, self._on_erased = Erasing(eraser, answers), on_erased
        self._data, self._backups = data, backups
        self._backing_up = threading.Lock()

    def erase(self, target: EraseTarget) -> Erasure:
        """Take out everything that a target names; no answer shows it from then on."""
        known_backups(self._data)
        erased = self._erasing.erase(target)
        self._on_erased()
        return Erasure(
            erased=erased,
            is_gone=not self._files.has_rests(),
            backups=still_there(known_backups(self._data)),
        )

    def back_up(self, name: str) -> KnownBackup:
        """Copy the store and its tokens into a new folder below the one that is set for it.

        Args:
            name: Of the folder; no path.

        Raises:
            ConfigError: No folder is set, the name is none, or it is in use.
            TransientError: The copy failed, or another one is being made.
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
        if not self._backing_up.acquire(timeout=_WAIT_S):
            raise TransientError("another backup is being made; ask again", 5)
        try:
            return self._back_up(self._backups / name)
        finally:
            self._backing_up.release()

    def _back_up(self, folder: Path) -> KnownBackup:
        refuse_store(folder)  # its own entry stays as it is
        made = KnownBackup(path=str(folder.resolve()), made_ns=time.time_ns())
        try:
            # First: what is erased from now on may be in it, and what was before is taken out.
            note_backup(self._data, made)
            self._files.backup(folder)
            self._tokens.copy_to(folder)
            copy_ledger(self._data, folder)
            pass_on(self._data, folder)
        except (OSError, LedgerError) as error:
            raise TransientError(f"the backup into {folder} failed: {error}") from error
        return made
