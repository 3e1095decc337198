"""Offsets of what is durable, on their way to the brokers."""

import functools
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka import errors
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.receivers.kafka.continuity import Continuity
from collector.receivers.kafka.intake import KafkaIntake

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
