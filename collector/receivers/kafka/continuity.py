"""Messages that left a partition before they were read, and topics that were made anew.

kafka-python goes on at the first message that there is, without a word, where retention has deleted
the next one. And it goes on at its old offset in a topic of the same name that was made anew, past
messages that nobody has read.

Offsets without a message are no loss: compaction and the marks of transactions leave them. Only
what lies before the log's first offset is gone.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from kafka import errors
from kafka.structs import TopicPartition

_log: Final = logging.getLogger(__name__)
_TIMEOUT_MS: Final = 10_000
_UNKNOWN: Final = -1
_MARK: Final = "topic-id="


class Continuity:
    """Follows the offsets of one consumer, from those that its group has committed.

    The thread of the consumer calls.

    Args:
        lost: Is called with a partition, its first lost offset and the number of lost messages.
            What it raises leaves everything as it was.
    """

    def __init__(self, lost: Callable[[TopicPartition, int, int], None]) -> None:
        self._lost = lost
        self._next: dict[TopicPartition, int] = {}
        """Offset that is expected next; negative where any may come."""
        self._ids: dict[str, str] = {}
        """Id of each topic that is read; empty where brokers give none."""

    def begin(self) -> None:
        """Forget the offsets: partitions are given out anew."""
        self._next.clear()

    def mark(self, topic: str) -> str:
        """Text that is committed beside offsets of a topic, so that they hold for no other one."""
        return f"{_MARK}{found}" if (found := self._ids.get(topic)) else ""

    def follow(
        self,
        consumer: Any,  # noqa: ANN401 - untyped client
        batches: Mapping[TopicPartition, Sequence[Any]],
    ) -> list[Any]:
        """Look at what a poll gave.

        Returns:
            Its messages, without those behind an offset of another topic of the same name.

        Raises:
            KafkaError: The brokers did not answer.
        """
        anew = {
            partition
            for partition in consumer.assignment() - self._next.keys()
            if not self._take_up(consumer, partition)
        }
        found: list[Any] = []
        for partition, messages in batches.items():
            if partition not in anew:
                self._move(consumer, partition, messages[0].offset)
                self._next[partition] = messages[-1].offset + 1
                found += messages
        return found

    def look(self, consumer: Any) -> bool:  # noqa: ANN401 - untyped client
        """Look for topics made anew, and for losses behind which no message has come yet.

        Returns:
            True if a topic is read from its beginning now: no offset so far holds for it.
        """
        anew = [each for each in self._next if self._is_anew(consumer, each.topic)]
        if anew:
            self._ids.update((each.topic, topic_id_of(consumer, each.topic)) for each in anew)
            self._begin_again(consumer, anew)
        try:
            for partition in self._next:
                position = consumer.position(partition, timeout_ms=_TIMEOUT_MS)
                if position is not None:
                    self._move(consumer, partition, position)
                    self._next[partition] = position
        except errors.KafkaError as error:
            _log.debug("kafka: no answer about offsets: %r", error)
        return bool(anew)

    def _take_up(self, consumer: Any, partition: TopicPartition) -> bool:  # noqa: ANN401 - untyped client
        """Learn where reading began; False if it begins anew, as that was in another topic."""
        committed = consumer.committed(partition, metadata=True, timeout_ms=_TIMEOUT_MS)
        self._ids.setdefault(partition.topic, topic_id_of(consumer, partition.topic))
        self._next[partition] = _UNKNOWN if committed is None else committed.offset
        mark = "" if committed is None else str(committed.metadata or "")
        now = self.mark(partition.topic)
        if not now or not mark.startswith(_MARK) or mark == now:
            return True
        self._begin_again(consumer, [partition])
        return False

    def _is_anew(self, consumer: Any, topic: str) -> bool:  # noqa: ANN401 - untyped client
        was, now = self._ids.get(topic), topic_id_of(consumer, topic)
        return bool(was and now and was != now)

    def _begin_again(self, consumer: Any, partitions: Collection[TopicPartition]) -> None:  # noqa: ANN401 - untyped client
        consumer.seek_to_beginning(*partitions)
        self._next.update(dict.fromkeys(partitions, _UNKNOWN))
        for topic in sorted({each.topic for each in partitions}):
            _log.warning("kafka: topic %s was made anew, and is read from its beginning", topic)

    def _move(self, consumer: Any, partition: TopicPartition, offset: int) -> None:  # noqa: ANN401 - untyped client
        """Look at a step to an offset; what lies between it and the expected one may be lost."""
        expected = self._next.get(partition, _UNKNOWN)
        if expected == _UNKNOWN:
            return
        if offset < expected:
            _log.warning(
                "kafka: %s-%d goes on at offset %d instead of %d: the topic was made anew, or the "
                "brokers lost the end of its log",
                *partition, offset, expected,
            )  # fmt: skip
        elif offset > expected:
            first = consumer.beginning_offsets([partition], timeout_ms=_TIMEOUT_MS)[partition]
            lost = min(offset, first) - expected
            if lost > 0:
                self._lost(partition, expected, lost)


def topic_id_of(consumer: Any, topic: str) -> str:  # noqa: ANN401 - untyped client
    """The id of a topic that a client reads; empty where brokers give none."""
    found = consumer._cluster.topic_id(topic)  # the client has no other way in
    return "" if found is None or not found.int else str(found)
