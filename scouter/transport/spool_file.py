"""The file of a spool. A damaged one is followed by a new one with what can be read of it.

A damaged file stays for people to look at, and the next number follows it. No file that a process
has open is renamed: SQLite knows the log beside a file by its name.
"""

import contextlib
import os
import re
import sqlite3
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from scouter.errors import ConfigError, TransientError
from scouter.transport.sqlite_file import ForeignFileError, SqliteConnection, transaction

_NAME: Final = re.compile(r"spool-([1-9][0-9]*)\.sqlite")
_WAIT_S: Final = 5.0
_SCHEMA: Final = (
    """CREATE TABLE waiting (
        id INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL, count INTEGER NOT NULL,
        payload BLOB NOT NULL, checksum INTEGER NOT NULL)""",
    # taken: id of the last row that is being delivered; untold: drops as JSON
    "CREATE TABLE state (taken INTEGER NOT NULL, untold TEXT NOT NULL)",
    "INSERT INTO state VALUES (0, '[]')",
)
_SETTINGS: Final = (
    "synchronous=NORMAL", "cell_size_check=ON", "journal_size_limit=4194304",
    "cache_size=-256",  # KiB
)  # fmt: skip
_DAMAGES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NO_ROOM: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
_COPY: Final = "INSERT OR IGNORE INTO waiting VALUES (?, ?, ?, ?, ?)"
_UP: Final = "SELECT * FROM waiting WHERE id > ? ORDER BY id LIMIT 1"
_DOWN: Final = "SELECT * FROM waiting WHERE id < ? ORDER BY id DESC LIMIT 1"


def make_folder(folder: Path) -> None:
    """Make the folder, or refuse one that other users can write to."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise ConfigError(
            f"spool {folder}: other users can write to it; use a folder of this user's own, "
            f"or chmod 700 it"
        )


def newest(folder: Path) -> Path:
    """The file of the spool now, though it may not be there yet."""
    found = (_NAME.fullmatch(path.name) for path in folder.glob("spool-*.sqlite"))
    return _file(folder, max((int(name[1]) for name in found if name), default=1))


def _file(folder: Path, number: int) -> Path:
    return folder / f"spool-{number}.sqlite"


def connection_to(path: Path) -> SqliteConnection:
    """A connection that opens a spool's file when it is first used."""
    return SqliteConnection(
        path,
        application_id=0x5350_4F4C,
        schema=_SCHEMA,
        wait_s=_WAIT_S,
        settings=_SETTINGS,
        form=("auto_vacuum=INCREMENTAL",),
    )


def text_of(data: bytes) -> str:
    """A text in the file; damage in one row must not keep others from being read."""
    return data.decode(errors="replace")


def is_damage(error: sqlite3.Error) -> bool:
    """True if SQLite says that a file's bytes are not what it wrote."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGES


@contextlib.contextmanager
def room_or_not() -> Generator[None]:
    """Go on without a write for which the disk, or the user's share of it, has no room."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if code not in _NO_ROOM and code & 0xFF != sqlite3.SQLITE_FULL:
            raise


@contextlib.contextmanager
def errors_of(folder: Path) -> Generator[None]:
    """Make one of the SDK's errors of what the file system or SQLite says."""
    try:
        yield
    except ForeignFileError as error:
        raise ConfigError(f"spool {folder}: {error}; name another folder") from error
    except (OSError, sqlite3.Error) as error:
        raise TransientError(f"spool {folder}: {error}") from error


def waiting_in(folder: Path) -> tuple[int, int]:
    """Records and spans that wait in a spool, and their bytes.

    Raises:
        TransientError: The file cannot be read.
    """
    path = newest(folder)
    if not path.exists():
        return 0, 0
    with errors_of(folder), contextlib.closing(connection_to(path)) as file, file.use() as db:
        found = db.execute("SELECT sum(count), sum(length(payload)) FROM waiting").fetchone()
    return found[0] or 0, found[1] or 0


def follow(damaged: Path, making: Path) -> int | None:
    """Make the file that follows a damaged one, with all that can be read of it.

    Args:
        damaged: The file.
        making: Name of the new file until it is complete; no other process uses it.

    Returns:
        Least number of lost rows; None if another process has made it.
    """
    number = int(damaged.stem.removeprefix("spool-"))
    try:
        with contextlib.closing(connection_to(making)) as file, file.use() as db, transaction(db):
            lost = _copy(damaged, db)
        os.link(making, _file(damaged.parent, number + 1))
    except FileExistsError:
        return None
    finally:
        making.unlink(missing_ok=True)
    _file(damaged.parent, number - 1).unlink(missing_ok=True)
    return lost


def _copy(damaged: Path, db: sqlite3.Connection) -> int:
    """Copy rows from both ends up to the damage; returns how many ids lie between."""
    with contextlib.closing(sqlite3.connect(damaged, timeout=_WAIT_S)) as source:
        source.text_factory = text_of
        low = high = 0
        for row in _readable(source, _UP, 0):
            db.execute(_COPY, row)
            low = row[0]
        for row in _readable(source, _DOWN, 2**62):
            if row[0] <= low:
                return 0  # the two have met
            db.execute(_COPY, row)
            high = row[0]
    return max(1, high - low - 1) if high else 1


def _readable(source: sqlite3.Connection, query: str, start: int) -> Iterator[tuple[int, ...]]:
    # One by one: sqlite3 reads a row ahead, and an error there would cost a row that is whole.
    with contextlib.suppress(sqlite3.DatabaseError):
        while (row := source.execute(query, (start,)).fetchone()) is not None:
            yield row
            start = row[0]
