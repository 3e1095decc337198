"""One partition of a fleet's store: its owner commits until another one has taken it."""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from collector.fleet.database import Address, ConflictError, Session
from collector.fleet.whole import Whole, share_of
from collector.fleet.writing import Writing, Written
from collector.key_filter import KeyFilter
from collector.metrics import Totals
from collector.store.commit import Commit
from collector.store.reads import Rows
from collector.store.rows import Scope
from collector.store.tombstones import ErasedKind, Tombstone
from scouter.errors import TransientError

_BITS_EACH: Final = 24
"""Bits of a filter for each hash in it."""
_RECORDED: Final = """
    SELECT trace_hash FROM records WHERE received_ns >= $1 AND trace_hash IS NOT NULL
    UNION
    SELECT r.trace_hash FROM evaluations e JOIN records r
        ON r.space = e.space AND r.uid = e.record_uid
    WHERE e.evaluated_ns >= $1 AND r.trace_hash IS NOT NULL
"""
_FENCE: Final = """
    SELECT epoch, owner, low_seq FROM public.partitions WHERE part = $1 FOR NO KEY UPDATE
"""
_LEAVE: Final = """
    UPDATE public.partitions SET log_offset = $2, low_seq = $3, received_ns = $4, last_seq = $5,
        behind_since_ns = $6
    WHERE part = $1
"""
_BEHIND: Final = """
    UPDATE public.partitions SET low_seq = $3, behind_since_ns = $4 WHERE part = $1 AND epoch = $2
"""


class FencedError(TransientError):
    """Another owner has the partition: nothing is written.

    Args:
        part: The partition.
        owner: Who has it.
    """

    def __init__(self, part: int, owner: str) -> None:
        super().__init__(f"partition {part} belongs to {owner} now: nothing is written here")
        self.part, self.owner = part, owner

    def __reduce__(self) -> tuple[type["FencedError"], tuple[int, str]]:
        return FencedError, (self.part, self.owner)


class Share(Writing):
    """One partition, from `FleetStore.take`; reads see nothing of other partitions.

    Args:
        whole: The store of all partitions.
        part: The partition.
        row: Its epoch, offset, oldest commit that is needed, newest arrival, last commit, and since
            when it has been behind.
        writer: For commits.
        reader: For reads.
        address: The database.
    """

    def __init__(
        self,
        whole: Whole,
        part: int,
        row: Sequence[int],
        writer: Session,
        reader: Session,
        address: Address,
    ) -> None:
        super().__init__(address, writer)
        self.whole: Final = whole
        """The store of all partitions."""
        self.part = part
        self.epoch: Final = row[0]
        """Number of its owner: each has a higher one than the one before."""
        _, self.offset, self.low_seq, self.received_ns, self._seq, self._behind_ns = row
        self._noted = self.low_seq, self._behind_ns
        """As PostgreSQL has them."""
        self._owner = ""
        self.is_reopened = False
        """True if a record waits again that was put aside. The next commit raises `ConflictError`,
        so that the worker begins anew; where none comes its owner has it begin anew."""
        self._reader, self._reading = reader, threading.Lock()
        try:
            self._fresh_marks()
        except BaseException:
            self.close()
            raise

    # --- reads -------------------------------------------------------------------------------

    def _read(self, sql: str, parameters: Sequence[object]) -> Rows:
        with self._reading:
            return self._reader.read(sql, parameters)

    def last_seq(self) -> int:
        """Number of the last commit of this partition."""
        if self._is_alone:
            return self._newest()
        return self._seq

    def stored_records(self, space: str, uids: Iterable[str]) -> Mapping[str, str]:
        """The digests of the stored records among some, by uid; of all partitions."""
        return self.whole.stored_records(space, uids)

    def recorded_traces(self, since_ns: int) -> KeyFilter:
        """The hashes of the traces of records that came, or were evaluated, since a time.

        Cost: linear in these records, about 3 µs each.
        """
        rows = self.read_for_work(_RECORDED, [since_ns])
        bits = 1 << max(3, (_BITS_EACH * len(rows)).bit_length())
        found = KeyFilter(bits)
        found.add_all(number for (number,) in rows)
        return found

    def totals(self) -> Totals:
        """All counts as of the last commit; of all partitions."""
        return self.whole.totals()

    @property
    def is_fenced(self) -> bool:
        """True once another owner was found."""
        return bool(self._owner)

    # --- writes ------------------------------------------------------------------------------

    def need_from(self, seq: int) -> None:
        """Let retention take out what the join does not need any more; the worker, with no commit.

        Args:
            seq: The oldest commit that is needed. A later commit, or `report_behind`, stores it.
        """
        self.low_seq = seq

    def report_behind(self, since_ns: int | None) -> None:
        """Say since when the partition has been behind; to be called again and again.

        It is stored with the next commit, or at once where none is on its way.

        Args:
            since_ns: Nanoseconds since the epoch; None if it is not behind.

        Raises:
            FencedError: Another owner has it.
            TransientError: PostgreSQL takes nothing now.
        """
        self._behind_ns = since_ns or 0
        wanted = self.low_seq, self._behind_ns
        if wanted == self._noted or not self._writing.acquire(blocking=False):
            return
        try:
            if self._now is None:
                with self._writer.transaction():
                    self._fence()
                    wanted = self.low_seq, self._behind_ns
                    self._writer.read(_BEHIND, [self.part, self.epoch, *wanted])
                self._noted = wanted
        finally:
            self._writing.release()

    def _fence(self) -> None:
        if self._owner:
            raise FencedError(self.part, self._owner)
        ((epoch, owner, low_seq),) = self._writer.read(_FENCE, [self.part])
        if epoch != self.epoch:
            self._owner = owner
            raise FencedError(self.part, owner)
        if low_seq < self._noted[0]:
            self.low_seq, self._noted = low_seq, (low_seq, self._noted[1])
            self.is_reopened = True

    def _begin(self) -> None:
        if self.is_reopened:
            self.is_reopened = False
            raise ConflictError("a record waits again that was put aside: the worker begins anew")

    def _check(self, commit: Commit, fresh: Sequence[Tombstone]) -> None:
        """Look whether evaluations may have read what was erased since.

        Raises:
            ConflictError: Some may have: they are made again.
        """
        spaces = {each.space for each in fresh if each.kind is not ErasedKind.RECORD}
        of_any = {each.space for each in fresh}
        for row in commit.evaluations:
            has_read = row.reads_spans and row.space in spaces
            if has_read or (row.scope is Scope.SESSION and row.space in of_any):
                raise ConflictError(
                    f"something was erased in space {row.space!r}: what was judged meanwhile is"
                    " judged again"
                )

    def _news(self, seq: int, commit: Commit) -> None:
        number = self.whole.partitions
        known = {
            (row.space, row.uid): row.session_id or row.uid
            for row in commit.records
            if not row.lacks_session
        }
        settled = {(row.space, row.uid): row.session_id for row in commit.settled if row.session_id}
        rows = [
            (share_of(space, session_id, number), space, uid)
            for (space, uid), session_id in (known | settled).items()
        ]
        if rows:
            self._copy("session_news", seq, list(zip(*rows, strict=True)))

    def _leave(self, written: Written) -> None:
        ends = written.ends
        written.behind_ns = self._behind_ns
        self._writer.read(
            _LEAVE,
            [
                self.part,
                ends.offset,
                ends.low_seq,
                ends.received_ns,
                written.seq,
                written.behind_ns,
            ],
        )

    def _landed(self, written: Written) -> None:
        super()._landed(written)
        self._seq = written.seq
        self._noted = written.ends.low_seq, written.behind_ns

    def _need_days(self, days: Collection[int]) -> None:
        self.whole.need_days(days)

    def _forget_days(self) -> None:
        self.whole.forget_days()

    def close(self) -> None:
        """Close its connections; the partition stays its owner's until another one takes it."""
        with suppress(TransientError):
            self._writer.close()
            self._reader.close()
