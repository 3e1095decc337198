"""The table of a spool: what waits, in one SQLite file that all processes of a folder share.

    folder/spool-1.sqlite     the rows, oldest first; beside it SQLite's log

A damaged file stays for people to look at, and the next number follows it with what can be read of
it. No file that a process has open is renamed: SQLite knows the log beside a file by its name.

One process at a time delivers what all of them wrote: the one that has the lock of the folder,
until nothing waits or it dies. The others wait for the lock with rows of their own in the table, so
that one of them goes on where that process is killed.
"""

import contextlib
import json
import os
import re
import sqlite3
import threading
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from scouter.errors import ConfigError, TransientError
from scouter.transport.drops import NONE_DROPPED, Count, Dropped, joined, left_of, report_of
from scouter.transport.guard import GUARD
from scouter.transport.process import watch
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


try:
    import fcntl
except ImportError as missing:  # Windows
    raise ConfigError("a spool needs a system with POSIX file locks") from missing

FULL: Final = "spool_full"
"""Dropped as the oldest, to make room."""
CORRUPT: Final = "spool_corrupt"
"""Dropped because the bytes on disk were damaged."""
_MAX_BATCH_ROWS: Final = 512
_MAX_BATCH_BYTES: Final = 1024 * 1024
_OWN_PAGES: Final = 4
"""An empty file has no more; the bound is one of what waits."""
_SHRINK_PAGES: Final = 256
"""An empty file gives so much room back at the least."""


class Kind(IntEnum):
    """Kinds of payloads."""

    RECORD = 1
    """One record, as JSON."""
    SPANS = 2
    """Spans, as an OTLP `ExportTraceServiceRequest`."""


class Row(NamedTuple):
    """One record, or one request of spans."""

    kind: int
    """A `Kind`."""
    items: int
    """Number of records or spans in it."""
    payload: bytes

    @property
    def checksum(self) -> int:
        """CRC-32 of all of it; SQLite itself has none."""
        return zlib.crc32(self.payload, zlib.crc32(b"%d %d" % (self.kind, self.items)))

    def is_whole(self, checksum: object) -> bool:
        """False if a byte of it was damaged on disk, or of its checksum."""
        try:
            return self.checksum == checksum
        except TypeError:  # the damage has made other types of its values
            return False


class Batch(NamedTuple):
    """The oldest rows: records, or one request of spans."""

    rows: Sequence[Row]
    """Rows of one kind; empty if the file holds nothing but damage here."""
    last: int
    """Id of the last of them."""
    lost: int
    """Damaged rows between them; each had at least one record or span."""
    file: int
    """Number of the file that they were read from."""

    @property
    def items(self) -> int:
        """Records or spans in it."""
        return sum(row.items for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolStats:
    """Counters of this process since it began, and what lies in the folder now."""

    written: int = 0
    """Records and spans that the far side could not take at once."""
    delivered: int = 0
    """Items delivered later, including those that other processes left."""
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    """By reason: `spool_full` (the oldest, for room), `spool_corrupt`, `rejected`, `permanent`,
    `internal`."""
    waiting: int = 0
    """Records and spans in the folder, those of other processes included."""
    waiting_bytes: int = 0


class SpoolCounts:
    """The counters of this process for one folder."""

    def __init__(self) -> None:
        self.after_fork_in_child()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Begin anew: the parent counts its own."""
        self._lock = threading.Lock()
        self._sums: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()

    def add(self, dropped: Mapping[str, int], *, written: int = 0, delivered: int = 0) -> None:
        """Count records and spans, and by reason those that are lost."""
        with self._lock:
            self._sums.update(written=written, delivered=delivered)
            self._dropped += Counter(dropped)

    def stats(self, waiting: int, waiting_bytes: int) -> SpoolStats:
        """A consistent snapshot."""
        with self._lock:
            dropped = dict(self._dropped)
            return SpoolStats(
                **self._sums, dropped=dropped, waiting=waiting, waiting_bytes=waiting_bytes
            )


_COUNTS: Final[dict[Path, SpoolCounts]] = {}


def counts_of(folder: Path) -> SpoolCounts:
    """The counters of a folder; the same ones for all who use it."""
    return _COUNTS.setdefault(folder.absolute(), SpoolCounts())


class SpoolTable:
    """The rows that wait in a folder; safe between threads.

    Args:
        folder: The spool; made if it is not there.
        max_bytes: Bound of what waits.

    Raises:
        ConfigError: Other users can write to the folder, or its file is another program's.
        TransientError: The file system refuses, or the file was damaged.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._counts, self._file = counts_of(folder), connection_to(newest(folder))
        self._leading: int | None = None  # the open folder, locked
        self._sender: Final = uuid.uuid4().hex[:16]
        self._lock = threading.RLock()
        self._lost: Counter[str] = Counter()  # here, by reason
        self._reported: Counter[str] = Counter()  # of them, those that the file has
        self._gone = 0, 0  # file and last id of rows that are delivered, but not removed yet
        watch(self)
        with errors_of(folder):
            make_folder(folder)

    def after_fork_in_child(self) -> None:
        """Let go of the parent's lock without ending it: the copies of an open file share it."""
        if self._leading is not None:
            os.close(self._leading)
            self._leading = None

    def look(self) -> tuple[bool, Dropped]:
        """Tell whether something waits, and what is still to be reported to the far side."""
        with self._opened() as db:
            gone = self._remove_gone(db)
            query = "SELECT EXISTS (SELECT 1 FROM waiting WHERE id > ?), untold FROM state"
            waits, unreported = db.execute(query, (gone,)).fetchone()
        return bool(waits), _read(unreported)

    def append(self, rows: Sequence[Row], dropped: Dropped) -> None:
        """Keep rows, at least one; the oldest ones make room and are counted.

        Args:
            rows: Records or spans.
            dropped: Counts of drops that are reported to the far side with them.

        Raises:
            TransientError: The disk refuses; nothing was stored.
        """

        def insert(db: sqlite3.Connection) -> Counter[str]:
            return Counter({FULL: self._make_room(db, _insert(db, rows))})

        with self._opened() as db:
            lost = self._commit(db, insert, dropped)
        self._counts.add(lost, written=sum(row.items for row in rows))

    def note(self, dropped: Dropped = NONE_DROPPED, known: Dropped = NONE_DROPPED) -> None:
        """Have drops reported to the far side, and forget those that it knows now."""
        if dropped or known:
            with self._opened() as db:
                self._commit(db, dropped=dropped, known=known)

    def lead(self) -> bool:
        """Become the one that delivers; False if another one does."""
        if self._leading is None:
            with errors_of(self._folder):
                folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(folder)
                    return False
            self._leading = folder
        return True

    def oldest(self) -> Batch | None:
        """The rows to deliver next, for who leads; None if nothing waits.

        Ends with `settle` or `put_back`.
        """
        with self._opened() as db:
            gone = self._remove_gone(db)
            batch = Batch((), 0, 0, self._file.number)
            with room_or_not(), transaction(db):
                query = "SELECT * FROM waiting WHERE id > ? ORDER BY id"
                batch = _gather(db.execute(query, (gone,)), batch.file)
                if batch.last:
                    db.execute("UPDATE state SET taken=?", (batch.last,))
            if batch.last:
                return batch
            with room_or_not():
                if _number(db, "freelist_count") > _SHRINK_PAGES:
                    # As a script: `execute` would end after the first page.
                    db.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")
        self._stop_leading()
        return None

    def _remove_gone(self, db: sqlite3.Connection) -> int:
        """Remove delivered rows that the disk had no room to remove; returns the last such id."""
        gone = self._gone[1] if self._gone[0] == self._file.number else 0
        if gone:
            with room_or_not():
                db.execute("DELETE FROM waiting WHERE id<=?", (gone,))
                self._gone = 0, 0
        return gone

    def settle(self, batch: Batch, known: Dropped, refused: Mapping[str, int]) -> None:
        """Remove rows that were delivered.

        A full disk takes no removal, either. The rows are passed over then, and removed once there
        is room; a process that ends before delivers them again.

        Args:
            batch: The rows.
            known: Counts of drops that were reported to the far side with them.
            refused: Records and spans that it will never take, by reason.
        """
        lost = Counter({CORRUPT: batch.lost, **refused})

        def remove(db: sqlite3.Connection) -> Counter[str]:
            if batch.file == self._file.number:  # else its ids are those of a damaged file
                self._gone = batch.file, batch.last
                db.execute("DELETE FROM waiting WHERE id<=?", (batch.last,))
            return lost

        with self._opened() as db:
            totals = self._lost + lost
            with room_or_not():
                self._commit(db, remove, known=known)
            self._lost = totals
        self._counts.add(lost, delivered=batch.items - sum(refused.values()))

    def close(self) -> None:
        """Leave what waits to the next one."""
        self._file.close()
        self._stop_leading()

    def put_back(self) -> None:
        """Let another one deliver, or the oldest rows make room, after a try that failed."""
        with contextlib.suppress(TransientError), self._opened() as db:
            db.execute("UPDATE state SET taken=0")
        self._stop_leading()

    def _stop_leading(self) -> None:
        folder, self._leading = self._leading, None
        if folder is not None:
            fcntl.flock(folder, fcntl.LOCK_UN)  # a fork may be about to copy it
            os.close(folder)

    @contextlib.contextmanager
    def _opened(self) -> Generator[sqlite3.Connection]:
        with self._lock, errors_of(self._folder):
            if self._file.path != (path := newest(self._folder)):
                self._file.close()
                self._file = connection_to(path)
            try:
                with self._file.use() as db:
                    db.text_factory = text_of
                    yield db
            except sqlite3.Error as error:
                if is_damage(error):
                    self._begin_anew(path, error)
                raise

    def _begin_anew(self, damaged: Path, error: sqlite3.Error) -> None:
        """Leave a damaged file behind."""
        rows = follow(damaged, self._folder / f"spool.{self._sender}")
        if rows is None:
            return
        GUARD.refuse("spool", CORRUPT, f"{damaged}: {error}; what can be read of it stays")
        lost = Counter({CORRUPT: rows})
        with self._opened() as db:
            self._commit(db, lambda _: lost)
        self._counts.add(lost)

    def _commit(
        self,
        db: sqlite3.Connection,
        work: Callable[[sqlite3.Connection], Counter[str]] = lambda _: Counter[str](),
        dropped: Dropped = NONE_DROPPED,
        known: Dropped = NONE_DROPPED,
    ) -> Counter[str]:
        """Do something in one transaction with the report of what was lost here so far, and by it.

        Args:
            db: The file.
            work: Returns what it loses, by reason.
            dropped: Counts of drops that are to be reported to the far side, too.
            known: Those that it knows now.

        Returns:
            What `work` returned.
        """
        with transaction(db):
            lost = work(db)
            totals = self._lost + lost
            before = _read(db.execute("SELECT untold FROM state").fetchone()[0])
            here = report_of(self._sender, totals, self._reported)
            after = joined(left_of(before, known), dropped, here)
            if after != before:
                text = json.dumps([[*key, *count] for key, count in after.items()])
                db.execute("UPDATE state SET untold=?", (text,))
        self._lost = self._reported = totals
        return lost

    def _make_room(self, db: sqlite3.Connection, first: int) -> int:
        """Drop the oldest rows before one until the rest fits, but for those on their way."""
        lost = 0
        while self._is_over(db):
            query = "SELECT id, count FROM waiting, state WHERE id > taken AND id < ? ORDER BY id"
            found = db.execute(query + " LIMIT 1", (first,)).fetchone()
            if found is None:
                break
            db.execute("DELETE FROM waiting WHERE id=?", found[:1])
            lost += found[1]
        return lost

    def _is_over(self, db: sqlite3.Connection) -> bool:
        used = _number(db, "page_count") - _number(db, "freelist_count") - _OWN_PAGES
        return used * _number(db, "page_size") > self._max_bytes


def _insert(db: sqlite3.Connection, rows: Sequence[Row]) -> int:
    """Write rows; returns the id of the first one."""
    query = "INSERT INTO waiting (kind, count, payload, checksum) VALUES (?, ?, ?, ?)"
    db.executemany(query, ((*row, row.checksum) for row in rows))
    last: int = db.execute("SELECT last_insert_rowid()").fetchone()[0]
    return last - len(rows) + 1


def _gather(found: Iterable[Any], file: int) -> Batch:
    rows: list[Row] = []
    size = lost = last = 0
    for number, kind, items, payload, checksum in found:
        row = Row(kind, items, payload)
        if not row.is_whole(checksum):
            lost += 1
        elif rows and (
            Kind.SPANS in (kind, rows[0].kind)
            or len(rows) >= _MAX_BATCH_ROWS
            or size + len(payload) > _MAX_BATCH_BYTES
        ):
            break
        else:
            rows.append(row)
            size += len(payload)
        last = number
    return Batch(rows, last, lost, file)


def _read(text: str) -> Dropped:
    return {(who, reason): Count(known, total) for who, reason, known, total in json.loads(text)}


def _number(db: sqlite3.Connection, pragma: str) -> int:
    found: int = db.execute(f"PRAGMA {pragma}").fetchone()[0]
    return found
