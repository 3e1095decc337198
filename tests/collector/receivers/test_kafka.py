"""The Kafka receiver: what it does with rubbish, and when it commits offsets."""

import json
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from kafka import KafkaProducer, errors
from kafka.structs import TopicPartition
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.pipeline.input_clock import Via
from collector.receivers import kafka_intake as intake_module
from collector.receivers.ingest import Ingest
from collector.receivers.kafka import KafkaReceiver, Rebalance, consumer_settings
from collector.receivers.kafka_intake import KafkaIntake, parts_of
from collector.receivers.limits import Limits
from collector.settings import load_settings
from scouter.errors import TransientError
from scouter.model.otlp import encode_request
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span
from tests.support.kafka_broker import ExternalBroker, KafkaBroker
from tests.support.processes import wait_until


def bad_span() -> bytes:
    """Two spans, the second one without a usable id."""
    request: ExportTraceServiceRequest = encode_request([span(1), span(2)])
    request.resource_spans[0].scope_spans[0].spans[1].span_id = b""
    return request.SerializeToString()


@pytest.fixture
def topics() -> tuple[str, str]:
    """Names that no other test uses."""
    name = uuid.uuid4().hex[:12]
    return f"test.spans.{name}", f"test.records.{name}"


def consuming(start: Start, broker: str, topics: tuple[str, str], **flags: object) -> Service:
    return start(
        kafka=broker,
        kafka_spans_topic=topics[0],
        kafka_records_topic=topics[1],
        kafka_group=topics[0],
        **flags,
    )


def produce(broker: str, *messages: tuple[str, bytes | None]) -> None:
    producer = KafkaProducer(bootstrap_servers=[broker], acks="all")
    try:
        for topic, value in messages:
            headers = [("other", b""), ("scouter-dropped", b"full=2")]
            producer.send(topic, value, key=b"k", headers=headers).get(timeout=30)
    finally:
        producer.close()


def test_poison_is_put_aside_and_the_rest_goes_on(
    kafka: KafkaBroker | ExternalBroker, start: Start, answers: Path, topics: tuple[str, str]
) -> None:
    """Eight messages, each of which tells of two drops; the good ones come last."""
    spans, records = topics
    record = {"uid": "u1", "profile": "answers", "context": {"answer": 42}}
    produce(
        kafka.bootstrap,
        (spans, b"\xff\xff\xff"),
        (spans, bad_span()),
        (spans, None),
        (spans, encode_request([span(3)]).SerializeToString()),
        (records, b"{"),
        (records, b'"text"'),
        (records, json.dumps({**record, "uid": "u0", "trace_id": "?"}).encode()),
        (records, json.dumps(record).encode()),
    )
    service = consuming(start, kafka.bootstrap, topics, profile=[str(answers)])
    service.wait_for(1)
    wait_until(
        lambda: service.get("/api/v1/conservation")["spans"]["stored"] == 2,
        what="two spans are stored",
    )
    sheet = service.get("/api/v1/conservation")
    assert sheet["dead_letters"] == {"invalid_message": 2, "invalid_record": 2, "invalid_span": 1}
    assert [each["spanId"] for each in service.get(f"/api/v1/traces/{TRACE}")["spans"]] == [
        f"{n:016x}" for n in (1, 3)
    ]
    assert service.sample('scouter_queue_dropped_total{reason="full",space="default"}') == 16
    assert service.get("/readyz")["status"] == "ready"


def test_security_settings_reach_the_client() -> None:
    settings = load_settings(
        {
            "kafka": "a:1, b:2",
            "kafka_security_protocol": "SASL_SSL",
            "kafka_sasl_mechanism": "SCRAM-SHA-512",
            "kafka_sasl_username": "me",
            "kafka_sasl_password": "secret",
            "kafka_ssl_cafile": "ca.pem",
        }
    )
    found = consumer_settings(settings)
    assert found["bootstrap_servers"] == ["a:1", "b:2"]
    assert found["security_protocol"] == "SASL_SSL"
    assert (found["sasl_mechanism"], found["sasl_plain_username"]) == ("SCRAM-SHA-512", "me")
    assert (found["sasl_plain_password"], found["ssl_cafile"]) == ("secret", "ca.pem")
    assert found["enable_auto_commit"] is False
    assert "ssl_keyfile" not in found


def test_a_round_that_never_ends_is_noticed() -> None:
    """Sixty seconds after joining, or after partitions were taken away, without an answer."""
    now = 0.0
    rebalance = Rebalance(lambda: now)
    now = 60.0
    assert not rebalance.is_stuck
    now = 60.5
    assert rebalance.is_stuck
    rebalance.on_partitions_assigned([])
    assert not rebalance.is_stuck
    rebalance.on_partitions_revoked(["t-0"])
    now = 121.0
    assert rebalance.is_stuck


def test_a_stuck_consumer_is_given_up() -> None:
    times = iter([0.0, 61.0])
    receiver = KafkaReceiver(load_settings({"kafka": "x:1"}), cast(Ingest, Way(refusals=0)))
    with pytest.raises(TransientError, match="60 s"):
        receiver._consume(Consumer(receiver, []), Rebalance(lambda: next(times)))  # pyright: ignore[reportPrivateUsage]


# --- when offsets are committed ---------------------------------------------------------------


@dataclass(kw_only=True)
class Message:
    topic: str
    value: bytes
    partition: int = 0
    offset: int = 7
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass
class Consumer:
    """Hands out one batch, then ends the receiver; remembers what was done with it."""

    receiver: KafkaReceiver
    batch: list[Message]
    events: list[str] = field(default_factory=list[str])
    commit_error: Exception | None = None
    is_paused: bool = False

    def poll(self, timeout_ms: int, max_records: int) -> dict[Any, list[Message]]:
        if not self.batch:
            self.receiver._stopping.set()  # pyright: ignore[reportPrivateUsage]
            return {}
        batch, self.batch = self.batch, []
        return {"t-0": batch}

    def commit(self) -> None:
        self.events.append("commit")
        if self.commit_error is not None:
            raise self.commit_error

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition("t", 0)}

    def paused(self) -> set[str]:
        return {"t"} if self.is_paused else set()

    def pause(self, *partitions: TopicPartition) -> None:
        self.events.append("pause")
        self.is_paused = True

    def resume(self, *partitions: str) -> None:
        self.events.append("resume")
        self.is_paused = False


class Way:
    """An `Ingest` that refuses spans as often as it is told to."""

    def __init__(self, refusals: int, full: Sequence[bool] = ()) -> None:
        self.refusals, self.full = refusals, list(full)
        self.taken = 0
        self.limits = Limits()

    @property
    def is_full(self) -> bool:
        return bool(self.full) and self.full.pop(0)

    def take_records(self, items: list[object], sources: list[str], size: int, via: Via) -> Any:
        assert not items

        class Nothing:
            futures = ()

        return Nothing()

    def take_spans(
        self, spans: Sequence[Any], size: int, via: Via, *, wire: bytes | None
    ) -> "Future[None]":
        assert via is Via.BROKER
        assert wire is not None
        future: Future[None] = Future()
        if self.refusals:
            self.refusals -= 1
            future.set_exception(TransientError("disk full"))
        else:
            self.taken += len(spans)
            future.set_result(None)
        return future


def run(way: Way, **fields: Any) -> Consumer:
    settings = load_settings({"kafka": "x:1"})
    receiver = KafkaReceiver(settings, cast(Ingest, way))
    message = Message(topic="scouter.spans", value=encode_request([span(1)]).SerializeToString())
    consumer = Consumer(receiver, [message], **fields)
    receiver._consume(consumer, Rebalance())  # pyright: ignore[reportPrivateUsage]
    return consumer


def test_offsets_are_committed_after_the_store_has_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake_module, "_RETRY_S", 0.001)
    way = Way(refusals=3)
    assert run(way).events == ["commit"]
    assert (way.refusals, way.taken) == (0, 1)


def test_nothing_is_committed_if_the_service_ends_before_the_store_took_it() -> None:
    stopping = threading.Event()
    stopping.set()
    intake = KafkaIntake(cast(Ingest, Way(refusals=10**9)), "s", stopping)
    body = encode_request([span(1)]).SerializeToString()
    assert not intake.store([Message(topic="s", value=body)])


def test_a_commit_that_fails_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    consumer = run(Way(refusals=0), commit_error=errors.KafkaError("rebalance"))
    assert consumer.events == ["commit"]
    assert "offsets were not committed" in caplog.text


def test_partitions_are_paused_while_the_pipeline_is_behind() -> None:
    """Polling goes on meanwhile, so that the group does not take the consumer for dead."""
    consumer = run(Way(refusals=0, full=[True, False]))
    assert consumer.events == ["pause", "commit", "resume"]


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([], []),
        ([4, 4, 4], [[4, 4], [4]]),
        ([11, 1, 9, 1], [[11], [1, 9], [1]]),
    ],
)
def test_messages_are_decoded_in_parts_of_bounded_size(
    sizes: list[int], parts: list[list[int]]
) -> None:
    messages = [Message(topic="t", value=bytes(size)) for size in sizes]
    found = [[len(each.value) for each in part] for part in parts_of(messages, 10)]
    assert found == parts
