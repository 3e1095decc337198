"""The table of a spool: what waits, in one SQLite file that all processes of a folder share.

    folder/spool-1.sqlite     the rows, oldest first; beside it SQLite's log
    folder/delivering.lock    held by the process that delivers, until nothing waits or it dies

One process at a time delivers what all of them wrote. The others wait for the lock with rows of
their own in the table, so that one of them goes on where that process is killed.
"""

import contextlib
import json
import os
import sqlite3
import threading
import uuid
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from scouter.errors import ConfigError, TransientError
from scouter.transport.drops import NONE_DROPPED, Count, Dropped, joined, left_of, report_of
from scouter.transport.guard import GUARD
from scouter.transport.spool.earlier import bring_over
from scouter.transport.spool.file import (
    connection_to,
    follow,
    is_damage,
    is_no_room,
    newest,
    text_of,
)
from scouter.transport.spool.lock import FileLock
from scouter.transport.spool.stats import counts_of
from scouter.transport.sqlite_connection import ForeignFileError, transaction

FULL: Final = "spool_full"
"""Dropped as the oldest, to make room."""
CORRUPT: Final = "spool_corrupt"
"""Dropped because the bytes on disk were damaged."""
_FOLDER_MODE: Final = 0o700
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


_KINDS: Final = {b"R": Kind.RECORD, b"S": Kind.SPANS}
"""Kinds of frames that an earlier version wrote."""


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
    """Damaged rows between them; each held at least one record or span."""
    file: int
    """Number of the file that they were read from."""

    @property
    def items(self) -> int:
        """Records or spans in it."""
        return sum(row.items for row in self.rows)


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
        self._leading: FileLock | None = None
        self._sender: Final = uuid.uuid4().hex[:16]
        self._lock = threading.RLock()
        self._lost: Counter[str] = Counter()  # here, by reason
        self._written: Counter[str] = Counter()  # of them, those that the file has
        self._reported_sum: Counter[str] = Counter()  # those that it has once this is committed
        self._gone = 0, 0  # file and last id of rows that are delivered, but not removed yet
        with errors_of(folder):
            folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            _refuse_shared(folder)
            for frames, drops in bring_over(folder):
                self.tell(_read(drops))
                rows = [Row(_KINDS[kind], items, payload) for kind, items, payload in frames]
                if rows:
                    self.append(rows, NONE_DROPPED)

    def look(self) -> tuple[bool, Dropped]:
        """Tell whether something waits, and what the far side is still to be told of."""
        with self._opened() as db:
            gone = self._remove_gone(db)
            query = "SELECT EXISTS (SELECT 1 FROM waiting WHERE id > ?), untold FROM state"
            waits, untold = db.execute(query, (gone,)).fetchone()
        return bool(waits), _read(json.loads(untold))

    def append(self, rows: Sequence[Row], dropped: Dropped) -> None:
        """Keep rows, at least one; the oldest ones make room and are counted.

        Args:
            rows: Records or spans.
            dropped: Counts of drops that the far side is told with them.

        Raises:
            TransientError: The disk refuses; nothing was kept.
        """
        with self._lock:
            with self._opened() as db, self._reported(db):
                lost = Counter({FULL: self._make_room(db, _insert(db, rows))})
                self._report(db, lost, dropped)
            self._count(lost)
        self._counts.add(written=sum(row.items for row in rows))

    def told(self, dropped: Dropped) -> None:
        """Forget what the far side knows now."""
        if dropped:
            with self._opened() as db, self._reported(db):
                self._report(db, Counter(), told=dropped)

    def tell(self, dropped: Dropped) -> None:
        """Have the far side told of drops."""
        if dropped:
            with self._opened() as db, self._reported(db):
                self._report(db, Counter(), dropped)

    def lead(self) -> bool:
        """Become the one that delivers; False if another one does."""
        if self._leading is None:
            with errors_of(self._folder), contextlib.suppress(BlockingIOError):
                self._leading = FileLock(self._folder / "delivering.lock")
        return self._leading is not None

    def oldest(self) -> Batch | None:
        """The rows to deliver next, for who leads; None if nothing waits.

        Ends with `settle` or `put_back`.
        """
        with self._opened() as db:
            gone = self._remove_gone(db)
            batch = Batch((), 0, 0, self._file.number)
            with _room_or_not(), transaction(db):
                query = "SELECT * FROM waiting WHERE id > ? ORDER BY id"
                batch = _gather(db.execute(query, (gone,)), batch.file)
                if batch.last:
                    db.execute("UPDATE state SET taken=?", (batch.last,))
            if batch.last:
                return batch
        with self._opened() as db, _room_or_not():
            if _number(db, "freelist_count") > _SHRINK_PAGES:
                # As a script: `execute` would end after the first page.
                db.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")
        self._stop_leading()
        return None

    def _remove_gone(self, db: sqlite3.Connection) -> int:
        """Remove delivered rows that the disk had no room to remove; returns the last such id."""
        gone = self._gone[1] if self._gone[0] == self._file.number else 0
        if gone:
            with _room_or_not():
                db.execute("DELETE FROM waiting WHERE id<=?", (gone,))
                self._gone = 0, 0
        return gone

    def settle(self, batch: Batch, told: Dropped, refused: Mapping[str, int]) -> None:
        """Remove rows that were delivered.

        A full disk takes no removal, either. The rows are passed over then, and removed once there
        is room; a process that ends before delivers them again.

        Args:
            batch: The rows.
            told: Counts of drops that the far side was told with them.
            refused: Records and spans that it will never take, by reason.
        """
        lost = Counter({CORRUPT: batch.lost, **refused})
        with self._lock:
            with self._opened() as db, _room_or_not(), self._reported(db):
                if batch.file == self._file.number:  # else its ids are those of a damaged file
                    self._gone = batch.file, batch.last
                    db.execute("DELETE FROM waiting WHERE id<=?", (batch.last,))
                self._report(db, lost, told=told)
            self._count(lost)
        self._counts.add(delivered=batch.items - sum(refused.values()))

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
        lock, self._leading = self._leading, None
        if lock is not None:
            lock.close()

    @contextlib.contextmanager
    def _opened(self) -> Generator[sqlite3.Connection]:
        with errors_of(self._folder):
            with self._lock:
                if self._file.path != (path := newest(self._folder)):
                    self._file.close()
                    self._file = connection_to(path)
                file = self._file
            try:
                with file.use() as db:
                    db.text_factory = text_of
                    yield db
            except sqlite3.Error as error:
                if is_damage(error):
                    self._begin_anew(file.path, error)
                raise

    def _begin_anew(self, damaged: Path, error: sqlite3.Error) -> None:
        """Leave a damaged file behind, unless another process has done it."""
        with contextlib.closing(FileLock(self._folder / "mending.lock")):
            if newest(self._folder) != damaged:
                return
            rows = follow(damaged)
        GUARD.refuse("spool", CORRUPT, f"{damaged}: {error}; what can be read of it is kept")
        lost = Counter({CORRUPT: rows})
        with self._lock:
            with self._opened() as db, self._reported(db):
                self._report(db, lost)
            self._count(lost)

    def _report(
        self,
        db: sqlite3.Connection,
        lost: Counter[str],
        dropped: Dropped = NONE_DROPPED,
        told: Dropped = NONE_DROPPED,
    ) -> None:
        """Write down what the far side is to be told of, less what it was told."""
        before = _read(json.loads(db.execute("SELECT untold FROM state").fetchone()[0]))
        self._reported_sum = self._lost + lost
        here = report_of(self._sender, self._reported_sum, self._written)
        after = joined(left_of(before, told), dropped, here)
        if after != before:
            text = json.dumps([[*key, *count] for key, count in after.items()])
            db.execute("UPDATE state SET untold=?", (text,))

    @contextlib.contextmanager
    def _reported(self, db: sqlite3.Connection) -> Generator[None]:
        """Commit with the report of what was lost here so far."""
        with transaction(db):
            yield
        self._written = self._reported_sum

    def _count(self, lost: Counter[str]) -> None:
        self._lost += lost
        self._counts.drop(lost)

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


@contextlib.contextmanager
def _room_or_not() -> Generator[None]:
    """Go on without a write for which the disk has no room."""
    try:
        yield
    except sqlite3.Error as error:
        if not is_no_room(error):
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


def _refuse_shared(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise ConfigError(
            f"spool {folder}: other users can write to it; use a folder of this user's own, "
            f"or chmod 700 it"
        )


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


def _read(untold: Iterable[Any]) -> Dropped:
    return {(who, reason): Count(told, total) for who, reason, told, total in untold}


def _number(db: sqlite3.Connection, pragma: str) -> int:
    found: int = db.execute(f"PRAGMA {pragma}").fetchone()[0]
    return found
