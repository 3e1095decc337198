"""Polled Kafka messages, and batches that cannot be read, on their way into the store."""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final, NamedTuple

from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecord
from kafka.record.memory_records import MemoryRecords
from kafka.structs import TopicPartition

from collector.items.drop_reports import merge_dropped
from collector.log.port import Kind
from collector.receivers.intake import Delivery, Intake
from scouter.errors import DataError, TransientError
from scouter.transport.drops import DROPPED_HEADER

_MAX_WHY: Final = 300
_MAGIC_OF_HEADERS: Final = 2
"""From this version of batches on the checksum is that of a batch; before, of each message."""


class UnreadableBatch(bytes):
    """The bytes of a batch, as the value of a message at the last offset of the batch."""

    why: str
    """The client's reason."""
    first_offset: int


def keep_reading(consumer: Any) -> None:  # noqa: ANN401 - untyped client
    """Have a consumer give each batch that it cannot read as one message; before its first poll.

    kafka-python raises where the codec of a batch is unknown or its bytes are broken. It does not
    say from which partition the batch came, and polled again the same batch ends the next consumer:
    all partitions stop. So the client's own reader is given a message with the bytes of the batch.
    """
    fetcher = consumer._fetcher  # the client has no other way in
    theirs: Any = fetcher.PartitionRecords

    class Readable(theirs):
        """The records of one answer for one partition."""

        def _unpack_records(self, tp: Any, records: Any, *args: Any) -> Any:  # noqa: ANN401
            return theirs._unpack_records(self, tp, _Batches(records), *args)

    fetcher.PartitionRecords = Readable


def values_in(payload: bytes) -> list[bytes]:
    """Read the messages of a batch that was unreadable once.

    Raises:
        DataError: It still is, as far as its bytes were stored.
    """
    batches = MemoryRecords(payload)
    if not batches.has_next():
        raise DataError("it is no whole batch of Kafka")
    found = [each.value for each in _Batch(batches.next_batch())]
    for value in found:
        if isinstance(value, UnreadableBatch):
            raise DataError(value.why)
    return [value or b"" for value in found]


class _Batches:
    """The client's source of batches."""

    def __init__(self, records: Any) -> None:  # noqa: ANN401 - untyped client
        self._records = records

    def next_batch(self) -> "_Batch | None":
        batch = self._records.next_batch()
        return None if batch is None else _Batch(batch)


class _Batch:
    """A batch that has been read, or cannot be; all else is as the client has it."""

    def __init__(self, batch: Any) -> None:  # noqa: ANN401 - untyped client
        self._batch = batch
        self._records = batch if _is_control(batch) else _records_of(batch)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - untyped client
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._records)

    def __next__(self) -> Any:  # noqa: ANN401 - untyped client
        return next(self._batch)

    def validate_crc(self) -> bool:
        """Always: it was looked at."""
        return True


def _is_control(batch: Any) -> bool:  # noqa: ANN401 - untyped client
    return batch.magic >= _MAGIC_OF_HEADERS and batch.is_control_batch


def _records_of(batch: Any) -> list[Any]:  # noqa: ANN401 - untyped client
    raw = bytes(batch._buffer)  # what is read takes its place
    try:
        if not batch.validate_crc():
            raise CorruptRecordError("the checksum is wrong")
        records = list(batch)
        if batch.magic < _MAGIC_OF_HEADERS and not all(each.validate_crc() for each in records):
            raise CorruptRecordError("the checksum of a message is wrong")
    except Exception as error:  # noqa: BLE001 each codec raises what it likes
        value = UnreadableBatch(raw)
        name, text = type(error).__name__, str(error)
        value.why = (text if text.startswith(name) else f"{name}: {text}")[:_MAX_WHY]
        value.first_offset = batch.base_offset
        last = getattr(batch, "last_offset", batch.base_offset)
        return [DefaultRecord(len(raw), last, 0, 0, None, value, [])]
    return records


_log: Final = logging.getLogger(__name__)
RETRY_S: Final = 1.0


class _Part(NamedTuple):
    messages: Sequence[Any]
    taken: "Sequence[Future[Any]] | TransientError"
    """Futures of the log for the messages, or the reason why it did not begin."""


class KafkaIntake:
    """Hands messages over in their order, again and again until they are durable.

    While the log syncs what one poll gave, the next one is made. So the last messages taken are
    still on their way when `take` returns: `finish` waits for them. One thread calls at a time.

    Args:
        way: The way in.
        spans_topic: Topic of spans; messages of any other topic are records.
        stopping: Once it is set, messages that the store refuses are given up, to be delivered
            again.
        logs_topic: Topic of OTLP log requests; empty for none.
    """

    def __init__(
        self,
        way: Intake,
        spans_topic: str,
        stopping: threading.Event,
        *,
        logs_topic: str = "",
    ) -> None:
        self._way, self._spans_topic, self._stopping = way, spans_topic, stopping
        self._logs_topic = logs_topic
        self._pending: deque[_Part] = deque()
        self._durable: dict[TopicPartition, int] = {}

    def take(self, messages: Sequence[Any]) -> None:
        """Store messages; waits for those that were taken before."""
        if messages:
            self._pending.append(_Part(messages, self._begin(messages)))
            while len(self._pending) > 1 and self._finish_first():
                pass

    def finish(self) -> None:
        """Wait until all that was taken is durable or, where the service ends, given up."""
        while self._pending and self._finish_first():
            pass

    def finish_within(self, timeout_s: float) -> None:
        """Wait for the store, but not for another try; the rest is given up."""
        until = time.monotonic() + timeout_s
        for messages, taken in self._pending:
            if isinstance(taken, Exception) or not _all_done(taken, until):
                break
            if not _all_done(self._tell_dropped(messages), until):
                break
            self._note(messages)
        self._pending.clear()

    def abandon(self) -> None:
        """Give up what is on its way, and forget what was not committed: others read it now."""
        self._pending.clear()
        self._durable.clear()

    def durable_offsets(self) -> Mapping[TopicPartition, int]:
        """For each partition the offset behind the last message that is durable."""
        return dict(self._durable)

    def forget(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Do not tell these again, where nothing beyond them has become durable."""
        for partition, offset in offsets.items():
            if self._durable.get(partition) == offset:
                del self._durable[partition]

    def pending_offsets(self) -> Mapping[TopicPartition, int]:
        """For each partition with messages on their way the offset of the first of them."""
        found: dict[TopicPartition, int] = {}
        for messages, _ in self._pending:
            for message in messages:
                found.setdefault(_partition(message), message.offset)
        return found

    # --- inside -----------------------------------------------------------------------------

    def _begin(self, messages: Sequence[Any]) -> "Sequence[Future[Any]] | TransientError":
        try:
            return self._way.deliver([self._delivery(each) for each in messages])
        except TransientError as error:
            return error

    def _finish_first(self) -> bool:
        """Wait for the first part; False if it was given up, and all behind it."""
        messages, taken = self._pending[0]
        if not self._insist(messages, taken):
            self._pending.clear()
            return False
        self._pending.popleft()
        self._note(messages)
        return True

    def _note(self, messages: Sequence[Any]) -> None:
        for message in messages:
            self._durable[_partition(message)] = message.offset + 1

    def _insist(
        self,
        messages: Sequence[Any],
        taken: "Sequence[Future[Any]] | TransientError",
    ) -> bool:
        """Wait until messages are durable, handing them over again where the store refused them.

        Returns:
            False if they were given up.
        """
        while True:
            try:
                if isinstance(taken, Exception):
                    raise taken
                for future in taken:
                    future.result()
                for future in self._tell_dropped(messages):
                    future.result()
            except TransientError as error:
                _log.warning("kafka: the store does not take messages, trying again: %s", error)
                if self._stopping.wait(RETRY_S):
                    return False
            else:
                return True
            taken = self._begin(messages)

    def _tell_dropped(self, messages: Sequence[Any]) -> "Sequence[Future[Any]]":
        """Count what the senders dropped; last, for what is not stored would tell it again."""
        dropped = merge_dropped(map(_dropped, messages))
        return [self._way.take_dropped(dropped)] if dropped else []

    def _delivery(self, message: Any) -> Delivery:  # noqa: ANN401 - untyped client
        kinds = {self._logs_topic: Kind.LOGS, self._spans_topic: Kind.SPANS}
        value = message.value or b""
        why = ""
        if isinstance(value, UnreadableBatch):
            why = value.why
            _log.warning(
                "kafka: %s-%d: the batch of the offsets %d to %d cannot be read, and is put aside: "
                "%s", message.topic, message.partition, value.first_offset, message.offset, why,
            )  # fmt: skip
        return Delivery(
            kind=kinds.get(message.topic, Kind.RECORD),
            data=value,
            source=f"kafka:{message.topic}:{message.partition}:{message.offset}",
            unreadable=why,
        )


def _all_done(futures: "Sequence[Future[Any]]", until: float) -> bool:
    """Wait until a moment; says whether everything was done by then, without a fault."""
    done, missing = wait(futures, max(0.0, until - time.monotonic()))
    return not missing and all(each.exception() is None for each in done)


def _partition(message: Any) -> TopicPartition:  # noqa: ANN401 - untyped client
    return TopicPartition(message.topic, message.partition)


def _dropped(message: Any) -> str:  # noqa: ANN401 - untyped client
    values = (value for name, value in message.headers or () if name == DROPPED_HEADER)
    return ",".join(value.decode("ascii", "replace") for value in values if value)
