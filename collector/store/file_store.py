"""The store of one process: DuckDB in a file of the data folder."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, cast

from collector.key_filter import KeyFilter, places_sql
from collector.metrics import UNCOUNTED, TotalKey, TotalName, Totals
from collector.store.bodies import trace_hash
from collector.store.commit import Commit, arrow_tables, count_rows, rows_table, text_hash
from collector.store.database import MEMORY_BYTES
from collector.store.erase import Gone
from collector.store.files import FIRST_FILE
from collector.store.opening import (
    NOTED,
    TOKENS_NAME,
    Mark,
    MarkFile,
    Opening,
    lost_since,
    missing_files,
)
from collector.store.reads import Change, Connection, Keys, Rows
from collector.store.retention import RestReads, UpkeepReads, remove_before
from collector.store.store import Store
from collector.store.tombstones import ErasedKind, Tombstone, Tombstones
from collector.store.totals import added

_log: Final = logging.getLogger(__name__)
_BITS: Final = 1 << 27
"""Bits of a filter of keys, 16 MB: of 5 million traces it takes one new one in 9,000 for known."""
_KEYS: Final[Mapping[Keys, tuple[str, str]]] = {
    "traces": ("trace_hash", "bodies"),
    "records": ("uid_hash", "records"),
    "recorded": ("trace_hash", "records"),
    "evaluated": ("uid_hash", "evaluations"),
}
"""The columns of which filters are made."""
FEW_ROWS: Final = 10_000
"""Rows from which on DuckDB sets the bits, which takes 45 ms of a filter, however few they are."""
_FREE: Final = 0.25
"""Part of the file that is free before a copy gives it back to the system, at most."""
_DAY_NS: Final = 86_400 * 10**9

_NEWEST: Final = """
    SELECT seq, log_offset, low_seq, received_ns FROM offsets ORDER BY seq DESC LIMIT 1
"""


class FileStore(Store, UpkeepReads, RestReads):
    """The store of one collector.

    Any thread may commit, erase and read.

    Args:
        folder: The data folder, which is made if it is not there.
        memory_bytes: Memory that DuckDB may use.
        accept_loss: Go on with what is left, where something is gone or damaged.
        identity: Number of the folder, if it is known and the store is gone.

    Raises:
        ConfigError: The folder cannot be written, another process has the store open, or another
            version wrote it.
        LostDataError: Something that was committed is gone or damaged; nothing was changed.
    """

    def __init__(
        self,
        folder: Path,
        memory_bytes: int = MEMORY_BYTES,
        *,
        accept_loss: bool = False,
        identity: int | None = None,
    ) -> None:
        self._work_thread: int | None = None
        opening = Opening(folder, accept_loss=accept_loss)
        self._database = opening.open(memory_bytes, identity)
        self.identity: Final = self._database.identity
        """Number of the data folder."""
        newest = self.read_for_work(_NEWEST)
        self._last_seq: int
        self._last_seq, self.offset, self.low_seq, self.received_ns = (
            newest[0] if newest else (0, 0, 0, 0)
        )
        with self._database.with_room():
            self._filters = {keys: self._filter_of(*column) for keys, column in _KEYS.items()}
        self._totals: Totals = self.stored_totals()
        self._before = self.offset, self._totals
        """Offset and totals before the last commit that had something of the log."""
        marks = self.read_for_work("SELECT space, kind, key_hash FROM erased")
        self.tombstones = Tombstones(
            Tombstone(space, ErasedKind(kind), number) for space, kind, number in marks
        )
        mark = opening.mark
        self.missing_files: Final = missing_files(folder, mark)
        """Files beside the store that were there at the last start, and not at this one."""
        if TOKENS_NAME in self.missing_files:
            _log.warning("%s is gone: nobody needs a token", folder / TOKENS_NAME)
        self._mark = MarkFile(folder, self.identity, () if accept_loss else self.missing_files)
        if opening.lost:
            self.lose(mark)
        if opening.lost or mark is None:
            self.note_totals()
        else:
            self._mark.write(self._last_seq, mark.offset, mark.totals)

    def _filter_of(self, column: str, table: str) -> KeyFilter:
        ((rows,),) = self.read_for_work(f"SELECT count({column}) FROM {table}")
        if rows < FEW_ROWS:
            found = KeyFilter(_BITS)
            hashes = self.read_for_work(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")
            found.add_all(number for (number,) in hashes)
            return found
        places = f"SELECT unnest({places_sql(column, _BITS)}) AS n FROM {table}"
        ((bits,),) = self.read_for_work(
            f"SELECT bitstring_agg(n::BIGINT, 0, {_BITS - 1})::BLOB FROM ({places})"
        )
        return KeyFilter(_BITS, bits)

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read of people's; see `Reads`. In the worker's thread it waits for nobody."""
        if threading.get_ident() == self._work_thread:
            return self.read_for_work(sql, parameters)
        return self._database.read(sql, parameters)

    def works_here(self) -> None:
        """Take the reads of this thread for the worker's from now on."""
        self._work_thread = threading.get_ident()

    def read_for_work(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read of the worker's; see `Reads`."""
        return self._database.read_for_work(sql, parameters)

    def last_seq(self) -> int:
        """Number of the last commit; 0 of an empty store."""
        return self._last_seq

    def maybe(self, keys: Keys, hashes: Sequence[int]) -> list[int]:
        """The hashes of keys that may be stored."""
        known = self._filters[keys]
        return [each for each in hashes if known.maybe(each)]

    def recorded_traces(self, since_ns: int) -> KeyFilter:
        """The hashes of the traces of all records that are stored now."""
        del since_ns
        return self._filters["recorded"].copy()

    def totals(self) -> Totals:
        """All counts as of the last commit."""
        return self._totals

    def commit(self, rows: Commit) -> int:
        """Store rows, and how far the log was read, in one transaction; see `Store.commit`."""
        with self._database.alone():
            retained, seq = self.counted(self.tombstones.sift(rows)), self._last_seq + 1
            arrived = (
                row.received_ns for row in (*retained.spans, *retained.records, *retained.letters)
            )
            ends = (
                self.offset if retained.offset is None else retained.offset,
                self.low_seq if retained.low_seq is None else retained.low_seq,
                max(arrived, default=self.received_ns),
            )
            tables = list(arrow_tables(retained, seq))
            changes = [
                *self.without_replaced(retained.replaced, seq),
                *self.with_settled(retained.settled),
            ]
            # First, as who sees a row must find it; of what was never stored they say "maybe".
            for keys, hashes in _hashes_of(retained):
                self._filters[keys].add_all(hashes)
            self._commit(seq, ends, tables, changes)
            self._totals = added(self._totals, retained.totals)
            return seq

    def alone(self) -> AbstractContextManager[None]:
        """No commit comes between what is read and what is written inside."""
        return self._database.alone()

    def write(
        self,
        tables: Mapping[str, Sequence[Sequence[object]]],
        changes: Sequence[Change] = (),
        low_seq: int | None = None,
    ) -> int:
        """Make changes and append rows; see `Reads`."""
        with self.alone():
            seq = self._write(tables, changes, low_seq)
            more = Counter[TotalKey]()
            for name, *parts, n in cast("Iterable[Any]", tables.get("totals", ())):
                more[TotalKey(TotalName(name), *parts)] += n
            self._totals = added(self._totals, more)
            return seq

    def add_up(self) -> None:
        """Put the rows of each total and of each rollup into one; nothing that is read changes.

        Raises:
            TransientError: The store takes nothing now; nothing has changed.

        Cost: linear in the rows of both; commits wait for it.
        """
        with self.alone():
            self._write(*self.sums(self._totals))

    def _write(
        self,
        tables: Mapping[str, Sequence[Sequence[object]]],
        changes: Sequence[Change],
        low_seq: int | None = None,
    ) -> int:
        seq = self._last_seq + 1
        low = self.low_seq if low_seq is None else min(self.low_seq, low_seq)
        filled = [(name, rows_table(name, seq, rows)) for name, rows in tables.items() if rows]
        self._commit(seq, (self.offset, low, self.received_ns), filled, changes)
        return seq

    def _commit(
        self,
        seq: int,
        ends: tuple[int, int, int],
        tables: Sequence[tuple[str, object]],
        changes: Sequence[Change],
    ) -> None:
        """Commit rows, with the values of `offsets` behind them."""
        offset, low_seq, received_ns = ends
        ends = (offset, low_seq, max(received_ns, self.received_ns))
        self._database.transact(changes, [*tables, ("offsets", rows_table("offsets", seq, [ends]))])
        self._last_seq = seq
        if offset != self.offset:
            self._before = self.offset, self._totals
        self.offset, self.low_seq, self.received_ns = ends
        self._mark.note(seq)

    def need_from(self, seq: int) -> None:
        """Let retention take out what the join does not need any more; see `Store.need_from`."""
        self.low_seq = seq

    def note_totals(self, begin: int | None = None) -> None:
        """Note what the store has counted, before the log is trimmed, for a later start.

        Args:
            begin: Offset at which the log will begin, and at which a commit mostly ends.
        """
        with self.alone():
            offset, totals = self.offset, self._totals
            if self._before[0] == begin:
                offset, totals = self._before
            rows = [(*key, n) for key, n in totals.items() if key.name in NOTED]
            self._mark.write(self._last_seq, offset, rows)

    def lose(self, mark: Mark | None = None, offset: int = 0) -> None:
        """Count what was lost, and go on behind it.

        Args:
            mark: What the store had; None if nobody knows it.
            offset: Oldest offset that the log has.

        Raises:
            TransientError: The store takes nothing now.
        """
        with self.alone():
            if mark is None or mark.identity != self.identity:
                self.offset = max(offset, self.offset)
                self.write({"totals": [(*UNCOUNTED, 1)]})
                return
            self._last_seq = max(self._last_seq, mark.seq)  # no number comes twice
            if mark.offset > self.offset:
                lost = lost_since(mark, self._totals)
                self.offset = mark.offset
                self.write({"totals": count_rows(lost)})

    def remove_before(self, time_ns: int) -> int:
        """Take out the commits of which everything came before a time; see `Retention`.

        Commits that the join still needs stay.

        Returns:
            Number of spans that went.

        Raises:
            TransientError: The store takes nothing now; some may be gone.
        """
        return remove_before(self, time_ns, self.low_seq)

    def keep_within(self, max_bytes: int) -> int:
        """Take out the oldest, as `remove_before`, if the rows take more room; and a tenth more.

        Returns:
            Number of spans that went; 0 where the store is small enough.

        Raises:
            TransientError: The store takes nothing now; some may be gone.
        """
        used = self.size_bytes()
        if used <= max_bytes:
            return 0
        time_ns = self.age_at(min(1.0, 1.1 * (1 - max_bytes / used)))
        return 0 if time_ns is None else self.remove_before(time_ns + 1)

    def _rests_of(self, gone: Gone) -> Sequence[Change]:
        return () if gone.is_superseded else (_note_rests,)

    def purge(
        self, until: Callable[[], bool] = lambda: False, erased_to: int | None = None
    ) -> bool:
        """Remove the bytes of what was erased, and give free room back to the system.

        It needs as much disk again as the rows take; commits and reads go on. Without an erasure
        it is done once a quarter of the file is free, or as much as a day of rows takes.

        Args:
            until: Called from time to time; true gives it up.
            erased_to: Only erasures up to this one are done with then, as the log has bytes of
                later ones; by default all are.

        Returns:
            True if it was done; False if nothing was to do, or it was given up.

        Raises:
            TransientError: There is no room on the disk; nothing has changed.

        Cost: see `Database.renew`.
        """
        if not self.has_rests() and self._database.free_ratio() < self._worth():
            return False
        return self._database.renew(until, erased_to)

    def _worth(self) -> float:
        """The part of the file that is free before a copy gives it back; new rows use it else."""
        oldest_ns, newest_ns = self.oldest_ns(), self.newest_ns()
        if oldest_ns is None or newest_ns is None or newest_ns - oldest_ns <= _DAY_NS:
            return _FREE
        return min(_FREE, 1 / (1 + (newest_ns - oldest_ns) / _DAY_NS))

    def checkpoint(self) -> None:
        """Have what was taken out leave its room, to new rows or to `purge`.

        Raises:
            TransientError: It cannot be done now.
        """
        self._database.checkpoint()

    def copy_to(self, folder: Path, at_end: Callable[[], None] = lambda: None) -> None:
        """Copy the store as it is at one commit into a folder; what was erased is not in it.

        Args:
            folder: Is there, and has no store.
            at_end: Called at that commit.

        Raises:
            OSError: The folder cannot be written.
            TransientError: The copy failed, for instance for want of room; nothing is left of it.

        Cost: see `Database.renew`.
        """
        self._database.copy_to(folder / FIRST_FILE, at_end)

    def size_bytes(self) -> int:
        """Bytes that hold rows, which `keep_within` compares."""
        return self._database.used_bytes()

    def file_bytes(self) -> int:
        """Size on disk."""
        return self._database.size_bytes()

    def commit_age_s(self) -> float:
        """Seconds since the last commit, or since the store was opened."""
        return time.monotonic() - self._database.committed_at

    def fault(self) -> str:
        """Reason that the store takes nothing now, as far as known; empty if it takes rows."""
        return self._database.fault

    @property
    def is_broken(self) -> bool:
        """True once the store takes nothing any more, and only a new process helps."""
        return self._database.is_broken

    def observe_commits(self, observe: Callable[[float], None]) -> None:
        """Report to somebody the seconds that each commit takes, in the thread that commits."""
        self._database.on_commit = observe

    def abandon(self) -> None:
        """Close the files as they are."""
        self._mark.close()
        self._database.abandon()

    def close(self) -> None:
        """Write everything into its files and close them."""
        self._database.close()
        self._mark.close()


def _hashes_of(commit: Commit) -> Iterator[tuple[Keys, Iterable[int]]]:
    """Hashes of the keys of a commit."""
    yield "traces", {trace_hash(row.trace_id) for row in commit.bodies}
    yield "records", (text_hash(row.uid) for row in commit.records)
    yield "recorded", (trace_hash(row.trace_id) for row in commit.records if row.trace_id)
    yield "evaluated", (text_hash(row.record_uid) for row in commit.evaluations)


def _note_rests(connection: Connection) -> None:
    connection.execute("INSERT INTO erasures SELECT coalesce(max(seq), 0) FROM offsets", [])
