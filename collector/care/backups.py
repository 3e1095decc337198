"""List of the backups that were made of a store, in a short file of its data folder."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from collector.log.file_log import sync_folder
from scouter.errors import ConfigError

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
