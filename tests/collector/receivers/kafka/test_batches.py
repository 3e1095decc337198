"""Batches of Kafka that cannot be read, and those around them."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from crc32c import crc32c
from kafka import KafkaProducer
from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder
from kafka.structs import TopicPartition

from collector.receivers.kafka.intake import UnreadableBatch, keep_reading, values_in
from scouter.errors import DataError
from scouter.model.otlp import encode_request
from tests.collector.conftest import Start
from tests.collector.receivers.kafka.test_receiver import consuming
from tests.contracts.store_data import span
from tests.support.kafka_broker import ExternalBroker, KafkaBroker, create_topics
from tests.support.processes import wait_until

HEAD: int = DefaultRecordBatch.HEADER_STRUCT.size
CRC_AT: int = DefaultRecordBatch.CRC_OFFSET
ATTRIBUTES_AT: int = DefaultRecordBatch.ATTRIBUTES_OFFSET
CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def batch(first: int, codec: int = 0, magic: int = 2) -> bytes:
    """Three messages, whose values say their offsets."""
    is_relative = magic == 2
    builder: Any = MemoryRecordsBuilder(magic, codec, 2**20, offset=0 if is_relative else first)
    for offset in range(first, first + 3):
        builder.append(1_700_000_000_000, b"k", b"message %d " % offset * 20, [])
    builder.close()
    data = bytes(builder.buffer())
    return first.to_bytes(8, "big") + data[8:] if is_relative else data  # as a broker places it


def with_right_checksum(data: bytes) -> bytes:
    """The bytes of a producer with a broken codec."""
    crc = crc32c(data[ATTRIBUTES_AT:])
    return data[:CRC_AT] + crc.to_bytes(4, "big") + data[ATTRIBUTES_AT:]


def broken_codec(data: bytes) -> bytes:
    return with_right_checksum(data[:HEAD] + b"\xff" * (len(data) - HEAD))


def unknown_codec(data: bytes) -> bytes:
    at = ATTRIBUTES_AT + 1
    return with_right_checksum(data[:at] + bytes([data[at] | 7]) + data[at + 1 :])


def flipped(data: bytes) -> bytes:
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


def read(data: bytes, at: int) -> list[Any]:
    """The messages that the client's own reader finds in an answer for one partition."""
    consumer = SimpleNamespace(_fetcher=SimpleNamespace(PartitionRecords=Fetcher.PartitionRecords))
    keep_reading(consumer)
    records: Any = consumer._fetcher.PartitionRecords(
        at, TopicPartition("t", 0), MemoryRecords(data)
    )
    found: list[Any] = []
    while records:
        found += records.take(2)
    assert records.next_fetch_offset == 109
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("spoil", [broken_codec, unknown_codec, flipped])
def test_a_batch_that_cannot_be_read_is_one_message(
    codec: str, spoil: Callable[[bytes], bytes]
) -> None:
    """Between two good ones; its place is its last offset, so that the next one follows."""
    middle = spoil(batch(103, CODECS[codec]))
    found = read(batch(100) + middle + batch(106, CODECS[codec]), 101)

    assert [each.offset for each in found] == [101, 102, 105, 106, 107, 108]
    unread = found[2].value
    assert isinstance(unread, UnreadableBatch)
    assert (bytes(unread), unread.first_offset) == (middle, 103)
    assert unread.why
    assert found[3].value.startswith(b"message 106 message 106")
    with pytest.raises(DataError):
        values_in(unread)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [0, CODECS["gzip"]])
def test_batches_that_can_be_read_are_as_ever(magic: int, codec: int) -> None:
    """Also the forms of old brokers."""
    found = read(b"".join(batch(first, codec, magic) for first in (100, 103, 106)), 100)

    assert [each.offset for each in found] == list(range(100, 109))
    assert all(each.value == b"message %d " % each.offset * 20 for each in found)


def test_half_a_batch_is_none() -> None:
    with pytest.raises(DataError, match="no whole batch"):
        values_in(batch(100)[:-1])
    assert [each[:11] for each in values_in(batch(100, CODECS["zstd"]))] == [
        b"message 100", b"message 101", b"message 102",
    ]  # fmt: skip


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_of_a_broker_is_read(
    kafka: KafkaBroker | ExternalBroker,
    start: Start,
    answers: Path,
    topics: tuple[str, str],
    codec: str,
) -> None:
    create_topics(kafka.bootstrap, list(topics))  # else it looks for them again in ten seconds
    service = consuming(start, kafka.bootstrap, topics, profile=[str(answers)])
    send(kafka.bootstrap, codec, topics[1], 3)
    service.wait_for(3)
    assert service.get("/api/v1/conservation")["dead_letters"] == {}


def send(broker: str, codec: str, topic: str, count: int, partition: int = 0) -> None:
    """Records of one batch."""
    settings: dict[str, Any] = {"compression_type": codec}
    producer = KafkaProducer(bootstrap_servers=[broker], acks="all", linger_ms=200, **settings)
    for n in range(count):
        record = {"uid": f"{codec} {n}", "profile": "answers", "context": {"answer": 42}}
        producer.send(topic, json.dumps(record).encode(), partition=partition)
    producer.flush()
    producer.close()


def test_a_codec_whose_package_is_missing_stops_no_partition(
    kafka: KafkaBroker | ExternalBroker,
    start: Start,
    answers: Path,
    topics: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Both partitions go on behind it; once the package is there, its messages are taken in."""
    create_topics(kafka.bootstrap, list(topics), partitions=2)
    send(kafka.bootstrap, "snappy", topics[1], 3)
    send(kafka.bootstrap, "gzip", topics[1], 2)
    send(kafka.bootstrap, "zstd", topics[1], 2, partition=1)
    producer = KafkaProducer(bootstrap_servers=[kafka.bootstrap], compression_type="snappy")
    data = encode_request([span(1, attributes={"text": "x" * 500})]).SerializeToString()
    producer.send(topics[0], data, partition=1)  # large enough to be compressed at all
    producer.close()
    with monkeypatch.context() as patch:
        patch.setattr("kafka.codec.has_snappy", lambda: False)
        service = consuming(start, kafka.bootstrap, topics, profile=[str(answers)])
        service.wait_for(4)
        line = 'scouter_dead_letters_total{reason="unreadable_batch",space="default"}'
        wait_until(lambda: service.sample(line) == 2, what="two letters")
        (refused,) = replayed(service, "records_message")
        assert refused["result"] == "refused"
        assert "snappy" in refused["message"]
    assert "the batch of the offsets 0 to 2 cannot be read" in caplog.text

    assert [each["result"] for each in replayed(service, "records_message")] == ["accepted"]
    assert [each["result"] for each in replayed(service, "spans_message")] == ["accepted"]
    service.wait_for(7)
    sheet = service.get("/api/v1/conservation")
    assert (sheet["records"]["accepted"], sheet["dead_letters"]) == (7, {})
    wait_until(lambda: service.get("/api/v1/conservation")["spans"]["stored"] == 1, what="the span")


def replayed(service: Any, kind: str) -> Any:
    answer = service.http.post(
        "/api/v1/dead-letters/replay", params={"reason": "unreadable_batch", "kind": kind}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]
