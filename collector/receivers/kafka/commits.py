"""Offsets of what is durable, on their way to the brokers, and the topics that they are of."""

import functools
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from kafka import errors
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.receivers.kafka.intake import KafkaIntake

_TIMEOUT_MS: Final = 10_000
_UNKNOWN: Final = -1
_MARK: Final = "topic-id="


class Continuity:
    """Follows the offsets of one consumer, from those that its group has committed.

    kafka-python goes on at the first message that there is, without a word, where retention has
    deleted the next one. And it goes on at its old offset in a topic of the same name that was made
    anew, past messages that nobody has read.

    Offsets without a message are no loss: compaction and the marks of transactions leave them. Only
    what lies before the log's first offset is gone.

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


_log: Final = logging.getLogger(__name__)
_EVERY_S: Final = 0.2
_RETRY_S: Final = 1.0
_UNANSWERED_S: Final = 90.0
"""The client answers within twice its 30 s, but where a connection never gets to be one: it waits
for the first byte of TLS without end."""
_RELEASE_S: Final = 5.0
"""A partition that is given away waits so long for the store."""


class OffsetCommits:
    """Has offsets committed, one time after the other; nobody waits for the answers.

    The thread of the consumer calls, which the client gives the answers to as it polls; `release`
    is called in the client's own thread, while the other one waits in a poll.

    Args:
        intake: Knows what is durable.
        continuity: Knows which topics the offsets are of.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        intake: KafkaIntake,
        continuity: Continuity,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._intake, self._continuity, self._clock = intake, continuity, clock
        self._due = 0.0
        self._sent: float | None = None
        """Time at which the unanswered commit was sent; None without one."""
        self._is_failing = False

    def begin(self) -> None:
        """Forget a consumer that has ended, and what it did not answer."""
        self._sent = None

    def commit(self, consumer: Any, *, at_once: bool = False) -> None:  # noqa: ANN401 - untyped client
        """Commit what is durable, if it is time.

        Args:
            consumer: The client.
            at_once: There is nothing else to do; after a failure it waits all the same.

        Raises:
            FencedInstanceIdError: Somebody else reads under this consumer's name.
        """
        now = self._clock()
        if now < self._due and (self._is_failing or not at_once):
            return
        if self._sent is not None:
            if now < self._sent + _UNANSWERED_S:
                return
            self._failed(f"no answer for {_UNANSWERED_S:g} s")
        self._due = now + _EVERY_S
        durable = self._intake.durable_offsets()
        if durable:
            self._sent = now
            answered = functools.partial(self._answered, durable)
            consumer.commit_async(self._offsets(durable), callback=answered)

    def _answered(self, durable: Mapping[TopicPartition, int], _: object, answer: object) -> None:
        self._sent = None
        if isinstance(answer, BaseException):
            self._failed(repr(answer))
            self._due = self._clock() + _RETRY_S
        else:
            self._is_failing = False
            self._intake.forget(durable)

    def _failed(self, why: str) -> None:
        """Say so once: what came is stored, and delivered again it would be duplicates."""
        level = logging.DEBUG if self._is_failing else logging.WARNING
        _log.log(level, "kafka: offsets were not committed, trying again: %s", why)
        self._is_failing = True

    async def release(self, consumer: Any) -> None:  # noqa: ANN401 - untyped client
        """Finish and commit, in the client's thread, while the partitions are still ours.

        It holds up the heartbeats for as long as the store takes for what is on its way.
        """
        self._intake.finish_within(_RELEASE_S)
        durable = self._intake.durable_offsets()
        self._intake.forget(durable)  # the next round may give the partitions to others
        try:
            # Where the client has yet to find whom to tell, this is all that it waits for: it
            # gives that broker's number then, and nothing after a commit.
            if durable and await consumer.commit_async(self._offsets(durable)) is not None:
                await consumer.commit_async(self._offsets(durable))
        except errors.KafkaError as error:
            _log.warning("kafka: offsets were not committed: %r", error)

    def _offsets(
        self, durable: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        mark = self._continuity.mark
        return {
            each: OffsetAndMetadata(offset, mark(each.topic), -1)
            for each, offset in durable.items()
        }
