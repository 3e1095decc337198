"""The read side of the log on Kafka: one partition, as the worker that owns it sees it.

Offsets are Kafka's: an entry begins at the offset of its message and ends at the following one, so
that differences of offsets count messages. What was read from the brokers stays in memory until the
store has it, for a worker may begin anew. Once that is too much, no more is read.
"""

import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol

from collector.fleet.message import item_of
from collector.items.drop_reports import pack_dropped
from collector.items.letters import UNREADABLE, make_letter, pack_letter
from collector.log.brokers import Brokers
from collector.log.port import Chunk, Entry, Item, Kind
from collector.metrics import OVERTAKEN
from collector.receivers.kafka.intake import UnreadableBatch
from collector.receivers.kafka.settings import KafkaSettings
from collector.receivers.lag import Backlog
from collector.store.letters import LetterKind
from scouter.errors import TransientError
from scouter.transport.drops import Count

_log: Final = logging.getLogger(__name__)
BUFFER_BYTES: Final = 16 * 2**20
"""Bytes of messages in memory that the store has not, beyond which none are read."""
_ENTRY_BYTES: Final = 500
"""Bytes that an entry takes beside its body."""
_MAX_LETTER: Final = 16 * 2**20
LAG_SOURCE: Final = "kafka"
"""Name of the brokers in `PartitionLog.brokers`."""


class Appending(Protocol):
    """A `TopicLog`, as far as a partition needs it."""

    partitions: int
    topic_id: str

    def append(self, item: Item) -> "Future[int]":
        """Append an item to whatever partition it belongs."""
        ...


@dataclass(slots=True)
class _Slot:
    """A message in memory, or a number of offsets without any."""

    offset: int
    next: int
    entry: Entry | None
    size: int
    again: "Future[int] | None" = None
    """Of a message of others, that was appended to the partition where it belongs."""
    item: Item | None = None
    """That message."""

    @property
    def is_ready(self) -> bool:
        """True if a worker may pass it."""
        again = self.again
        return again is None or (again.done() and again.exception() is None)


class PartitionLog:
    """A partition for its owner; see `collector.log.port.Log`.

    The thread of the consumer puts messages in, the thread of a worker reads them.

    Args:
        part: Number of the partition.
        settings: Topic, group, and the space of messages that name none.
        topic_log: Takes what is appended, and messages of others again.
        begin: Oldest offset that the brokers have.
        end: Offset behind the newest one.
        buffer_bytes: See `BUFFER_BYTES`.
        clock: Monotonic seconds.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        part: int,
        settings: KafkaSettings,
        topic_log: Appending,
        begin: int,
        end: int,
        *,
        buffer_bytes: int = BUFFER_BYTES,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.part, self._settings, self._topic_log = part, settings, topic_log
        self._buffer_bytes, self._now_ns = buffer_bytes, now_ns
        self._changed = threading.Condition()
        self._slots: list[_Slot] = []
        self._foreign: list[_Slot] = []
        """Messages of others that are not where they belong yet."""
        self._size = 0
        self._trimmed = 0
        self._first, self._end = begin, end
        self._next: int | None = None
        """Offset of the next message of the brokers; None before the owner has said where."""
        self._stored: int | None = None
        self._is_closed = False
        self.brokers: Final = Brokers(clock)
        """How far what is in memory is behind the brokers, for the clock of the worker."""
        self.brokers.add(LAG_SOURCE)
        self._read_backlog = Backlog(clock)
        self.topic_id: Final = topic_log.topic_id
        """Id of the topic that the offsets are of."""

    # --- what the consumer puts in ----------------------------------------------------------

    def start(self, offset: int | None) -> int:
        """Say where reading begins.

        Args:
            offset: Everything before it is stored; None if nothing ever was.

        Returns:
            The offset of the next message to put in.
        """
        with self._changed:
            self._next = self._first if offset is None else offset
            self._stored = self._next
            return self._next

    @property
    def next(self) -> int | None:
        """Offset of the next message to put in; None before the start."""
        return self._next

    @property
    def is_full(self) -> bool:
        """True if no more is to be put in for now."""
        return self._size >= self._buffer_bytes

    def put(self, messages: Sequence[Any], first: int) -> None:
        """Put in messages, in order.

        Args:
            messages: As the client gives them.
            first: Oldest offset that the brokers have, as far as it is known.
        """
        for message in messages:
            self.pass_to(message.offset, first)
            slot = self._of(message)
            with self._changed:
                self._add(slot)
        with self._changed:
            self._changed.notify_all()

    def pass_to(self, offset: int, first: int) -> None:
        """Pass offsets without messages; what lies before the first one that there is, is lost.

        Args:
            offset: Offset to go on at.
            first: Oldest offset that the brokers have, as far as it is known.
        """
        with self._changed:
            expected = self._next
            if expected is None or offset <= expected:
                return
            lost = min(offset, first) - expected
            if lost > 0:
                self._add(self._lost(expected, lost))
            if offset > expected + max(0, lost):
                self._add(_Slot(expected + max(0, lost), offset, None, 0))
            self._changed.notify_all()

    def append_again(self) -> None:
        """Append once more what others put here and could not be appended where it belongs."""
        with self._changed:
            self._foreign = [slot for slot in self._foreign if not slot.is_ready]
            failed = [slot for slot in self._foreign if slot.again and slot.again.done()]
        for slot in failed:
            self._forward(slot)

    def report(self, end: int) -> None:
        """Note where the partition ends now."""
        with self._changed:
            self._end = max(self._end, end)
            fetched = self._next
            waiting = [slot.offset for slot in self._foreign if not slot.is_ready]
        if fetched is None:
            return
        here = min([fetched, *waiting])
        self.brokers.report(LAG_SOURCE, self._read_backlog.behind_s({0: end}, {0: here}))

    def _add(self, slot: _Slot) -> None:
        self._slots.append(slot)
        self._size += slot.size
        self._next = slot.next
        self._end = max(self._end, slot.next)

    def _of(self, message: Any) -> _Slot:  # noqa: ANN401 - untyped client
        item, is_at_home = item_of(
            message, self._topic_log.partitions, self._settings.space, self._now_ns()
        )
        offset, following = message.offset, message.offset + 1
        size = _ENTRY_BYTES + len(item.body)
        if isinstance(message.value, UnreadableBatch):
            item = self._letter(item, message.value)
        elif not is_at_home:
            slot = _Slot(offset, following, None, size, item=item)
            self._foreign.append(slot)
            self._forward(slot)
            return slot
        return _Slot(offset, following, Entry(offset, following, item), size)

    def _forward(self, slot: _Slot) -> None:
        if slot.item is not None:
            slot.again = self._topic_log.append(slot.item)
            slot.again.add_done_callback(self._tell)

    def _tell(self, _: object) -> None:
        with self._changed:
            self._changed.notify_all()

    def _letter(self, item: Item, batch: UnreadableBatch) -> Item:
        _log.warning(
            "kafka: %s-%d: the batch from offset %d on cannot be read, and is put aside: %s",
            self._settings.topic, self.part, batch.first_offset, batch.why,
        )  # fmt: skip
        letter = make_letter(
            item.space, LetterKind.SPANS_MESSAGE, UNREADABLE, batch.why, item.source, bytes(batch),
            item.received_ns, _MAX_LETTER,
        )  # fmt: skip
        return Item(Kind.LETTER, item.space, item.received_ns, pack_letter(letter), item.source)

    def _lost(self, first: int, number: int) -> _Slot:
        """An entry that counts messages which are gone, each once for ever."""
        name = f"{self._settings.topic}-{self.part}"
        sender = f"kafka:{self._settings.group}:{name}:{first}"
        _log.error(
            "kafka: %d messages of %s, from offset %d on, were deleted before they were read; let "
            "the topic keep its messages (retention.ms, retention.bytes) for longer than the "
            "workers or their store may be away",
            number, name, first,
        )  # fmt: skip
        body = pack_dropped({(sender, OVERTAKEN): Count(0, number)})
        item = Item(Kind.DROPS, self._settings.space, self._now_ns(), body)
        return _Slot(first, first + number, Entry(first, first + number, item), len(body))

    # --- what a worker reads ----------------------------------------------------------------

    def read(self, offset: int, max_bytes: int) -> Chunk:
        """Read messages in order; see `Log.read`."""
        with self._changed:
            at = self._index(offset)
            entries: list[Entry] = []
            size = 0
            while at < len(self._slots) and self._slots[at].is_ready:
                slot = self._slots[at]
                if entries and size + slot.size > max_bytes:
                    break
                if slot.entry is not None:
                    entries.append(slot.entry)
                size += slot.size
                offset, at = slot.next, at + 1
        return Chunk(entries, offset)

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Wait until something lies behind an offset; see `Log.wait`."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._has(offset), timeout_s)
            return self._has(offset)

    def trim(self, offset: int) -> None:
        """Forget what the store has."""
        with self._changed:
            at = bisect_left(self._slots, offset, key=lambda slot: slot.next)
            if at < len(self._slots) and self._slots[at].next == offset:
                at += 1
            self._size -= sum(slot.size for slot in self._slots[:at])
            del self._slots[:at]
            self._trimmed = max(self._trimmed, offset)
            if self._stored is not None:
                self._stored = max(self._stored, offset)

    def _index(self, offset: int) -> int:
        """Index of the first message at an offset or behind it."""
        if offset < self._trimmed:
            raise TransientError(
                f"offset {offset} of partition {self.part} is not in memory any more: the store "
                f"had everything before {self._trimmed}"
            )
        return bisect_left(self._slots, offset, key=lambda each: each.offset)

    def _has(self, offset: int) -> bool:
        at = bisect_left(self._slots, offset, key=lambda each: each.offset)
        return at < len(self._slots) and self._slots[at].is_ready

    # --- the rest of the port ---------------------------------------------------------------

    def last_append_s(self) -> float:
        """0: no receiver shares the process."""
        return 0.0

    @property
    def begin(self) -> int:
        """Oldest offset that can be read: that up to which the store has everything."""
        return self._first if self._stored is None else self._stored

    @property
    def end(self) -> int:
        """Offset behind the last message of the partition, as far as it is known."""
        return self._end

    @property
    def stored(self) -> int | None:
        """Offset up to which the store has everything; None before the start."""
        return self._stored

    @property
    def size_bytes(self) -> int:
        """Bytes of messages in memory."""
        return self._size

    def close(self) -> None:
        """Wake those who wait; nothing is put in any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
