"""Batches of Kafka that cannot be read, handed on as one message instead of ending the consumer.

kafka-python raises where the codec of a batch is unknown or its bytes are broken. It does not say
from which partition the batch came, and polled again the same batch ends the next consumer: all
partitions stop. Here the client's own reader is given, in the place of such a batch, one message
with the bytes of it.
"""

from collections.abc import Iterator
from typing import Any, Final

from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecord
from kafka.record.memory_records import MemoryRecords

from scouter.errors import DataError

_MAX_WHY: Final = 300
_MAGIC_OF_HEADERS: Final = 2
"""From this version of batches on the checksum is that of a batch; before, of each message."""


class UnreadableBatch(bytes):
    """The bytes of a batch, as the value of a message at the last offset of the batch."""

    why: str
    """The client's reason."""
    first_offset: int


def keep_reading(consumer: Any) -> None:  # noqa: ANN401 - untyped client
    """Have a consumer give batches that it cannot read as messages; before its first poll."""
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
