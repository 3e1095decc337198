"""Kind of fault: messages that nobody has read are passed over without a word.

A real broker deletes what a retention would delete (`delete_records`), and topics are made anew.
"""

import json
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.receivers.kafka.commits import Continuity
from collector.receivers.kafka.settings import KafkaSettings, consumer_settings
from collector.settings.load import load_settings
from scouter.transport.kafka_client import connect
from tests.collector.conftest import Start
from tests.support.kafka_broker import (
    ExternalBroker,
    KafkaBroker,
    admin,
    create_topics,
    delete_topics,
)
from tests.support.processes import wait_until

Broker = KafkaBroker | ExternalBroker
OTHER_TOPIC: Final = f"topic-id={uuid.UUID(int=7)}"


class Line:
    """A topic with one partition, which two consumers may read one after the other."""

    def __init__(self, broker: str) -> None:
        self._broker, self.topic = broker, f"test.line.{uuid.uuid4().hex[:12]}"
        self.partition = TopicPartition(self.topic, 0)
        self.lost: list[tuple[int, int]] = []
        self.consumer: Any = None
        create_topics(broker, [self.topic], partitions=1)

    def put(self, count: int, **settings: Any) -> None:
        """Append messages."""
        producer: Any = KafkaProducer(bootstrap_servers=[self._broker], acks="all", **settings)
        if settings:
            producer.init_transactions()
            producer.begin_transaction()
        sent = [producer.send(self.topic, b"x", partition=0) for _ in range(count)]
        sent[-1].get(timeout=300)  # else a connection may be left half open
        if settings:
            producer.commit_transaction()
        producer.close()

    def delete_before(self, offset: int) -> None:
        """Delete the oldest messages."""
        with admin(self._broker) as client:
            client.delete_records({self.partition: offset})

    def make_anew(self) -> None:
        """Delete the topic, and make another one of that name, of which nothing is read yet."""
        self.offsets.clear()
        delete_topics(self._broker, [self.topic])
        create_topics(self._broker, [self.topic], partitions=1)

    def commit(self, offset: int, text: str = "") -> None:
        """Commit as the group."""
        self.consumer.commit({self.partition: OffsetAndMetadata(offset, text, -1)})

    def open(self) -> None:
        """Begin to read, as the group that has read before."""
        self.close()
        settings = load_settings({"kafka": self._broker, "kafka_group": self.topic})
        # Unlike the receiver's, it learns within half a second that a topic is another one, and
        # makes none itself. The client loses that setting on its way to the requests.
        found = {
            **consumer_settings(KafkaSettings.of(settings), "member"),
            "metadata_max_age_ms": 500,
        }
        self.consumer = connect(KafkaConsumer, found)
        self.consumer._cluster.config["allow_auto_create_topics"] = False
        self.continuity = Continuity(lambda _, first, number: self.lost.append((first, number)))
        wait_until(lambda: self.consumer.partitions_for_topic(self.topic), what="the topic")
        self.consumer.subscribe([self.topic])
        self.offsets: list[int] = []

    def turn(self) -> None:
        """Poll once."""
        # As the receiver does: the client may never get out of a round in which a poll ends.
        batches = self.consumer.poll(timeout_ms=100 if self.consumer.assignment() else 2000)
        found = self.continuity.follow(self.consumer, batches)
        self.offsets += [each.offset for each in found]
        self.continuity.look(self.consumer)

    def read(self, *offsets: int) -> None:
        """Read until the last messages have had these offsets."""

        def is_read() -> bool:
            self.turn()
            return self.offsets[-len(offsets) :] == list(offsets)

        wait_until(is_read, what=f"offsets {offsets}")

    def close(self) -> None:
        """End the consumer."""
        if self.consumer is not None:
            self.consumer.close(autocommit=False)


@pytest.fixture
def line(kafka: Broker) -> Iterator[Line]:
    """A topic with ten messages, of which the group has read all."""
    made = Line(kafka.bootstrap)
    made.put(10)
    made.open()
    made.read(*range(10))
    made.commit(10, made.continuity.mark(made.topic))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("is_away", "is_empty"),
    [
        pytest.param(True, False, id="away, some are left"),
        pytest.param(True, True, id="away, none is left"),
        pytest.param(False, True, id="running, none is left"),
    ],
)
def test_what_was_deleted_before_it_was_read_is_counted(
    line: Line, is_away: bool, is_empty: bool
) -> None:
    """Twenty messages came, and the first twelve or all are gone."""
    if is_away:
        line.close()
    line.put(20)
    line.delete_before(30 if is_empty else 22)
    if is_away:
        line.open()
    if is_empty:
        wait_until(lambda: (line.turn(), line.lost)[1], what="the loss is noticed")
        line.put(1)
        line.read(30)
    else:
        line.read(*range(22, 30))
    assert line.lost == [(10, 20 if is_empty else 12)]


def test_offsets_without_a_message_are_no_loss(line: Line) -> None:
    """A transaction ends with a mark; what was read may be deleted."""
    line.put(2, transactional_id=line.topic)
    line.put(2, transactional_id=line.topic)
    line.read(10, 11, 13, 14)
    line.delete_before(14)
    line.put(1)
    line.read(14, 16)
    assert line.lost == []


def test_a_partition_that_was_never_read_begins_at_its_first_message(kafka: Broker) -> None:
    """What was deleted before its group existed is no loss of its."""
    made = Line(kafka.bootstrap)
    made.put(10)
    made.delete_before(6)
    made.open()
    try:
        made.read(6, 7, 8, 9)
        assert made.lost == []
    finally:
        made.close()


@pytest.mark.parametrize(
    ("is_away", "count"),
    [
        pytest.param(True, 25, id="away, longer"),
        pytest.param(False, 25, id="running, longer"),
        pytest.param(False, 4, id="running, shorter"),
    ],
)
def test_a_topic_made_anew_is_not_taken_for_read(
    line: Line, is_away: bool, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    if is_away:
        line.close()
    line.make_anew()
    line.put(count)
    if is_away:
        line.open()
    line.read(*range(count))
    assert line.lost == []
    assert is_away or "made anew" in caplog.text  # the brokers forget its offsets, too


@pytest.mark.parametrize(
    ("offset", "text", "first"),
    [
        pytest.param(5, OTHER_TOPIC, 0, id="of another topic"),
        pytest.param(50, "", 0, id="behind the end"),
        pytest.param(5, "of somebody", 5, id="with another text"),
    ],
)
def test_an_offset_holds_for_its_own_topic(line: Line, offset: int, text: str, first: int) -> None:
    line.commit(offset, text)
    line.open()
    line.read(*range(first, 10))
    assert line.offsets == list(range(first, 10))
    assert line.lost == []


def test_a_loss_is_counted_once_for_ever(
    kafka: Broker, start: Start, answers: Path, topics: tuple[str, str]
) -> None:
    """Across starts of the collector that find it again, as nothing came behind it."""
    create_topics(kafka.bootstrap, list(topics), partitions=1)
    records = TopicPartition(topics[1], 0)
    series = 'scouter_queue_dropped_total{reason="overtaken",space="default"}'
    lost = f'scouter_ingest_lost_messages_total{{queue="{topics[1]}-0",receiver="kafka"}}'
    flags: dict[str, Any] = {
        "kafka": kafka.bootstrap, "kafka_spans_topic": topics[0], "kafka_records_topic": topics[1],
        "kafka_group": topics[0], "profile": [str(answers)],
    }  # fmt: skip

    def produce(*numbers: int) -> None:
        producer = KafkaProducer(bootstrap_servers=[kafka.bootstrap], acks="all")
        for n in numbers:
            record = {"uid": f"u{n}", "profile": "answers", "context": {"answer": 42}}
            producer.send(topics[1], json.dumps(record).encode()).get(timeout=300)
        producer.close()

    produce(0, 1)
    service = start(**flags)
    service.wait_for(2)
    service.stop()
    produce(2, 3, 4)
    with admin(kafka.bootstrap) as client:
        client.delete_records({records: 5})
    for _ in range(2):
        service = start(**flags)
        wait_until(lambda: service.sample(lost) == 3, what="the loss is noticed")  # noqa: B023
        assert service.sample(series) == 3
    produce(5)
    service.wait_for(3)
    assert service.sample(series) == 3
