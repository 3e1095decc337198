"""A worker's process as a member of the group that shares the partitions of the log.

Kafka says which partitions are whose, and no more: who owns a partition is decided in the store,
by the epoch that `take` raises there. The offsets are the store's as well; those that are committed
to Kafka are for dashboards.

Partitions move one by one, while the others are worked on: their owner gives one up first, and has
finished with it before another one hears of it. One that does not come to it in time is fenced by
the store.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from kafka import (
    AsyncConsumerRebalanceListener,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    KafkaConsumer,
    errors,
)
from kafka.coordinator.assignors.cooperative_sticky import (  # pyright: ignore[reportMissingImports]
    CooperativeStickyAssignor,  # pyright: ignore[reportUnknownVariableType]
)
from kafka.structs import OffsetAndMetadata, TopicPartition
from kafka.util import Timer  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

from collector.fleet.partition_log import PartitionLog
from collector.fleet.topic_log import TopicLog
from collector.receivers.kafka.commits import topic_id_of
from collector.receivers.kafka.intake import keep_reading
from collector.receivers.kafka.receiver import leave_group
from collector.receivers.kafka.settings import POLL_MS, KafkaSettings, consumer_settings
from scouter.errors import ConfigError, TransientError
from scouter.transport.kafka_client import connect, notes_of

_log: Final = logging.getLogger(__name__)
BUFFER_BYTES: Final = 2**26
"""Bytes of messages in memory that the store has not, over all partitions."""
_MIN_BUFFER: Final = 2 * 2**20
_MAX_MESSAGES: Final = 500
_JOIN_POLL_MS: Final = 2_000
"""A poll that joins the group waits longer."""
_TAKING_POLL_MS: Final = 50
_JOIN_S: Final = 60.0
"""A join that lasts longer will not end."""
_RELEASE_S: Final = 10.0
"""Others wait so long for a partition that its owner does not finish with; meanwhile it reads
nothing else, either."""
_STEP_S: Final = 0.02
_RETRY_S: Final = 1.0
_REPORT_S: Final = 0.5
_COMMIT_S: Final = 1.0
_TIMEOUT_MS: Final = 1_000
_METADATA_MS: Final = 5_000
"""So soon it is known that the topic is another one."""
_POOL: Final = 32
_FENCED: Final = "another worker has the name {!r}, too: each needs one of its own"

Take = Callable[[int, PartitionLog], "int | None"]
"""Takes a partition: raises its epoch in the store, and starts a worker on its log.

Returns the offset up to which the store has everything; 0 or None if it never had anything, then
the earliest message is the first. Raises what it likes: it is called again later. Called in a
thread of its own, before any message is there.
"""
GiveUp = Callable[[int], None]
"""Stops the worker of a partition that was taken, and waits for it. It should raise nothing."""


@dataclass(slots=True)
class _Owned:
    """A partition that Kafka gave to this member."""

    log: PartitionLog
    taking: "Future[int | None] | None" = None
    """None while the next try waits."""
    again_at: float = 0.0
    is_started: bool = False
    committed: int = -1


class Member:
    """A consumer thread; it outlives brokers that go away and come back.

    Args:
        settings: Brokers, topic, group, credentials.
        topic_log: The append side of the same topic.
        name: Of this member; the same after a restart, and of no other member.
        take: Called for each partition that is assigned.
        give_up: Called for each partition that was taken, once it is another one's or the end.
        buffer_bytes: See `BUFFER_BYTES`.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic_log: TopicLog,
        name: str,
        take: Take,
        give_up: GiveUp,
        *,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._settings, self._topic_log, self._name = settings, topic_log, name
        self._take_it, self._give_it_up = take, give_up
        self._buffer_bytes = buffer_bytes
        self._lock = threading.Lock()
        self._owned: dict[int, _Owned] = {}
        self._leaving: dict[int, Future[None]] = {}
        self._again: set[int] = set()
        self._not_before: dict[int, float] = {}
        self._pool = ThreadPoolExecutor(_POOL, thread_name_prefix="scouter-member")
        self._stopping = threading.Event()
        self._is_connected = False
        self._fault = ""
        self._take_faults: dict[int, str] = {}
        self._thread = threading.Thread(target=self._run, name="scouter-member")

    # --- what others ask --------------------------------------------------------------------

    def start(self) -> None:
        """Begin to consume; brokers that do not answer yet are waited for."""
        self._thread.start()

    def stop(self) -> None:
        """Give up all partitions and leave the group."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown()

    def retake(self, part: int) -> None:
        """Give a partition up and take it anew, if it is still ours a little later.

        For a worker that was fenced: either the partition is another one's, and Kafka is about to
        say so, or the other one was wrong.
        """
        with self._lock:
            self._again.add(part)

    @property
    def is_connected(self) -> bool:
        """True while the brokers answer and the group is settled."""
        return self._is_connected

    @property
    def fault(self) -> str:
        """Reason that something is not read now; empty if there is none."""
        with self._lock:
            return self._fault or next(iter(self._take_faults.values()), "")

    @property
    def parts(self) -> tuple[int, ...]:
        """Partitions that were taken, in order."""
        with self._lock:
            return tuple(sorted(part for part, each in self._owned.items() if each.is_started))

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        is_member = False
        while not self._stopping.is_set():
            consumer = None
            try:
                consumer = self._connect()
                consumer.subscribe(
                    [self._settings.topic], listener=_Listener(consumer, self._owned, self._release)
                )
                is_member = True
                self._consume(consumer)
            except Exception as error:  # noqa: BLE001 the client raises far more than KafkaError
                is_fenced = isinstance(error, errors.FencedInstanceIdError)
                self._fault = _FENCED.format(self._name) if is_fenced else f"{error}"
                _log.warning("kafka %s: %r; trying again", self._settings.shown, error)
            finally:
                self._is_connected = False
                for each in [self._release(part) for part in list(self._owned)]:
                    each.result()
                if consumer is not None:
                    _close(consumer)
            self._stopping.wait(_RETRY_S)
        if is_member:  # else there may be no brokers to be notified
            leave_group(self._settings, self._name)

    def _connect(self) -> Any:  # noqa: ANN401 - untyped client
        settings = consumer_settings(self._settings, self._name)
        settings["partition_assignment_strategy"] = [CooperativeStickyAssignor]
        settings["metadata_max_age_ms"] = _METADATA_MS
        settings["max_poll_interval_ms"] = int(_JOIN_S * 1000)  # a round waits so long for us
        try:
            consumer = connect(KafkaConsumer, settings)
        except errors.KafkaError as error:
            raise TransientError(f"{error}{notes_of(error)}") from error
        keep_reading(consumer)
        consumer._cluster.config["allow_auto_create_topics"] = False
        until = time.monotonic() + _JOIN_S
        while not consumer.partitions_for_topic(self._settings.topic):
            if time.monotonic() > until or self._stopping.wait(_RETRY_S):
                raise TransientError(f"there is no topic {self._settings.topic!r}")
        return consumer

    def _consume(self, consumer: Any) -> None:  # noqa: ANN401 - untyped client
        reported = committed = 0.0
        joining_since: float | None = None
        while not self._stopping.is_set():
            is_joining = not _is_settled(consumer)
            now = time.monotonic()
            joining_since = (joining_since or now) if is_joining else None
            if joining_since is not None and now > joining_since + _JOIN_S:
                raise TransientError(f"the group has not answered for {_JOIN_S:g} s")
            if is_joining:
                batches = self._join(consumer)
            else:
                wait_ms = self._settle(consumer)
                batches = consumer.poll(timeout_ms=wait_ms, max_records=_MAX_MESSAGES)
            for place, messages in batches.items():
                self._feed(consumer, place, messages)
            now = time.monotonic()
            if now >= reported + _REPORT_S:
                reported = now
                self._report(consumer)
            if now >= committed + _COMMIT_S:
                committed = now
                self._commit(consumer)

    def _join(self, consumer: Any) -> dict[TopicPartition, Any]:  # noqa: ANN401 - untyped client
        """Go on with a round of the group; what came meanwhile of partitions that stay.

        A leader that learns of partitions joins again, and the client forgets that it wanted to
        where a poll ends before the round does: it has no heartbeats then, for ever. So it is
        reminded that it still wants to.
        """
        coordinator = consumer._coordinator
        if not coordinator.need_rejoin():
            coordinator.request_rejoin()
        # A poll goes on for as long as nothing comes, and nothing does before a start.
        found: dict[TopicPartition, Any] = consumer._poll_once(Timer(_JOIN_POLL_MS), _MAX_MESSAGES)
        if not found and not _is_settled(consumer):
            self._stopping.wait(_STEP_S)
        return found

    def _settle(self, consumer: Any) -> int:  # noqa: ANN401 - untyped client
        """Take, start, pause and resume partitions; how long to wait for messages then."""
        mine = {each.partition for each in consumer.assignment()}
        with self._lock:
            again, self._again = self._again, set()
            gone = [part for part in self._owned if part not in mine or part in again]
        heartbeat_s = min(3.0, self._settings.session_s / 3)
        for part in gone:
            if part in mine:
                consumer.pause(self._at(part))
                self._not_before[part] = time.monotonic() + heartbeat_s
            self._release(part)
        now = time.monotonic()
        new = sorted(
            part for part in mine - self._owned.keys() if now >= self._not_before.get(part, 0.0)
        )
        is_taking = False
        try:
            if new:
                self._open(consumer, new)
            for part, owned in list(self._owned.items()):
                if owned.is_started:
                    self._regulate(consumer, part, owned)
                else:
                    is_taking = True
                    self._go_on_taking(consumer, part, owned)
        except errors.KafkaError as error:
            self._unanswered(error)
        return _TAKING_POLL_MS if is_taking else POLL_MS

    def _open(self, consumer: Any, parts: Collection[int]) -> None:  # noqa: ANN401 - untyped client
        """Make the logs of partitions, and have them taken."""
        self._check_topic(consumer)
        places = [self._at(part) for part in parts]
        begins = consumer.beginning_offsets(places, timeout_ms=_TIMEOUT_MS)
        ends = consumer.end_offsets(places, timeout_ms=_TIMEOUT_MS)
        room = max(_MIN_BUFFER, self._buffer_bytes // max(1, len(consumer.assignment())))
        for place in places:
            log = PartitionLog(
                place.partition, self._settings, self._topic_log, begins[place], ends[place],
                buffer_bytes=room,
            )  # fmt: skip
            owned = _Owned(log)
            with self._lock:
                self._owned[place.partition] = owned
            owned.taking = self._pool.submit(self._take, place.partition, log)

    def _take(self, part: int, log: PartitionLog) -> int | None:
        leaving = self._leaving.get(part)
        if leaving is not None:
            leaving.result()
        return self._take_it(part, log)

    def _go_on_taking(self, consumer: Any, part: int, owned: _Owned) -> None:  # noqa: ANN401 - untyped client
        """Start a partition once it is taken; try again where it was not."""
        now = time.monotonic()
        taking = owned.taking
        if taking is None:
            if now >= owned.again_at:
                owned.taking = self._pool.submit(self._take, part, owned.log)
            return
        if not taking.done():
            return
        error = taking.exception()
        if error is not None:
            owned.taking, owned.again_at = None, now + _RETRY_S
            self._not_taken(part, f"partition {part} cannot be taken: {error}")
            return
        offset = taking.result() or None
        end = consumer.end_offsets([self._at(part)], timeout_ms=_TIMEOUT_MS)[self._at(part)]
        if offset is not None and offset > end:
            self._not_taken(part, self._torn(part, offset, end))
            self._not_before[part] = now + _RETRY_S
            self._release(part, is_fault_left=True)
            return
        position = owned.log.start(offset)
        consumer.seek(self._at(part), position)
        consumer.resume(self._at(part))
        owned.is_started = True
        with self._lock:
            self._take_faults.pop(part, None)
        _log.info("partition %d is read from offset %d on", part, position)

    def _torn(self, part: int, offset: int, end: int) -> str:
        return (
            f"the store has read partition {part} of {self._settings.topic!r} up to offset "
            f"{offset}, and the brokers end at {end}: they lost the end of it. To go on with what "
            f"comes now, set log_offset of the partition to {end} in the table `partitions`"
        )

    def _not_taken(self, part: int, why: str) -> None:
        with self._lock:
            is_news = self._take_faults.get(part) != why
            self._take_faults[part] = why
        if is_news:
            _log.warning("%s", why)

    def _regulate(self, consumer: Any, part: int, owned: _Owned) -> None:  # noqa: ANN401 - untyped client
        """Read no more of a partition than there is room for."""
        place = self._at(part)
        is_paused = place in consumer.paused()
        if owned.log.is_full and not is_paused:
            consumer.pause(place)
        elif is_paused and not owned.log.is_full:
            consumer.resume(place)
        owned.log.append_again()

    def _feed(self, consumer: Any, place: TopicPartition, messages: Sequence[Any]) -> None:  # noqa: ANN401 - untyped client
        owned = self._owned.get(place.partition)
        if owned is None or not owned.is_started:
            return  # it is about to be taken, or was given up
        log = owned.log
        expected, first = log.next or 0, 0
        if messages[0].offset < expected:
            raise TransientError(self._torn(place.partition, expected, messages[-1].offset + 1))
        if messages[0].offset > expected:
            try:
                first = self._begin_of(consumer, place)
            except errors.KafkaError as error:
                self._unanswered(error)
                consumer.seek(place, expected)
                return
        log.put(messages, first)

    def _report(self, consumer: Any) -> None:  # noqa: ANN401 - untyped client
        """Ask where the partitions end, and whether they are still those of the same topic."""
        self._check_topic(consumer)
        started = {part: each for part, each in self._owned.items() if each.is_started}
        places = [self._at(part) for part in started if self._at(part) in consumer.assignment()]
        try:
            ends: dict[TopicPartition, int] = (
                consumer.end_offsets(places, timeout_ms=_TIMEOUT_MS) if places else {}
            )
            for place in places:
                self._pass(consumer, place, started[place.partition].log)
        except errors.KafkaError as error:
            self._unanswered(error)
            return
        for place, end in ends.items():
            started[place.partition].log.report(end)
        self._is_connected = _is_settled(consumer)
        if self._is_connected:
            self._fault = ""

    def _check_topic(self, consumer: Any) -> None:  # noqa: ANN401 - untyped client
        found = topic_id_of(consumer, self._settings.topic)
        if found and found != self._topic_log.topic_id:
            raise ConfigError(
                f"the topic {self._settings.topic!r} was made anew: its offsets mean other "
                "messages now. Give the old one back, or start again with another topic and an "
                "empty store"
            )

    def _unanswered(self, error: errors.KafkaError) -> None:
        """Note that brokers do not answer; the partitions stay for as long as the group is."""
        if self._is_connected:
            _log.warning("kafka %s: no answer: %r", self._settings.shown, error)
        self._is_connected = False
        self._fault = f"the brokers {self._settings.shown} do not answer: {error!r}"

    def _begin_of(self, consumer: Any, place: TopicPartition) -> int:  # noqa: ANN401 - untyped client
        found: dict[TopicPartition, int] = consumer.beginning_offsets(
            [place], timeout_ms=_TIMEOUT_MS
        )
        return found[place]

    def _pass(self, consumer: Any, place: TopicPartition, log: PartitionLog) -> None:  # noqa: ANN401 - untyped client
        """Pass offsets behind which no message has come yet."""
        position = consumer.position(place, timeout_ms=_TIMEOUT_MS)
        expected = log.next
        if position is None or expected is None or position <= expected:
            return
        log.pass_to(position, self._begin_of(consumer, place))

    def _commit(self, consumer: Any) -> None:  # noqa: ANN401 - untyped client
        """Tell Kafka how far the store is, for its dashboards."""
        offsets: dict[TopicPartition, Any] = {}
        for part, owned in self._owned.items():
            stored = owned.log.stored
            if owned.is_started and stored is not None and stored != owned.committed:
                offsets[self._at(part)] = OffsetAndMetadata(stored, "", -1)
                owned.committed = stored
        if offsets:
            consumer.commit_async(offsets, callback=_note_commit)

    def _at(self, part: int) -> TopicPartition:
        return TopicPartition(self._settings.topic, part)

    # --- giving up --------------------------------------------------------------------------

    def _release(self, part: int, *, is_fault_left: bool = False) -> "Future[None]":
        """Have a partition given up; done once it is."""
        with self._lock:
            owned = self._owned.pop(part, None)
            if not is_fault_left:
                self._take_faults.pop(part, None)
            if owned is None:
                leaving = self._leaving.get(part)
                if leaving is not None:
                    return leaving
                done: Future[None] = Future()
                done.set_result(None)
                return done
            found = self._leaving[part] = self._pool.submit(self._leave, part, owned)
            return found

    def _leave(self, part: int, owned: _Owned) -> None:
        owned.log.close()
        try:
            if owned.taking is not None:
                owned.taking.result()
                self._give_it_up(part)
        except Exception as error:  # noqa: BLE001 the store fences it
            _log.warning("partition %d was given up: %r", part, error)


class _Listener(AsyncConsumerRebalanceListener):  # pyright: ignore[reportUntypedBaseClass]
    """Called in the client's own thread, while that of the consumer waits in a poll."""

    def __init__(
        self,
        consumer: Any,  # noqa: ANN401 - untyped client
        owned: Collection[int],
        release: Callable[[int], "Future[None]"],
    ) -> None:
        self._consumer, self._owned, self._release = consumer, owned, release

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Nothing is read of new ones before it is known from where on."""
        new = [each for each in assigned if each.partition not in self._owned]
        if new:
            self._consumer.pause(*new)

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Finish with what others are given next; meanwhile heartbeats go on."""
        leaving = [self._release(each.partition) for each in revoked]
        until = time.monotonic() + _RELEASE_S
        while not all(each.done() for each in leaving) and time.monotonic() < until:
            await self._consumer._net.sleep(_STEP_S)

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Others have them already."""
        for each in lost:
            self._release(each.partition)


def _note_commit(_: object, answer: object) -> None:
    if isinstance(answer, BaseException):
        _log.debug("kafka: offsets were not committed: %r", answer)


def _close(consumer: Any) -> None:  # noqa: ANN401 - untyped client
    try:
        consumer.close(autocommit=False)
    except Exception as error:  # noqa: BLE001 there is nothing left to do with it
        _log.warning("kafka: closing the consumer: %r", error)


def _is_settled(consumer: Any) -> bool:  # noqa: ANN401 - untyped client
    """True while no round of the group is under way."""
    return bool(consumer._coordinator.stable() and not consumer._coordinator.need_rejoin())
