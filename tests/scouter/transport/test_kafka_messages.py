"""Messages of the Kafka transport; the integration tests have the broker itself."""

import json
import ssl
import subprocess
import sys
from typing import ClassVar

import pytest
from kafka import errors
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan

from scouter.errors import ConfigError, TransientError
from scouter.model.otlp import decode_request
from scouter.transport.config import KafkaConfig
from scouter.transport.kafka import (
    KafkaTransport,
    producer_settings,
    record_message,
    span_messages,
)
from scouter.transport.otlp import write_request
from scouter.transport.port import encode_record
from tests.contracts.transport_data import make_items, make_spans, with_unwritable


def written(spans: list[ReadableSpan]) -> bytes:
    """One request with all of them."""
    return write_request(spans)[0]


def test_a_record_is_keyed_by_its_trace_or_else_by_its_uid() -> None:
    without, with_trace = make_items(2)

    plain, message = record_message("t", without), record_message("t", with_trace)
    assert plain is not None
    assert plain[:2] == ("t", without.uid.encode())
    assert message is not None
    topic, key, value, count = message
    assert (topic, key, count) == ("t", b"0" * 31 + b"2", 1)
    assert value == encode_record(with_trace)


class Producer:
    """Keeps what it is given, as a broker with one partition would.

    Args:
        fault: Error of each message; None for success.
        closing: Error of closing; None for success.
    """

    def __init__(self, fault: Exception | None = None, closing: Exception | None = None) -> None:
        self.values: list[bytes] = []
        self.fault, self.closing = fault, closing

    def partitions_for(self, topic: str) -> set[int]:
        del topic
        return {0}

    def send(self, topic: str, value: bytes, key: bytes, **more: object) -> "Producer":
        del topic, key, more
        self.values.append(value)
        return self

    def get(self, timeout: float) -> None:
        """The answer to each message: it is taken."""
        if self.fault is not None:
            raise self.fault

    def flush(self, timeout_s: float) -> None:
        del timeout_s

    def close(self, timeout: float) -> None:
        """End, as far as it can."""
        if self.closing is not None:
            raise self.closing


@pytest.mark.parametrize(
    "fault",
    [
        errors.KafkaTimeoutError(),
        errors.UnknownError("Future not done"),
        errors.IllegalStateError("RecordAccumulator is closed"),
        errors.OutOfOrderSequenceNumberError(),
        RuntimeError("NetworkSelector closed!"),
        ConnectionResetError(),
        KeyError("node"),
        AttributeError("'NoneType' object has no attribute 'send'"),
    ],
)
def test_no_batch_is_given_up_for_what_went_wrong_in_the_client(fault: Exception) -> None:
    for closing in (None, errors.KafkaTimeoutError(), RuntimeError("closed")):
        with pytest.raises(TransientError, match=type(fault).__name__):
            KafkaTransport(KafkaConfig(), Producer(fault, closing)).send_records(make_items(2))


def test_a_partition_that_the_client_has_just_forgotten_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer = Producer()

    def forgets(*args: object, **more: object) -> Producer:
        raise ValueError("Unrecognized partition 0 for topic scouter.records")

    monkeypatch.setattr(producer, "send", forgets)
    with pytest.raises(TransientError, match=r"scouter\.records.*Unrecognized partition"):
        KafkaTransport(KafkaConfig(), producer).send_records(make_items(2))


@pytest.mark.parametrize(
    ("fault", "meaning"),
    [
        (RuntimeError("can't start new thread"), TransientError),
        (OSError(24, "Too many open files"), TransientError),
        (errors.KafkaConnectionError("Unable to bootstrap"), TransientError),
        (FileNotFoundError(2, "No such file"), ConfigError),
        (ssl.SSLError("no certificate found"), ConfigError),
        (errors.SaslAuthenticationFailedError(), ConfigError),
    ],
)
def test_only_settings_keep_a_producer_from_being_made_again(
    fault: Exception, meaning: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refuses:
        DEFAULT_CONFIG: ClassVar = {"kafka_client": object}

        def __init__(self, **settings: object) -> None:
            raise fault

    monkeypatch.setattr("scouter.transport.kafka.KafkaProducer", Refuses)
    with pytest.raises(meaning):
        KafkaTransport(KafkaConfig())


@pytest.mark.parametrize("fault", [errors.TopicAuthorizationFailedError, errors.InvalidTopicError])
def test_what_the_settings_are_at_fault_for_is_said_so(fault: type[Exception]) -> None:
    with pytest.raises(ConfigError, match=r"scouter\.records"):
        KafkaTransport(KafkaConfig(), Producer(fault())).send_records(make_items(1))


@pytest.mark.parametrize("fault", [errors.InvalidRecordError, errors.MessageSizeTooLargeError])
def test_a_message_at_fault_costs_only_itself(fault: type[Exception]) -> None:
    assert KafkaTransport(KafkaConfig(), Producer(fault())).send_records(make_items(3)) == 3


def test_a_record_that_cannot_be_written_does_not_cost_the_others() -> None:
    items = with_unwritable(make_items(3))
    producer = Producer()

    assert KafkaTransport(KafkaConfig(), producer).send_records(items) == 2
    assert [json.loads(value)["uid"] for value in producer.values] == [
        items[0].uid,
        items[2].uid,
        items[4].uid,
    ]


def test_each_message_holds_spans_of_one_trace() -> None:
    spans = make_spans(30, traces=4)

    messages = list(span_messages("t", written(spans), 900_000))

    assert len(messages) == 4
    for _, key, value, count in messages:
        found = decode_request(ExportTraceServiceRequest.FromString(value)).spans
        assert {span.trace_id for span in found} == {key.decode()}
        assert len(found) == count
    assert sum(count for _, _, _, count in messages) == 30


def test_a_large_trace_is_split() -> None:
    spans = make_spans(100, "x" * 1000)

    messages = list(span_messages("t", written(spans), 20_000))

    assert len({key for _, key, _, _ in messages}) == 1
    assert all(len(value) <= 20_000 for _, _, value, _ in messages)
    assert sum(count for _, _, _, count in messages) == 100


def test_one_span_that_is_too_large_is_still_tried() -> None:
    (message,) = span_messages("t", written(make_spans(1, "x" * 1000)), 100)

    assert message[3] == 1


def test_settings() -> None:
    plain = producer_settings(KafkaConfig(brokers="a:1, b:2", timeout_s=20))
    assert plain["bootstrap_servers"] == ["a:1", "b:2"]
    assert plain["acks"] == "all"
    assert plain["security_protocol"] == "PLAINTEXT"
    assert "sasl_mechanism" not in plain
    assert (plain["request_timeout_ms"], plain["delivery_timeout_ms"]) == (10_000, 20_000)

    sasl = producer_settings(
        KafkaConfig.model_validate(
            {"username": "u", "password": "p", "sasl_mechanism": "SCRAM-SHA-512"}
        )
    )
    assert sasl["security_protocol"] == "SASL_SSL"
    assert sasl["sasl_plain_username"] == "u"
    assert sasl["sasl_plain_password"] == "p"
    assert sasl["sasl_mechanism"] == "SCRAM-SHA-512"

    assert producer_settings(KafkaConfig(ssl_cafile="ca.pem"))["security_protocol"] == "SSL"
    assert producer_settings(KafkaConfig(config={"linger_ms": 1}))["linger_ms"] == 1


def test_no_broker_is_worth_another_try() -> None:
    """In a process of its own: the client leaves sockets to the garbage collector, which warns."""
    code = """
from scouter.errors import TransientError
from scouter.transport.config import KafkaConfig
from scouter.transport.otlp import write_request
from scouter.transport.port import encode_record
try:
    KafkaConfig(brokers="127.0.0.1:1", timeout_s=0.5).open()
except TransientError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )

    assert done.stdout.startswith("brokers 127.0.0.1:1: KafkaTimeoutError")


def test_a_wrong_setting_is_not_worth_another_try() -> None:
    with pytest.raises(ConfigError, match="nonsense"):
        KafkaConfig(brokers="127.0.0.1:1", config={"nonsense": 1}).open()


def test_brokers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BROKERS", raising=False)
    assert KafkaConfig().brokers == "localhost:9092"
    assert KafkaConfig().username is None
    monkeypatch.setenv("KAFKA_BROKERS", "broker:1")
    assert KafkaConfig().brokers == "broker:1"
