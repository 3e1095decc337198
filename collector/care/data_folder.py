"""A data folder that is open: the store and the log, which begin, are copied and end together."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from collector.log.file_log import FileLog
from collector.log.offline import copy_log, log_identity
from collector.store.database import MEMORY_BYTES
from collector.store.file_store import FileStore
from collector.store.files import OLD_FILE, refuse_old_file, store_files
from collector.store.opening import LostDataError
from scouter.errors import ConfigError

_log: Final = logging.getLogger(__name__)
LOG_FOLDER: Final = "log"
"""Folder of the log inside a data folder."""


class DataFolder:
    """The store and the log of a folder; see `open_data`.

    Args:
        store: The store.
        log: The log in front of it.
    """

    def __init__(self, store: FileStore, log: FileLog) -> None:
        self.store: Final = store
        self.log: Final = log

    def has_rests(self) -> bool:
        """Say whether bytes of what was erased may still be in the folder."""
        return self.store.has_rests()

    def backup(self, folder: Path) -> None:
        """Copy store and log as they are at one moment; a collector can be started on the copy.

        Whatever was acknowledged before this call is in it, and nothing of what was erased.

        Args:
            folder: Must not have a store.

        Raises:
            ConfigError: It has one, or cannot be written.
            TransientError: The copy failed, for instance for want of room; nothing is left of it.

        Cost: needs the disk that the rows take; linear in it, about 25 s for each gigabyte.
        """
        refuse_store(folder)
        offset = 0

        def note() -> None:
            nonlocal offset
            offset = self.store.offset

        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.log.pinned():
                self.store.copy_to(folder, note)
                copy_log(self.log, offset, folder / LOG_FOLDER, self.store.identity)
        except OSError as error:
            raise ConfigError(f"cannot write {folder}: {error.strerror or error}") from error

    def size_bytes(self) -> int:
        """Bytes that hold rows and items."""
        return self.store.size_bytes() + self.log.size_bytes

    def file_bytes(self) -> int:
        """Size on disk of store and log."""
        return self.store.file_bytes() + self.log.size_bytes

    def close(self) -> None:
        """Write what waits, and close both."""
        self.log.close()
        self.store.close()


def open_data(
    folder: Path,
    memory_bytes: int = MEMORY_BYTES,
    *,
    accept_loss: bool = False,
    on_sync: Callable[[float], None] = lambda seconds: None,
) -> DataFolder:
    """Open the store and the log of a folder.

    Args:
        folder: The folder, which is made if it is not there.
        memory_bytes: Memory that DuckDB may use.
        accept_loss: Go on with what is left, where something is gone or damaged.
        on_sync: Called with the seconds that each sync of the log takes, in its thread.

    Raises:
        ConfigError: The folder cannot be used, another process has it open, or another version
            wrote it.
        LostDataError: The store lacks something that was committed; nothing was changed.
        LostLogError: The log lacks something that the store has not; nothing was changed.
    """
    refuse_old_file(folder)
    identity = None if store_files(folder) else log_identity(folder / LOG_FOLDER)
    if identity is not None:
        what = f"the store in {folder} is gone, and its log is there"
        if not accept_loss:
            raise LostDataError(folder, what)
        _log.error("going on without what was lost: %s", what)
    store = FileStore(folder, memory_bytes, accept_loss=accept_loss, identity=identity)
    try:
        log = FileLog(
            folder / LOG_FOLDER,
            store.offset,
            identity=store.identity,
            accept_loss=accept_loss,
            before_trim=store.note_totals,
            on_sync=on_sync,
        )
    except BaseException:
        store.abandon()
        raise
    if log.lost is not None:
        store.lose(offset=log.begin)
    return DataFolder(store, log)


def refuse_store(folder: Path) -> None:
    """Check that a backup can be made in a folder.

    Raises:
        ConfigError: It has a store.
    """
    for path in (*store_files(folder), folder / LOG_FOLDER, folder / OLD_FILE):
        if path.exists():
            raise ConfigError(f"{path} exists; give the backup an empty folder")
