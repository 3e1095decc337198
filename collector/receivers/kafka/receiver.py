"""Spans and records from Kafka. Offsets are committed after the store has the messages."""

import functools
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final

from kafka import (
    AsyncConsumerRebalanceListener,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    KafkaAdminClient,
    KafkaConsumer,
    errors,
)
from kafka.admin import MemberToRemove  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType] - stubs of version 2

from collector.log.brokers import Brokers
from collector.metrics import OVERTAKEN
from collector.receivers.intake import Intake
from collector.receivers.kafka.commits import Continuity, OffsetCommits
from collector.receivers.kafka.intake import KafkaIntake, keep_reading
from collector.receivers.kafka.settings import POLL_MS, KafkaSettings, consumer_settings
from collector.receivers.lag import Backlog
from collector.receivers.message_servers.receiver import member_name
from collector.receivers.telemetry import IngestTelemetry
from collector.settings.model import CollectorSettings
from scouter.errors import TransientError
from scouter.transport.drops import Count
from scouter.transport.kafka_client import connect, notes_of

_log: Final = logging.getLogger(__name__)
_JOIN_POLL_MS: Final = 2000
"""A poll that joins the group waits longer: see `KafkaReceiver._await_partitions`."""
_MAX_MESSAGES: Final = 500
_RETRY_S: Final = 1.0
_TOPICS_S: Final = 10.0
"""Topics that do not exist by then are subscribed to all the same, and found when they appear."""
_JOIN_S: Final = 60.0
_REPORT_S: Final = 0.5
_LAG_TIMEOUT_MS: Final = 1000
_FENCED: Final = "a collector on a copy of the data folder took over"
LAG_SOURCE: Final = "kafka"
"""This receiver's name in the join's input clock."""


class Rebalance(AsyncConsumerRebalanceListener):  # pyright: ignore[reportUntypedBaseClass]
    """Knows whether the consumer waits for its group's answer, and since when.

    The client calls it in its own thread, while the thread of the consumer waits in a poll.

    Args:
        release: Finishes and commits what was read, before others may read on.
        clock: Monotonic seconds.
    """

    def __init__(
        self, release: Callable[[], Awaitable[None]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._release, self._clock = release, clock
        self._since: float | None = clock()
        self.rounds = 0
        """Rounds that have ended."""

    async def on_partitions_revoked(self, revoked: Collection[object]) -> None:
        """A round begins, or the consumer leaves its group."""
        self._since = self._clock()
        await self._release()

    async def on_partitions_assigned(self, assigned: Collection[object]) -> None:
        """A round ended; with no partition, where others have them all."""
        self._since = None
        self.rounds += 1

    @property
    def is_settled(self) -> bool:
        """True if the last round has ended."""
        return self._since is None

    @property
    def is_stuck(self) -> bool:
        """True if a round has lasted so long that its answer will not come."""
        return self._since is not None and self._clock() - self._since > _JOIN_S


class KafkaReceiver:
    """A consumer thread. It outlives brokers that go away and come back.

    Args:
        settings: Brokers, topics, group, credentials.
        ingest: The way in.
        inputs: Is notified whether there are spans that were not read yet.
        telemetry: Counts what was lost by partition.
    """

    def __init__(
        self,
        settings: CollectorSettings,
        ingest: Intake,
        inputs: Brokers | None = None,
        telemetry: IngestTelemetry | None = None,
    ) -> None:
        self._settings, self._ingest, self._telemetry = settings, ingest, telemetry
        self._inputs = inputs or Brokers()
        self._inputs.add(LAG_SOURCE)
        self._reported = 0.0
        self._backlog = Backlog()
        self._mine: frozenset[Any] = frozenset()
        """Partitions that the backlog is about."""
        self._stopping = threading.Event()
        self._is_connected = False
        self.fault = ""
        """Reason that the last connection failed or ended, while there is none."""
        self._intake = KafkaIntake(
            ingest,
            settings.kafka_spans_topic,
            self._stopping,
            logs_topic=settings.kafka_logs_topic,
        )
        self._named = _named_topics(settings)
        self._continuity = Continuity(self._count_lost)
        self._commits = OffsetCommits(self._intake, self._continuity)
        self._thread = threading.Thread(target=self._run, name="scouter-kafka")

    @property
    def is_connected(self) -> bool:
        """True while the brokers answer and partitions are assigned."""
        return self._is_connected

    def start(self) -> None:
        """Begin to consume; brokers that do not answer yet are waited for."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the batch in hand, commit its offsets and leave the group."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        is_member = False
        while not self._stopping.is_set():
            consumer = None
            try:
                consumer = self._connect()
                named = self._settings
                topics = [named.kafka_spans_topic, named.kafka_records_topic]
                topics += [named.kafka_logs_topic] if named.kafka_logs_topic else []
                self._await_partitions(consumer, topics)
                self._commits.begin()
                rebalance = Rebalance(functools.partial(self._commits.release, consumer))
                consumer.subscribe(topics, listener=rebalance)
                self._consume(consumer, rebalance)
                is_member = True
            except Exception as error:  # noqa: BLE001 the client raises far more than KafkaError
                is_fenced = isinstance(error, errors.FencedInstanceIdError)
                self.fault = _FENCED if is_fenced else f"{error}"
                _log.warning("kafka %s: %r; trying again", self._settings.kafka, error)
                self._stopping.wait(_RETRY_S)
            finally:
                self._is_connected = False
                if consumer is not None:
                    _close(consumer)  # which releases what is on its way
                self._intake.abandon()
        if is_member:  # else there may be no brokers to notify
            leave_group(KafkaSettings.of(self._settings), member_name(self._settings))

    def _connect(self) -> Any:  # noqa: ANN401 - untyped client
        try:
            name = member_name(self._settings)
            kafka = KafkaSettings.of(self._settings)
            consumer = connect(KafkaConsumer, consumer_settings(kafka, name))
        except errors.KafkaError as error:
            raise TransientError(f"{error}{notes_of(error)}") from error
        keep_reading(consumer)
        return consumer

    def _await_partitions(
        self,
        consumer: Any,  # noqa: ANN401 - untyped client
        topics: Sequence[str],
    ) -> None:
        """Learn the topics' partitions before the group is joined.

        kafka-python 3.0 joins without knowing them, joins again once it does, and where a poll
        times out just as that second round ends it never takes the result: no partitions and no
        heartbeats, for ever. So few polls end while a round lasts, and `Rebalance` notices where
        this happens all the same.
        """
        deadline = time.monotonic() + _TOPICS_S
        while missing := [each for each in topics if not consumer.partitions_for_topic(each)]:
            if time.monotonic() > deadline:
                if named := [each for each in missing if each in self._named]:
                    _log.warning("kafka: no topic %s yet; it is read once it exists", named)
                return
            if self._stopping.wait(_RETRY_S):
                return

    def _consume(
        self,
        consumer: Any,  # noqa: ANN401 - untyped client
        rebalance: Rebalance,
    ) -> None:
        rounds = -1
        while not self._stopping.is_set():
            if rebalance.is_stuck:
                raise TransientError(f"the group has not answered for {_JOIN_S:g} s")
            if self._ingest.is_full:
                consumer.pause(*consumer.assignment())
            elif consumer.paused():
                consumer.resume(*consumer.paused())
            wait_ms = POLL_MS if rebalance.is_settled else _JOIN_POLL_MS
            batches = consumer.poll(timeout_ms=wait_ms, max_records=_MAX_MESSAGES)
            self._is_connected = bool(consumer.assignment())
            if rebalance.rounds != rounds:
                rounds = rebalance.rounds
                self._continuity.begin()
            messages = self._continuity.follow(consumer, batches)
            self._intake.take(messages)
            if not messages:
                self._intake.finish()
            self._commits.commit(consumer, at_once=not messages)
            if time.monotonic() >= self._reported + _REPORT_S:
                if self._continuity.look(consumer):
                    self._intake.finish()
                    self._intake.forget(self._intake.durable_offsets())
                self._inputs.report(LAG_SOURCE, self._behind_s(consumer, rebalance))
                self._reported = time.monotonic()

    def _count_lost(self, partition: Any, first: int, number: int) -> None:  # noqa: ANN401 - untyped client
        """Count messages that retention deleted before they were read, each once for ever.

        Raises:
            TransientError: The store does not take the count now.
        """
        name = f"{partition.topic}-{partition.partition}"
        sender = f"kafka:{self._settings.kafka_group}:{name}:{first}"
        self._ingest.take_dropped({(sender, OVERTAKEN): Count(0, number)}).result()
        if self._telemetry is not None:
            self._telemetry.lost("kafka", name, number)
        _log.error(
            "kafka: %d messages of %s, from offset %d on, were deleted before they were read; let "
            "the topic keep its messages (retention.ms, retention.bytes) for longer than the "
            "collector may be away or behind",
            number, name, first,
        )  # fmt: skip

    def _behind_s(
        self,
        consumer: Any,  # noqa: ANN401 - untyped client
        rebalance: Rebalance,
    ) -> float | None:
        """Ask the brokers for spans beyond those that are stored; see `Backlog.behind_s`."""
        topic = self._settings.kafka_spans_topic
        mine = frozenset(each for each in consumer.assignment() if each.topic == topic)
        if mine != self._mine:
            self._mine = mine
            self._backlog.clear()
        if not mine:
            return 0.0 if rebalance.is_settled else None  # settled: others have them all
        try:
            ends = consumer.end_offsets(list(mine), timeout_ms=_LAG_TIMEOUT_MS)
            read = {each: consumer.position(each) for each in ends}
            return self._backlog.behind_s(ends, {**read, **self._intake.pending_offsets()})
        except errors.KafkaError as error:
            _log.debug("kafka: no answer about the lag: %r", error)
            return None


def _named_topics(settings: CollectorSettings) -> frozenset[str]:
    """Topics that somebody expects: a fleet has brokers for its log, and may read no other."""
    fields = {"kafka_spans_topic", "kafka_records_topic", "kafka_logs_topic"}
    if settings.role != "all":
        fields &= settings.model_fields_set
    return frozenset(str(getattr(settings, each)) for each in fields)


def _close(consumer: Any) -> None:  # noqa: ANN401 - untyped client
    try:
        consumer.close(autocommit=False)
    except Exception as error:  # noqa: BLE001 there is nothing left to do with it
        _log.warning("kafka: closing the consumer: %r", error)


_LEAVE_TIMEOUT_MS: Final = 5000


def leave_group(settings: KafkaSettings, name: str) -> None:
    """Let others have the partitions at once; without it, they wait until the session is over.

    The consumer itself lets no static member leave, as it may be back soon.

    Args:
        settings: Those of the consumer.
        name: That of the consumer, which is closed.
    """
    try:
        client = connect(
            KafkaAdminClient, {**settings.client(), "request_timeout_ms": _LEAVE_TIMEOUT_MS}
        )
        try:
            client.remove_group_members(settings.group, [MemberToRemove(group_instance_id=name)])
        finally:
            client.close()
    except (errors.KafkaError, OSError) as error:
        _log.warning("kafka: the group was not notified that %s ended: %r", name, error)
