"""A data folder that is open, with its store and its log, and the list of its backups."""

import json
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from collector.log.file_log import FileLog, sync_folder
from collector.log.offline import copy_log, log_identity
from collector.store.database import MEMORY_BYTES
from collector.store.file_store import FileStore
from collector.store.files import store_files
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
    for path in (*store_files(folder), folder / LOG_FOLDER):
        if path.exists():
            raise ConfigError(f"{path} exists; give the backup an empty folder")


FILE_NAME: Final = "backups.json"
"""Name of the list inside a data folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBackup:
    """One backup, as it was made; somebody may have moved or removed it since."""

    path: str
    made_ns: int


def known_backups(data: Path) -> list[KnownBackup]:
    """All backups that were made of a store, oldest first; none without a list.

    Raises:
        ConfigError: There is a list, and it cannot be read: nobody can say then which there are.
    """
    path = data / FILE_NAME
    try:
        items: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(items, list):
            raise TypeError("expected a list")
        return [
            KnownBackup(path=each["path"], made_ns=each["made_ns"])
            for each in cast("list[dict[str, Any]]", items)
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"the list of backups {path} cannot be read ({type(error).__name__}: {error}); mend "
            "it, or remove it if no backup is left"
        ) from error


def note_backup(data: Path, backup: KnownBackup) -> None:
    """Add a backup to the list, in place of one at the same path.

    Raises:
        OSError: The list cannot be written.
    """
    others = [each for each in known_backups(data) if each.path != backup.path]
    _write(data, [*others, backup])


def pass_on(data: Path, folder: Path) -> None:
    """Give a backup the list of its store, for the case that it is restored.

    Raises:
        OSError: The list cannot be written.
    """
    _write(folder, known_backups(data))


def take_over(folder: Path, data: Path, made_ns: int) -> None:
    """Let a store that was made of a backup know that one, and those that are in its list.

    Args:
        folder: The backup.
        data: Folder of the new store.
        made_ns: Time of the backup, if it does not tell it itself.

    Raises:
        OSError: The list cannot be written.
    """
    known, path = known_backups(folder), str(folder.resolve())
    if all(each.path != path for each in known):
        known.append(KnownBackup(path=path, made_ns=made_ns))
    _write(data, known)


def still_there(backups: Iterable[KnownBackup]) -> list[KnownBackup]:
    """Keep the backups that may still exist.

    A backup that is not where it was made may have been moved. It is left out only if the parent of
    its folder exists and the folder does not.
    """
    paths = ((each, Path(each.path)) for each in backups)
    return [each for each, path in paths if path.exists() or not path.parent.exists()]


def _write(data: Path, backups: Iterable[KnownBackup]) -> None:
    partial = data / f"{FILE_NAME}.partial"
    text = json.dumps([asdict(each) for each in backups], indent=1)
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    partial.replace(data / FILE_NAME)
    sync_folder(data)
