"""Which backups were made of a store: a short list in its data folder."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from collector.storage.span_log import sync_folder

FILE_NAME: Final = "backups.json"
"""Name of the list inside a data folder."""
UNFINISHED: Final = 2**62
"""The last commit of a backup that is being made, or was given up: nobody knows what it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBackup:
    """One backup, as it was made; somebody may have moved or removed it since."""

    path: str
    made_ns: int
    seq: int
    """The last commit that is in it."""


def known_backups(data: Path) -> list[KnownBackup]:
    """All backups that were made of a store, oldest first; an unreadable list is an empty one."""
    try:
        items: list[dict[str, Any]] = json.loads((data / FILE_NAME).read_text(encoding="utf-8"))
        return [KnownBackup(**each) for each in items]
    except (OSError, ValueError, TypeError):
        return []


def note_backup(data: Path, backup: KnownBackup) -> None:
    """Add a backup to the list, in place of one at the same path.

    Raises:
        OSError: The list cannot be written.
    """
    others = [each for each in known_backups(data) if each.path != backup.path]
    _write(data, [*others, backup])


def holding(backups: Iterable[KnownBackup], first_seq: int | None) -> list[KnownBackup]:
    """Those that hold something which came in with a commit, or after it, and are still there.

    One that is not where it was made may be anywhere: it is named as well, unless its folder's
    own parent is there and it is not.
    """
    if first_seq is None:
        return []
    return [each for each in backups if each.seq >= first_seq and _may_be_there(Path(each.path))]


def _may_be_there(path: Path) -> bool:
    return path.exists() or not path.parent.exists()


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
