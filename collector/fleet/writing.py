"""Commits to PostgreSQL: each is one transaction on a connection of its own, and has a number."""

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, Final

from collector.fleet.database import Address, NoDayError, Session, UnknownEndError, insist, plain
from collector.fleet.schema import ALONE, DAY_NS, FLIGHT, NOBODY, PARTED, columns_of
from collector.store.bodies import compress
from collector.store.commit import Columns, Commit, commit_columns
from collector.store.reads import Change, Rows
from collector.store.store import Store
from collector.store.tombstones import ErasedKind, Tombstone, Tombstones
from scouter.errors import TransientError

_UNKNOWN_S: Final = 10.0
"""Longest wait for PostgreSQL, to ask it whether a commit is stored whose end nobody knows."""

_ERASED: Final = "SELECT seq, space, kind, key_hash FROM public.erased WHERE seq > $1"


@dataclass(slots=True, kw_only=True)
class Ends:
    """What a commit leaves behind it."""

    offset: int
    low_seq: int
    received_ns: int
    oldest_ns: int | None = None
    """Time of arrival of the oldest thing in it; None without any."""


@dataclass(slots=True, kw_only=True)
class Written:
    """A commit within a transaction."""

    seq: int
    ends: Ends
    rows: Commit | None = None
    behind_ns: int = 0


@dataclass(slots=True)
class _Transaction:
    """One that is under way."""

    began: float
    is_alone: bool
    written: list[Written] = field(default_factory=list[Written])


class Writing(Store):
    """A store on PostgreSQL as far as whole and share are alike; any thread may use it.

    Args:
        address: The database.
        writer: A connection for writes.
    """

    def __init__(self, address: Address, writer: Session) -> None:
        self.part: int = NOBODY
        """The partition whose rows it writes."""
        self.offset, self.low_seq, self.received_ns = 0, 0, 0
        self.tombstones = Tombstones(())
        self._address: Final = address
        self._writer: Final = writer
        self._writing: Final = threading.RLock()
        self._now: _Transaction | None = None
        self._thread: int | None = None
        """The thread whose reads are part of the transaction."""
        self._unknown: list[Written] = []
        """Commits of which nobody knows whether they are stored."""
        self._done: Written | None = None
        """One of those that is stored, and will be requested again."""
        self._erased_seq = 0
        """The marks of this commit and earlier ones are known."""
        self._fault = ""
        self._committed_at = time.monotonic()
        self._observe: Callable[[float], None] = lambda seconds: None

    # --- reads -------------------------------------------------------------------------------

    @abstractmethod
    def _read(self, sql: str, parameters: Sequence[object]) -> Rows:
        """Run a read outside of a transaction."""

    @abstractmethod
    def _need_days(self, days: Collection[int]) -> None:
        """Have tables for some days."""

    @abstractmethod
    def _forget_days(self) -> None:
        """Another process may have dropped a day's tables."""

    def _fence(self) -> None:
        """Look at the beginning of a transaction whether it may write."""

    def _begin(self) -> None:
        """Look at the beginning of a commit whether what its rows were made of still holds."""

    def _parts(self, table: str, columns: Columns) -> Iterable[int]:
        """The partitions of rows."""
        del table, columns
        return repeat(self.part)

    def _news(self, seq: int, commit: Commit) -> None:
        """Write what else follows from the rows of a commit."""

    def _check(self, commit: Commit, fresh: Sequence[Tombstone]) -> None:
        """Look whether rows were made of what was erased since."""

    def _need_again(self, low_seq: int) -> None:
        """Have the rows of a commit needed again, whoever joins them."""

    def _leave(self, written: Written) -> None:
        """Write what a commit leaves behind it."""

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read of people's; see `Reads`. Inside `alone` it is part of the transaction."""
        if threading.get_ident() == self._thread:
            return self._writer.read(sql, parameters)
        return self._read(sql, parameters)

    def read_for_work(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """The same for whoever writes."""
        return self.read(sql, parameters)

    # --- writes ------------------------------------------------------------------------------

    @contextmanager
    def alone(self) -> Generator[None]:
        """No commit of anybody comes between what is read and what is written inside.

        All of it is one transaction: what `write` takes inside is durable at the end.
        """
        with self._writing:
            if self._now is None:
                with self._transaction(is_alone=True):
                    yield
            else:
                yield

    def commit(self, rows: Commit) -> int:
        """Store rows, and how far the log was read, in one transaction.

        Returns:
            The number of the commit; it is durable then.

        Raises:
            ConflictError: The rows do not fit any more to what is stored.
            DataError: A value cannot be stored, however often it is tried.
            TransientError: The store takes nothing now; a later try may work.
        """
        with self._writing:
            self._learn()
            if self._done is not None and self._done.rows is rows:
                seq, self._done = self._done.seq, None
                return seq
            self._need_days({row.received_ns // DAY_NS for row in rows.spans})
            # Before the transaction: it ends if nothing comes for long, and others wait for it.
            packed = {row.body: compress(row.body) for row in rows.bodies}
            if self._now is not None:
                return self._commit(rows, packed)
            with self._transaction():
                return self._commit(rows, packed)

    def _commit(self, rows: Commit, packed: Mapping[bytes, bytes]) -> int:
        self._begin()
        fresh = self._fresh_marks()
        sifted = self.tombstones.sift(rows)
        self._check(sifted, fresh)
        sifted = self.counted(sifted)
        arrived = [row.received_ns for row in (*sifted.spans, *sifted.records, *sifted.letters)]
        before = self._before
        ends = Ends(
            offset=before.offset if sifted.offset is None else sifted.offset,
            low_seq=before.low_seq if sifted.low_seq is None else sifted.low_seq,
            received_ns=max([before.received_ns, *arrived]),
            oldest_ns=min(arrived, default=None),
        )
        seq = self._number()
        for change in (
            *self.without_replaced(sifted.replaced, seq), *self.with_settled(sifted.settled)
        ):  # fmt: skip
            change(self._writer)
        pack = partial(_packed, packed)
        for table, columns in commit_columns(sifted, pack):
            more = [_arrivals(sifted)] if table == "bodies" else []
            self._copy(table, seq, [*columns, *more])
        self._news(seq, sifted)
        self._end(Written(seq=seq, ends=ends, rows=rows))
        return seq

    @property
    def _before(self) -> Ends:
        """What the commit before this one leaves."""
        if self._now is not None and self._now.written:
            return self._now.written[-1].ends
        return Ends(offset=self.offset, low_seq=self.low_seq, received_ns=self.received_ns)

    def write(
        self,
        tables: Mapping[str, Sequence[Sequence[object]]],
        changes: Sequence[Change] = (),
        low_seq: int | None = None,
    ) -> int:
        """Make changes and append rows; see `Reads`."""
        with self._writing:
            if self._now is not None:
                return self._write(tables, changes, low_seq)
            with self._transaction():
                return self._write(tables, changes, low_seq)

    def _write(
        self,
        tables: Mapping[str, Sequence[Sequence[object]]],
        changes: Sequence[Change],
        low_seq: int | None,
    ) -> int:
        seq = self._number()
        for change in changes:
            change(self._writer)
        for table, rows in tables.items():
            if rows:
                self._copy(table, seq, list(zip(*rows, strict=True)))
        before = self._before
        low = before.low_seq if low_seq is None else min(before.low_seq, low_seq)
        if low_seq is not None:
            self._need_again(low_seq)
        ends = Ends(offset=before.offset, low_seq=low, received_ns=before.received_ns)
        self._end(Written(seq=seq, ends=ends))
        return seq

    @contextmanager
    def _transaction(self, *, is_alone: bool = False) -> Generator[None]:
        """A transaction of this thread, which has the lock of this store."""
        self._learn()
        now = _Transaction(time.monotonic(), is_alone=is_alone)
        try:
            with self._writer.transaction():
                self._now, self._thread = now, threading.get_ident()
                shared = "" if is_alone else "_shared"
                self._writer.read(f"SELECT pg_advisory_xact_lock{shared}({ALONE})")
                self._fence()
                yield
        except UnknownEndError as error:
            self._now = self._thread = None
            self._fault = str(error)
            if not self._found_out(now.written):
                raise
        except TransientError as error:
            self._fault = str(error)
            raise
        finally:
            self._now = self._thread = None
        for each in now.written:
            self._landed(each)
        self._fault = ""
        if now.written:
            self._committed_at = time.monotonic()
            self._observe(self._committed_at - now.began)

    def _found_out(self, written: list[Written]) -> bool:
        """Ask whether a transaction is stored of which nobody knows the end."""
        if not written:
            return False
        try:
            return insist(lambda: self._is_stored(written[-1].seq), _UNKNOWN_S)
        except TransientError:
            self._unknown = written  # the next one asks again, before it writes anything
            raise

    def _learn(self) -> None:
        """Find out whether the commits are stored of which nobody knew the end."""
        if not self._unknown:
            return
        if self._is_stored(self._unknown[-1].seq):
            for each in self._unknown:
                self._landed(each)
            self._done = self._unknown[-1]
        self._unknown = []

    def _is_stored(self, seq: int) -> bool:
        # Its transaction may not be over yet: then it has the lock of its number.
        self._writer.read(f"SELECT pg_advisory_xact_lock({FLIGHT}, {seq % 2**31})")
        return bool(self._writer.read("SELECT 1 FROM public.commits WHERE seq = $1", [seq]))

    def _landed(self, written: Written) -> None:
        """Take note of a commit that is stored."""
        ends = written.ends
        self.offset, self.low_seq, self.received_ns = ends.offset, ends.low_seq, ends.received_ns

    def _fresh_marks(self) -> list[Tombstone]:
        """The marks that were not known; no commit comes between them and this transaction."""
        rows = self._writer.read(_ERASED, [self._erased_seq])
        fresh = _marks(rows)
        self._erased_seq = max([self._erased_seq, *(seq for seq, *_ in rows)])
        self.tombstones.add_all(fresh)
        return fresh

    def marks_after(self, seq: int) -> list[Tombstone]:
        """The marks of what later commits than one have erased."""
        return _marks(self.read(_ERASED, [seq]))

    def _number(self) -> int:
        ((seq,),) = self._writer.read("SELECT public.next_commit()")
        return seq

    def _newest(self) -> int:
        """The last commit inside `alone`, where none but this one's own is on its way."""
        ((seq,),) = self._writer.read("SELECT public.newest_number()")
        return seq

    @property
    def _is_alone(self) -> bool:
        """True if this thread is inside `alone`."""
        now = self._now
        return now is not None and now.is_alone and threading.get_ident() == self._thread

    def _copy(self, table: str, seq: int, columns: Columns) -> None:
        """Append rows to a table.

        Args:
            table: Its name.
            seq: Their commit.
            columns: Values of all columns but the commit and the partition.

        Raises:
            DataError: A text has half a character, or a number more than 64 bits.
        """
        part = [self._parts(table, columns)] if table in PARTED else []
        kinds = [kind for _, kind in columns_of(table)[1:]]
        filled = [_plain(kind, each) for kind, each in zip(kinds, columns, strict=False)]
        try:
            self._writer.copy(
                table, zip(repeat(seq, len(columns[0])), *filled, *part, strict=False)
            )
        except NoDayError:
            self._forget_days()
            raise TransientError("retention has taken a day: it is made again") from None

    def _end(self, written: Written) -> None:
        """Finish a commit."""
        ends = written.ends
        self._writer.read(
            "INSERT INTO public.commits VALUES ($1, $2, $3, $4, $5, $6)",
            [written.seq, ends.offset, ends.low_seq, ends.received_ns, ends.oldest_ns, self.part],
        )
        self._leave(written)
        if self._now is not None:
            self._now.written.append(written)

    # --- how it is ---------------------------------------------------------------------------

    def commit_age_s(self) -> float:
        """Seconds since the last commit of this process, or since the store was opened."""
        return time.monotonic() - self._committed_at

    def fault(self) -> str:
        """Reason that the store takes nothing now, as far as known; empty if it takes rows."""
        return self._fault

    @property
    def is_broken(self) -> bool:
        """False: a connection that was lost is made anew."""
        return False

    def observe_commits(self, observe: Callable[[float], None]) -> None:
        """Have the seconds that each commit takes reported, in the thread that commits."""
        self._observe = observe

    def works_here(self) -> None:
        """Nothing: reads of people have connections of their own."""


def _marks(rows: Rows) -> list[Tombstone]:
    return [Tombstone(space, ErasedKind(kind), number) for _, space, kind, number in rows]


def _packed(known: Mapping[bytes, bytes], body: bytes) -> bytes:
    """A body as it is stored; an erasure may have left a part of it."""
    found = known.get(body)
    return compress(body) if found is None else found


def _arrivals(commit: Commit) -> list[int]:
    """Times of arrival of bodies: the newest of their spans."""
    found: dict[tuple[str, str], int] = {}
    for row in commit.spans:
        key = row.space, row.trace_id
        found[key] = max(row.received_ns, found.get(key, 0))
    return [found[row.space, row.trace_id] for row in commit.bodies]


def _plain(kind: str, values: Sequence[Any]) -> Iterable[Any]:
    """Values of a column without NUL."""
    if kind == "TEXT" and "\0" not in "".join(filter(None, values)):
        return values
    return map(plain, values) if kind.startswith("TEXT") else values
