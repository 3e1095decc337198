"""A process in the group that shares the log's partitions, on a real broker."""

import gc
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from kafka import KafkaProducer
from kafka.structs import TopicPartition

from collector.fleet.member import Member
from collector.fleet.partition_log import PartitionLog
from collector.fleet.topic_log import TopicLog
from collector.items.drop_reports import unpack_dropped
from collector.log.port import Entry, Item, Kind
from collector.metrics import OVERTAKEN
from collector.receivers.kafka.settings import KafkaSettings
from scouter.errors import TransientError
from scouter.transport.drops import Count
from scouter.transport.kafka_client import partition_of
from tests.support.kafka_broker import (
    ExternalBroker,
    KafkaBroker,
    admin,
    create_topics,
    delete_topics,
    own_broker,
)
from tests.support.processes import wait_until

SESSION_S: Final = 3.0
PARTITIONS: Final = 4
_numbers = itertools.count(1)
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


class Stored:
    """The store of a fleet: by partition the offset, and what was stored."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.offsets: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.entries: list[tuple[int, Entry]] = []
        self.calls: list[tuple[str, int]] = []
        """Calls of the workers of all processes, in order."""

    def uids(self) -> list[str]:
        """Uids of the stored records, in order."""
        with self.lock:
            items = [each.item for _, each in self.entries]
        bodies = [json.loads(bytes(each.body)) for each in items if each.kind == Kind.RECORDS]
        return sorted(row["uid"] for body in bodies for row in body["records"])

    def losses(self) -> list[dict[tuple[str, str], Count]]:
        with self.lock:
            items = [each.item for _, each in self.entries]
        return [dict(unpack_dropped(bytes(i.body))) for i in items if i.kind == Kind.DROPS]


class Desk:
    """Workers of one process, each in a thread: they store what their partitions have."""

    def __init__(self, stored: Stored, log: TopicLog, settings: KafkaSettings, name: str) -> None:
        self.stored, self.name = stored, name
        self.logs: dict[int, PartitionLog] = {}
        self.calls: list[tuple[str, int]] = []
        self.works = threading.Event()
        self.works.set()
        self.before_give_up: Callable[[], object] = lambda: None
        self.before_take: Callable[[], object] = lambda: None
        self._ends: dict[int, threading.Event] = {}
        self._threads: dict[int, threading.Thread] = {}
        self.member = Member(settings, log, name, self.take, self.give_up, buffer_bytes=8 * 2**20)

    def take(self, part: int, log: PartitionLog) -> int | None:
        self.before_take()
        with self.stored.lock:
            offset = self.stored.offsets.get(part)
            epoch = self.stored.epochs[part] = self.stored.epochs.get(part, 0) + 1
            self._tell("take", part)
        self.logs[part] = log
        end = self._ends[part] = threading.Event()
        self._threads[part] = threading.Thread(target=self._work, args=(part, epoch, offset, end))
        self._threads[part].start()
        return offset

    def give_up(self, part: int) -> None:
        self.before_give_up()
        self._ends[part].set()
        self._threads[part].join()
        with self.stored.lock:
            self._tell("give up", part)

    def _tell(self, what: str, part: int) -> None:
        self.calls.append((what, part))
        self.stored.calls.append((what, part))

    def _work(self, part: int, epoch: int, offset: int | None, end: threading.Event) -> None:
        log, at = self.logs[part], offset or 0
        while not end.is_set():
            if not self.works.is_set() or not log.wait(at, 0.05):
                end.wait(0.01)
                continue
            chunk = log.read(at, 2**20)
            with self.stored.lock:
                if self.stored.epochs[part] != epoch:
                    self._tell("fenced", part)
                    return
                self.stored.entries += [(part, entry) for entry in chunk.entries]
                at = self.stored.offsets[part] = chunk.next
            log.trim(at)


class Room:
    """A topic, its log, and desks that read it."""

    def __init__(self, bootstrap: str, topic: str = "", partitions: int = PARTITIONS) -> None:
        topic = topic or f"work.member.{next(_numbers)}"
        self.settings = KafkaSettings(
            servers=(bootstrap,), group=f"{topic}.workers", topic=topic, session_s=SESSION_S
        )
        self.bootstrap, self.stored = bootstrap, Stored()
        self.log = TopicLog(self.settings, partitions)
        self.desks: list[Desk] = []

    def desk(self, name: str = "", *, is_started: bool = True) -> Desk:
        name = name or f"worker-{len(self.desks)}"
        desk = Desk(self.stored, self.log, self.settings, name)
        self.desks.append(desk)
        if is_started:
            desk.member.start()
        return desk

    def append(self, *uids: str, text: str = "") -> None:
        rows = [{"uid": uid, "profile": "p", "context": text} for uid in uids]
        body = json.dumps({"records": rows}).encode()
        self.log.append(Item(Kind.RECORDS, "default", time.time_ns(), body, "http")).result(120)

    def wait_stored(self, *uids: str) -> None:
        wanted = sorted(uids)
        wait_until(lambda: self.stored.uids() == wanted, what="records are stored", timeout_s=120)

    def delete_before(self, part: int, offset: int) -> None:
        """Take away what lies before an offset, as retention does."""
        with admin(self.bootstrap) as client:
            client.delete_records({TopicPartition(self.settings.topic, part): offset})

    def close(self) -> None:
        for each in self.desks:
            each.member.stop()
        self.log.close()


@pytest.fixture
def room(kafka: KafkaBroker | ExternalBroker) -> Iterator[Room]:
    found = Room(kafka.bootstrap)
    yield found
    found.close()
    gc.collect()  # kafka-python leaves the sockets of vain tries to its garbage


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """A broker that tests of this module stop and start."""
    with own_broker() as running:
        yield running


@pytest.fixture
def frail_room(broker: KafkaBroker) -> Iterator[Room]:
    """On a broker that may be stopped."""
    found = Room(broker.bootstrap)
    yield found
    found.close()
    gc.collect()


def named(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def has_all(desk: Desk, count: int = PARTITIONS) -> Callable[[], bool]:
    return lambda: len(desk.member.parts) == count


def all_stored(desk: Desk) -> bool:
    """True once the store has all of every partition."""
    return all(log.begin == log.end for log in desk.logs.values())


# --- reading ------------------------------------------------------------------------------------


def test_what_is_appended_is_stored_once_by_the_owner_of_its_partition(room: Room) -> None:
    before, after = named("before", 20), named("after", 20)
    room.append(*before)
    desk = room.desk()
    wait_until(has_all(desk), what="all partitions are taken")
    room.append(*after)
    room.wait_stored(*before, *after)
    for part, entry in room.stored.entries:
        rows = json.loads(bytes(entry.item.body))["records"]
        assert {partition_of(row["uid"].encode(), PARTITIONS) for row in rows} == {part}
    wait_until(lambda: all_stored(desk), what="nothing is left")
    wait_until(lambda: desk.member.is_connected, what="brokers answer")
    assert desk.member.fault == ""


def test_a_process_goes_on_where_the_store_is(room: Room) -> None:
    first, second = named("first", 10), named("second", 10)
    room.append(*first)
    desk = room.desk()
    room.wait_stored(*first)
    desk.member.stop()
    assert sorted(part for what, part in desk.calls if what == "give up") == [0, 1, 2, 3]
    assert desk.member.parts == ()
    room.append(*second)
    room.desk()
    room.wait_stored(*first, *second)


def test_offsets_are_committed_for_dashboards(room: Room) -> None:
    room.append(*named("u", 20))
    desk = room.desk()
    room.wait_stored(*named("u", 20))

    def committed() -> dict[int, int]:
        with admin(room.bootstrap) as client:
            found = client.list_group_offsets(room.settings.group)[room.settings.group]
        return {place.partition: each.offset for place, each in found.items()}

    wait_until(
        lambda: committed() == room.stored.offsets, what="offsets are committed", every_s=0.5
    )
    assert desk.member.fault == ""


def test_a_message_of_four_megabytes(room: Room) -> None:
    room.append("large", text="x" * 4_100_000)
    room.append("small")
    room.desk()
    room.wait_stored("large", "small")


def test_no_more_is_read_than_there_is_room_for(room: Room) -> None:
    """A partition has 2 MiB; 8 MiB come while its worker does nothing."""
    desk = room.desk()
    wait_until(has_all(desk), what="all partitions are taken")
    desk.works.clear()
    uids = [uid for uid in named("u", 200) if partition_of(uid.encode(), PARTITIONS) == 1][:32]
    for uid in uids:
        room.append(uid, text="x" * 2**18)
    log = desk.logs[1]
    # The worker may have taken some of them at once before it began to do nothing.
    wait_until(lambda: log.is_full and log.end > log.begin + 16, what="the buffer is full")
    most = log.size_bytes
    assert most < 4 * 2**20
    room.append("other")  # in another partition, which is read on
    assert partition_of(b"other", PARTITIONS) != 1
    wait_until(
        lambda: desk.logs[partition_of(b"other", PARTITIONS)].size_bytes > 0,
        what="the others are read",
    )
    assert log.size_bytes == most
    desk.works.set()
    room.wait_stored(*uids, "other")


# --- moving -------------------------------------------------------------------------------------


def test_a_partition_moves_once_its_owner_has_finished_with_it(room: Room) -> None:
    first = room.desk()
    wait_until(has_all(first), what="all partitions are taken")
    may_end, is_ending = threading.Event(), threading.Event()
    first.before_give_up = lambda: (is_ending.set(), may_end.wait(120))
    second = room.desk()
    assert is_ending.wait(120)
    room.append(*named("meanwhile", 20))
    assert second.calls == []
    may_end.set()
    wait_until(has_all(second, 2), what="two partitions have moved")
    assert set(first.member.parts) | set(second.member.parts) == set(range(PARTITIONS))
    room.append(*named("after", 20))
    room.wait_stored(*named("meanwhile", 20), *named("after", 20))
    moved = {part for what, part in first.calls if what == "give up"}
    assert moved == set(second.member.parts)
    assert room.stored.epochs == {p: 1 + (p in moved) for p in range(PARTITIONS)}
    for part in moved:
        assert room.stored.calls.index(("give up", part)) < len(room.stored.calls) - 1 - (
            room.stored.calls[::-1].index(("take", part))
        )


def test_members_come_and_go_while_messages_do(room: Room) -> None:
    """Each record is stored once, whoever has its partition."""
    uids: list[str] = []

    def send() -> None:
        for number in range(300):
            uids.append(f"u{number}")
            room.append(uids[-1])

    sending = threading.Thread(target=send)
    sending.start()
    for _ in range(3):
        desks = [room.desk(), room.desk()]
        wait_until(
            lambda pair=desks: all(each.member.parts for each in pair), what="both have some"
        )
        desks[0].member.stop()
        wait_until(has_all(desks[1]), what="the other one has all")
        desks[1].member.stop()
    room.desk()
    sending.join()
    room.wait_stored(*uids)


def test_partitions_of_a_process_that_was_killed_go_to_others(room: Room) -> None:
    program = textwrap.dedent(f"""
        import sys, time
        from collector.fleet.member import Member
        from collector.fleet.topic_log import TopicLog
        from collector.receivers.kafka.settings import KafkaSettings
        settings = KafkaSettings(servers=({room.bootstrap!r},), group={room.settings.group!r},
            topic={room.settings.topic!r}, session_s={SESSION_S})
        member = Member(settings, TopicLog(settings, None), "doomed", lambda *_: None, print)
        member.start()
        while len(member.parts) < {PARTITIONS}:
            time.sleep(0.02)
        print("has all", flush=True)
        time.sleep(600)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == "has all\n"
        room.append(*named("u", 10))
        desk = room.desk()
        os.kill(doomed.pid, signal.SIGKILL)
    wait_until(has_all(desk), what="the other one has all", timeout_s=120)
    room.wait_stored(*named("u", 10))


def test_a_partition_that_cannot_be_taken_is_tried_again(room: Room) -> None:
    desk = room.desk(is_started=False)

    def fail() -> None:
        raise TransientError("PostgreSQL is away")

    desk.before_take = fail
    room.append(*named("u", 10))
    desk.member.start()
    wait_until(lambda: "PostgreSQL is away" in desk.member.fault, what="the fault is reported")
    assert desk.member.parts == ()
    desk.before_take = lambda: None
    wait_until(has_all(desk), what="all partitions are taken")
    room.wait_stored(*named("u", 10))
    wait_until(lambda: desk.member.fault == "", what="the fault is over")


def test_a_worker_that_was_fenced_takes_its_partition_again(room: Room) -> None:
    desk = room.desk()
    wait_until(has_all(desk), what="all partitions are taken")
    with room.stored.lock:
        room.stored.epochs[2] += 1
    uid = next(uid for uid in named("u", 99) if partition_of(uid.encode(), PARTITIONS) == 2)
    room.append(uid)
    wait_until(lambda: ("fenced", 2) in desk.calls, what="the worker is fenced")
    desk.member.retake(2)
    room.wait_stored(uid)
    assert desk.calls[-2:] == [("give up", 2), ("take", 2)]
    wait_until(has_all(desk), what="all partitions are read")
    assert room.stored.epochs[2] == 3


def test_two_workers_of_one_name_learn_it(room: Room) -> None:
    first = room.desk("same")
    wait_until(has_all(first), what="all partitions are taken")
    room.desk("same")
    wait_until(
        lambda: any("another worker has the name 'same'" in d.member.fault for d in room.desks),
        what="the fault is reported",
        timeout_s=120,
    )


# --- what is lost -------------------------------------------------------------------------------


def test_what_retention_took_before_it_was_read_is_counted_once(room: Room) -> None:
    """Of partition 1 the store has 3 messages, and 4 more are gone."""
    uids = [uid for uid in named("u", 200) if partition_of(uid.encode(), PARTITIONS) == 1][:9]
    for uid in uids:
        room.append(uid)
    room.stored.offsets[1] = 3
    room.delete_before(1, 7)
    desk = room.desk()
    room.wait_stored(*uids[7:])
    topic, group = room.settings.topic, room.settings.group
    lost = {(f"kafka:{group}:{topic}-1:3", OVERTAKEN): Count(0, 4)}
    assert room.stored.losses() == [lost]
    desk.member.stop()
    room.stored.offsets[1] = 3  # as after a crash before the commit
    again = room.desk()
    wait_until(has_all(again), what="all partitions are taken")
    wait_until(lambda: len(room.stored.losses()) == 2, what="it is read again")
    assert room.stored.losses() == [lost, lost]  # of one sender: counted once


def test_what_is_lost_is_counted_before_another_message_comes(room: Room) -> None:
    uids = [uid for uid in named("u", 200) if partition_of(uid.encode(), PARTITIONS) == 1][:5]
    for uid in uids:
        room.append(uid)
    room.stored.offsets[1] = 3
    room.delete_before(1, 5)
    room.desk()
    wait_until(lambda: bool(room.stored.losses()), what="the loss is counted")
    assert [count for each in room.stored.losses() for count in each.values()] == [Count(0, 2)]
    wait_until(lambda: room.stored.offsets[1] == 5, what="the offset is stored")


def test_a_partition_never_read_begins_at_the_earliest_message(room: Room) -> None:
    uids = [uid for uid in named("u", 200) if partition_of(uid.encode(), PARTITIONS) == 1][:5]
    for uid in uids:
        room.append(uid)
    room.delete_before(1, 3)
    room.stored.offsets[1] = 0  # PostgreSQL's row before the first commit
    room.desk()
    room.wait_stored(*uids[3:])
    assert room.stored.losses() == []


def test_marks_of_transactions_are_no_loss(room: Room) -> None:
    """And are passed, or the partition would be behind for ever."""
    producer: Any = KafkaProducer(
        bootstrap_servers=[room.bootstrap], transactional_id=room.settings.topic
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        uid = next(uid for uid in named("u", 99) if partition_of(uid.encode(), PARTITIONS) == 2)
        body = json.dumps({"profile": "p", "uid": uid}).encode()
        headers = [("scouter-kind", b"record")]
        producer.send(room.settings.topic, body, partition=1, headers=headers)
        producer.commit_transaction()
    finally:
        producer.close()
    desk = room.desk()
    wait_until(lambda: room.stored.offsets.get(1) == 2, what="the mark is passed", timeout_s=120)
    wait_until(lambda: all_stored(desk), what="nothing is left")
    assert room.stored.losses() == []


def test_messages_of_others_are_stored_where_they_belong(room: Room) -> None:
    """Without headers, by any partition, as a foreign exporter writes them."""
    uids = named("u", 12)
    producer: Any = KafkaProducer(bootstrap_servers=[room.bootstrap])
    headers = [("scouter-kind", b"records"), ("scouter-parts", b"99")]
    try:
        for number, uid in enumerate(uids):
            body = json.dumps({"records": [{"profile": "p", "uid": uid}]}).encode()
            producer.send(room.settings.topic, body, partition=number % 4, headers=headers)
        producer.flush(30)
    finally:
        producer.close()
    room.desk()
    room.wait_stored(*uids)
    for part, entry in room.stored.entries:
        (row,) = json.loads(bytes(entry.item.body))["records"]
        assert partition_of(row["uid"].encode(), PARTITIONS) == part
        assert entry.item.is_of_broker


def test_a_topic_that_ends_before_the_store_is_refused(room: Room) -> None:
    room.append("u")
    part = partition_of(b"u", PARTITIONS)
    room.stored.offsets[part] = 50
    desk = room.desk()
    wait_until(has_all(desk, PARTITIONS - 1), what="the others are read")
    wait_until(lambda: "up to offset 50" in desk.member.fault, what="the fault is reported")
    assert "log_offset" in desk.member.fault
    with room.stored.lock:
        room.stored.offsets[part] = 0
    room.wait_stored("u")
    wait_until(lambda: desk.member.fault == "", what="the fault is over")


def test_a_topic_made_anew_is_refused(room: Room) -> None:
    room.append(*named("u", 10))
    desk = room.desk()
    room.wait_stored(*named("u", 10))
    delete_topics(room.bootstrap, [room.settings.topic])
    create_topics(room.bootstrap, [room.settings.topic], partitions=PARTITIONS)
    wait_until(
        lambda: "made anew" in desk.member.fault, what="the fault is reported", timeout_s=120
    )
    assert desk.member.parts == ()
    other = TopicLog(room.settings, None)
    try:
        assert other.topic_id != room.log.topic_id
        body = json.dumps({"records": [{"profile": "p", "uid": "new"}]}).encode()
        for _ in range(40):
            other.append(Item(Kind.RECORDS, "default", 1, body, "http")).result(120)
    finally:
        other.close()
    desk.member.stop()
    assert room.stored.uids() == sorted(named("u", 10))


def test_no_topic_is_said_in_words(room: Room) -> None:
    delete_topics(room.bootstrap, [room.settings.topic])
    desk = room.desk()
    desk.member.stop()
    assert desk.member.parts == ()


# --- brokers that go away -----------------------------------------------------------------------


def test_brokers_that_come_back_find_the_partitions_where_they_were(
    frail_room: Room, broker: KafkaBroker
) -> None:
    room = frail_room
    room.append(*named("before", 10))
    desk = room.desk()
    room.wait_stored(*named("before", 10))
    wait_until(lambda: desk.member.is_connected, what="brokers answer")
    broker.stop()
    wait_until(lambda: not desk.member.is_connected, what="it is noticed", timeout_s=120)
    assert broker.bootstrap in desk.member.fault
    assert has_all(desk)()
    broker.start()
    wait_until(lambda: desk.member.is_connected, what="brokers answer", timeout_s=120)
    wait_until(lambda: not room.log.fault, what="messages are taken", timeout_s=120)
    room.append(*named("after", 10))
    room.wait_stored(*named("before", 10), *named("after", 10))
    assert desk.member.fault == ""


def test_brokers_that_are_not_there_yet_are_waited_for(
    frail_room: Room, broker: KafkaBroker
) -> None:
    room = frail_room
    room.append("u")
    broker.stop()
    desk = room.desk()
    wait_until(lambda: bool(desk.member.fault), what="the fault is reported", timeout_s=120)
    assert not desk.member.is_connected
    broker.start()
    wait_until(has_all(desk), what="all partitions are taken", timeout_s=120)
    room.wait_stored("u")


def test_a_member_that_stood_still_gives_up_what_others_have(
    frail_room: Room, broker: KafkaBroker
) -> None:
    """The broker stands still for longer than the session; for the member that is the same."""
    room = frail_room
    desk = room.desk()
    wait_until(has_all(desk), what="all partitions are taken")
    with broker.paused():
        wait_until(lambda: not desk.member.is_connected, what="it is noticed", timeout_s=120)
        time.sleep(SESSION_S)
    other = room.desk()
    wait_until(lambda: len(other.member.parts) == 2, what="the other has its half", timeout_s=120)
    wait_until(lambda: len(desk.member.parts) == 2, what="and this one the rest", timeout_s=120)
    room.append(*named("u", 20))
    room.wait_stored(*named("u", 20))
