"""The file of a spool. A damaged one is followed by a new one with what can be read of it."""

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scouter.transport.sqlite_connection import SqliteConnection, transaction

_APPLICATION_ID: Final = 0x5350_4F4C
_WAIT_S: Final = 5.0
_SCHEMA: Final = (
    """CREATE TABLE waiting (
        id INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL, count INTEGER NOT NULL,
        payload BLOB NOT NULL, checksum INTEGER NOT NULL)""",
    # taken: id of the last row that is being delivered; untold: drops as JSON
    "CREATE TABLE state (taken INTEGER NOT NULL, untold TEXT NOT NULL)",
    "INSERT INTO state VALUES (0, '[]')",
)
_FORM: Final = ("auto_vacuum=INCREMENTAL",)
_SETTINGS: Final = (
    "synchronous=NORMAL", "cell_size_check=ON", "journal_size_limit=4194304",
    "cache_size=-256",  # KiB
)  # fmt: skip
_NAME: Final = re.compile(r"spool-([1-9][0-9]*)\.sqlite")
_DAMAGES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NO_ROOM: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
_COPY: Final = "INSERT OR IGNORE INTO waiting VALUES (?, ?, ?, ?, ?)"
_UP: Final = "SELECT * FROM waiting WHERE id > ? ORDER BY id LIMIT 1"
_DOWN: Final = "SELECT * FROM waiting WHERE id < ? ORDER BY id DESC LIMIT 1"


def newest(folder: Path) -> Path:
    """The file of the spool now, though it may not be there yet."""
    found = (_NAME.fullmatch(path.name) for path in folder.glob("spool-*.sqlite"))
    return _file(folder, max((int(name[1]) for name in found if name), default=1))


def connection_to(path: Path) -> SqliteConnection:
    """A connection that opens a spool's file when it is first used."""
    return SqliteConnection(
        path,
        application_id=_APPLICATION_ID,
        schema=_SCHEMA,
        wait_s=_WAIT_S,
        settings=_SETTINGS,
        form=_FORM,
    )


def is_damage(error: sqlite3.Error) -> bool:
    """True if SQLite says that a file's bytes are not what it wrote."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGES


def is_no_room(error: sqlite3.Error) -> bool:
    """True if the disk, or what this user may have of it, has no room for a write."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code in _NO_ROOM or code & 0xFF == sqlite3.SQLITE_FULL


def text_of(data: bytes) -> str:
    """A text in the file; damage in one row must not keep others from being read."""
    return data.decode(errors="replace")


def follow(damaged: Path) -> int:
    """Make the file that follows a damaged one, which stays for people to look at.

    It gets its name, by which the processes find it, when it is complete. No file that a process
    has open is renamed: SQLite knows the log beside a file by its name.

    Returns:
        Least number of lost rows.
    """
    number = int(damaged.stem.removeprefix("spool-"))
    making = damaged.with_name("spool.making")
    for path in (making, Path(f"{making}-wal"), Path(f"{making}-shm")):
        path.unlink(missing_ok=True)
    with contextlib.closing(connection_to(making)) as file, file.use() as db, transaction(db):
        lost = _copy(damaged, db)
    making.rename(_file(damaged.parent, number + 1))
    _file(damaged.parent, number - 1).unlink(missing_ok=True)
    return lost


def _file(folder: Path, number: int) -> Path:
    return folder / f"spool-{number}.sqlite"


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
