"""Records and spans over a real Kafka broker."""

import json
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import pytest
from kafka import KafkaConsumer
from kafka.structs import TopicPartition
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from scouter.model.otlp import decode_request
from scouter.model.span import Span
from scouter.transport.config import KafkaConfig
from scouter.transport.kafka_client import partition_of
from tests.contracts.transport import TransportContract
from tests.contracts.transport_data import make_items, make_spans
from tests.support.kafka_broker import ExternalBroker, KafkaBroker, create_topics, delete_topics

T = TypeVar("T")
PARTITIONS = 5


class Topics:
    """Two topics of their own, and what is in them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        name = uuid.uuid4().hex[:8]
        self.records, self.spans = f"records-{name}", f"spans-{name}"
        create_topics(bootstrap, [self.records, self.spans], partitions=PARTITIONS)

    @property
    def config(self) -> KafkaConfig:
        """Settings that write to them."""
        return KafkaConfig(
            brokers=self.bootstrap,
            records_topic=self.records,
            spans_topic=self.spans,
            timeout_s=10,
            max_message_bytes=40_000,
        )

    def read(self, topic: str, wanted: int, count: Callable[[list[Any]], int]) -> list[Any]:
        """All messages of a topic, once they hold as many items as wanted."""
        # Any, because the stubs that type checkers bring along describe kafka-python 2.
        consumer = cast(Any, KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None))
        try:
            places = [TopicPartition(topic, n) for n in range(PARTITIONS)]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            found: list[Any] = []
            deadline = time.monotonic() + 30
            while count(found) < wanted and time.monotonic() < deadline:
                for messages in consumer.poll(timeout_ms=200).values():
                    found += messages
            return found
        finally:
            consumer.close()


@pytest.fixture
def topics(kafka: KafkaBroker | ExternalBroker) -> Iterator[Topics]:
    """Fresh topics, deleted afterwards."""
    made = Topics(kafka.bootstrap)
    yield made
    delete_topics(kafka.bootstrap, [made.records, made.spans])


def spans_in(messages: list[Any]) -> list[Span]:
    """The spans that messages hold."""
    return [
        span
        for message in messages
        for span in decode_request(ExportTraceServiceRequest.FromString(message.value)).spans
    ]


class TestContract(TransportContract):
    """The whole contract over Kafka."""

    @pytest.fixture(autouse=True)
    def running(self, topics: Topics, kafka: KafkaBroker | ExternalBroker) -> None:
        self.topics, self.kafka = topics, kafka

    def config(self) -> KafkaConfig:
        return self.topics.config

    @contextmanager
    def away(self) -> Generator[None]:
        if not isinstance(self.kafka, KafkaBroker):
            pytest.skip("KAFKA_BOOTSTRAP names a broker that is not ours to stop")
        with self.kafka.paused():
            yield

    def received_drops(self) -> list[str]:
        headers = [
            each for m in self.topics.read(self.topics.records, 1, len) for each in m.headers
        ]
        return [value.decode() for name, value in headers if name == "scouter-dropped"]

    def received_records(self, count: int) -> list[dict[str, Any]]:
        messages = self.topics.read(self.topics.records, count, len)
        return [json.loads(message.value) for message in messages]

    def received_spans(self, count: int) -> list[Span]:
        spans = spans_in(
            self.topics.read(self.topics.spans, count, lambda found: len(spans_in(found)))
        )
        return spans


def test_keys_and_partitions_are_the_collectors(topics: Topics) -> None:
    """Records and spans of one trace are in the partition of the same number."""
    items, spans = make_items(20), make_spans(20, traces=6)
    transport = topics.config.open()
    transport.send_records(items)
    transport.send_spans(spans)
    transport.close()

    for message in topics.read(topics.records, 20, len):
        record = json.loads(message.value)
        assert message.key.decode() == (record["trace_id"] or record["uid"])
        assert message.partition == partition_of(message.key, PARTITIONS)
    messages = topics.read(topics.spans, 20, lambda found: len(spans_in(found)))
    assert len(messages) == 6
    for message in messages:
        assert {span.trace_id for span in spans_in([message])} == {message.key.decode()}
        assert message.partition == partition_of(message.key, PARTITIONS)


def test_a_record_that_is_too_large_costs_only_itself(topics: Topics) -> None:
    transport = topics.config.open()
    large = make_items(1, {"text": "x" * 1_200_000})

    assert transport.send_records([*make_items(2), *large]) == 1
    transport.close()
    assert len(topics.read(topics.records, 2, len)) == 2
