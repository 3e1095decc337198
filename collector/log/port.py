"""The log: everything that a collector accepts, in one order, until the store has it.

Receivers append and answer once their item is synced. One worker reads in order and commits rows
together with the offset up to which it has read; then it trims. A queue, not a place to look
things up.

Offsets. An offset is a number of bytes since the log began, and counts every item with its frame,
but no header of a file. An item begins at its `offset` and ends at its `next`, where the following
item begins: `next - offset` is its size on the disk. So for a reader with the offset `at`:

* everything before `at` was read, and `read(at)` goes on behind it; `Chunk.next` is the next `at`;
* `end - at` bytes wait, and nothing waits if `at == end`;
* `begin` is the oldest offset that can still be read: `begin <= at <= end`.

Offsets grow and never repeat: neither after a restart, nor after a failed append, nor after
everything was trimmed. An offset that was stored therefore always means the same place, or one that
is gone.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from scouter.errors import ConfigError


class Kind(IntEnum):
    """The meaning of an item's body."""

    SPANS = 1
    """An OTLP `ExportTraceServiceRequest`, protobuf."""
    LOGS = 2
    """An OTLP `ExportLogsServiceRequest`, protobuf."""
    RECORDS = 3
    """The JSON body of `POST /v1/records`."""
    RECORD = 4
    """One record as JSON."""
    LETTER = 5
    """A dead letter that a receiver made of what it refused; see `collector.items.letters`."""
    DROPS = 6
    """A report of a sender on what it dropped; see `collector.items.drops`."""
    AGAIN = 7
    """A request to let an accepted record wait again that became a dead letter; see
    `collector.items.letters`."""


@dataclass(frozen=True, slots=True)
class Item:
    """One request as it was accepted."""

    kind: Kind
    space: str
    received_ns: int
    """Time of arrival, nanoseconds since the epoch."""
    body: bytes | memoryview
    """Bytes when read; not to be changed after it was appended."""
    source: str = ""
    """The receiver, and of a broker's message its place there: `http`, `kafka:spans:0:17`."""
    behind_ns: int = 0
    """By so much the log was behind the brokers: what they had before is before it in the log."""
    places: Sequence[int] = ()
    """Of a request that was split, for each record here its number in the whole one; empty for a
    whole request. Records that do not say when they were made are in order by it."""

    @property
    def is_of_broker(self) -> bool:
        """True if it came by a broker: others of its trace may lie there unread."""
        return ":" in self.source


@dataclass(frozen=True, slots=True)
class Entry:
    """An item in its place."""

    offset: int
    next: int
    """Offset of the following item."""
    item: Item


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of the log that are damaged or gone, and were passed over.

    After a power cut they may be of items that nobody had got an answer for: that a whole item lies
    behind them does not say so, as a disk writes in any order.
    """

    offset: int
    size_bytes: int

    @property
    def next(self) -> int:
        """Offset behind it."""
        return self.offset + self.size_bytes


@dataclass(frozen=True, slots=True)
class Chunk:
    """The result of one read."""

    entries: Sequence[Entry]
    next: int
    """Offset at which to read on; behind all entries and gaps."""
    damaged: Sequence[Gap] = ()
    """Gaps before, between and behind the entries, in order."""
    ends_file: bool = False
    """True if `next` is where a file ends: once the store has everything before it, that one goes.
    What was counted up to there is then counted exactly, whatever becomes of the store."""


class LostLogError(ConfigError):
    """The log does not go with the store: something that was acknowledged may be gone.

    Args:
        where: Name of the log, such as its folder.
        wanted: Offset up to which the store has everything.
        begin: Oldest offset that the log has; None if nothing of it is left.
        end: Offset behind its last item; None if nothing of it is left.
    """

    def __init__(self, where: str, wanted: int, begin: int | None, end: int | None) -> None:
        super().__init__(where, wanted, begin, end)
        self.where, self.wanted, self.begin, self.end = where, wanted, begin, end

    @property
    def lost_bytes(self) -> int | None:
        """Bytes that were accepted and are gone; None if nobody can know how many.

        If the log begins behind the store, what lies between is gone. If it ends before the store,
        it was removed, or is an older copy: the store has all that this log has, and nobody knows
        what came later. Nor of a log that is another one.
        """
        if self.begin is not None and self.begin > self.wanted:
            return self.begin - self.wanted
        return None

    @property
    def what(self) -> str:
        """The missing part, in words."""
        if self.begin is None or self.end is None:
            return f"the log {self.where} is gone, and the store had read {self.wanted} bytes of it"
        if self.begin > self.wanted:
            return (
                f"the log {self.where} lacks {self.lost_bytes} bytes that the store has not: files "
                "of it are gone"
            )
        if self.end < self.wanted:
            return (
                f"the log {self.where} ends {self.wanted - self.end} bytes before the place up to "
                "which the store has read it: it is an older copy, or of another data folder"
            )
        return (
            f"the log {self.where} has an item across the place up to which the store has read it: "
            "it is of another data folder"
        )

    def __str__(self) -> str:
        return (
            f"data was lost: {self.what}. Nothing was changed. Bring the files back, or start once "
            "with --accept-loss to go on with what is left"
        )


class Appends(Protocol):
    """A log as far as receivers need it. Every method may be called from any thread."""

    def append(self, item: Item) -> "Future[int]":
        """Append an item; items that wait at the same time are synced together.

        Args:
            item: A body of less than 4 GiB; a space and a source of at most 65,535 bytes of UTF-8.

        Returns:
            Done once the item is durable, with the offset behind it, in the order of the offsets.
            It fails with `TransientError` if nothing can be written now, such as on a full disk,
            or if the log is closed: the item may be appended again. It cannot be cancelled, and its
            callbacks run in the log's thread.

        Raises:
            DataError: The item is too large.
        """
        ...

    @property
    def end(self) -> int:
        """Offset behind the last item that is synced; 0 where partitions have offsets."""
        ...


class Log(Protocol):
    """A log as far as a worker needs it. Every method may be called from any thread."""

    @property
    def end(self) -> int:
        """Offset behind the last item that is synced."""
        ...

    def read(self, offset: int, max_bytes: int) -> Chunk:
        """Read items in order; only what is synced is ever read.

        What is damaged or gone is passed over and reported; whatever lies behind it is read. Who
        reads counts it, once however often the same place is read.

        Args:
            offset: An offset that an entry or a chunk gave as `next`. An offset before `begin`
                is read as a gap up to it.
            max_bytes: Size of all items of the chunk together. The first one may be larger.

        Returns:
            At least one entry, unless there is none behind the offset. Without an entry there may
            still be a gap, and `next` lies behind it.

        Raises:
            TransientError: The disk does not give the bytes now; nothing was passed over.
        """
        ...

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Wait until something lies behind an offset; False after the time, or once closed."""
        ...

    def trim(self, offset: int) -> None:
        """Remove what the store has: whole files whose items all end at or before an offset.

        What was removed must not be read any more. The last file stays: a log without any file is
        one that somebody has removed. See `FileLog.roll`.
        """
        ...

    def last_append_s(self) -> float:
        """`time.monotonic()` of the last append; the worker yields to receivers that are busy."""
        ...
