"""The Kafka receiver: what it does with rubbish, and when it commits offsets."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from kafka import KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.structs import OffsetAndMetadata, TopicPartition
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.items.limits import Limits
from collector.log.port import Kind
from collector.receivers.intake import Delivery, Intake
from collector.receivers.kafka import intake as intake_module
from collector.receivers.kafka import receiver as receiver_module
from collector.receivers.kafka.intake import KafkaIntake
from collector.receivers.kafka.receiver import KafkaReceiver, Rebalance
from collector.receivers.kafka.settings import KafkaSettings, consumer_settings
from collector.receivers.message_servers.receiver import FILE_NAME
from collector.settings.load import load_settings
from scouter.errors import TransientError
from scouter.model.otlp import encode_request
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span
from tests.support.kafka_broker import ExternalBroker, KafkaBroker, create_topics
from tests.support.processes import wait_until
from tests.support.store_appends import AppendingStore


def bad_span() -> bytes:
    """Two spans, the second one without a usable id."""
    request: ExportTraceServiceRequest = encode_request([span(1), span(2)])
    request.resource_spans[0].scope_spans[0].spans[1].span_id = b""
    return request.SerializeToString()


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
            producer.send(topic, value, key=b"k", headers=headers).get(timeout=120)
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
    series = 'scouter_queue_dropped_total{reason="full",space="default"}'
    wait_until(lambda: service.sample(series) == 16, what="drops are counted")
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
    found = consumer_settings(KafkaSettings.of(settings), "host-1")
    assert found["bootstrap_servers"] == ["a:1", "b:2"]
    assert found["security_protocol"] == "SASL_SSL"
    assert (found["sasl_mechanism"], found["sasl_plain_username"]) == ("SCRAM-SHA-512", "me")
    assert (found["sasl_plain_password"], found["ssl_cafile"]) == ("secret", "ca.pem")
    assert found["enable_auto_commit"] is False
    assert (found["group_instance_id"], found["session_timeout_ms"]) == ("host-1", 15_000)
    assert "ssl_keyfile" not in found


async def nothing() -> None:
    """The release of a consumer without messages."""


def test_a_round_that_never_ends_is_noticed() -> None:
    """Sixty seconds after joining, or after partitions were taken away, without an answer."""
    now = 0.0
    rebalance = Rebalance(nothing, lambda: now)
    now = 60.0
    assert not rebalance.is_stuck
    now = 60.5
    assert rebalance.is_stuck
    asyncio.run(rebalance.on_partitions_assigned([]))
    assert not rebalance.is_stuck
    asyncio.run(rebalance.on_partitions_revoked(["t-0"]))
    now = 121.0
    assert rebalance.is_stuck


def test_a_stuck_consumer_is_given_up() -> None:
    times = iter([0.0, 61.0])
    receiver = KafkaReceiver(load_settings({"kafka": "x:1"}), cast(Intake, Way(refusals=0)))
    with pytest.raises(TransientError, match="60 s"):
        receiver._consume(Consumer(receiver, []), Rebalance(nothing, lambda: next(times)))  # pyright: ignore[reportPrivateUsage]


class NoTopics:
    """Brokers without any topic."""

    def partitions_for_topic(self, topic: str) -> None:
        """None, as for every topic that is not there."""


@pytest.mark.parametrize(
    ("given", "named"),
    [
        pytest.param({}, "'scouter.spans', 'scouter.records'", id="one-process"),
        pytest.param({"role": "gateway", "kafka_records_topic": "mine"}, "'mine'", id="named"),
        pytest.param({"role": "gateway"}, "", id="log-alone"),
    ],
)
def test_a_topic_is_missed_where_somebody_expects_it(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    given: dict[str, str],
    named: str,
) -> None:
    """A gateway has brokers for the log of the fleet; that nobody sends to others is no fault."""
    monkeypatch.setattr(receiver_module, "_TOPICS_S", -1.0)
    fleet = {"postgresql": "postgresql://h/d"} if given else {}
    settings = load_settings({"kafka": "x:1"} | fleet | given)
    receiver = KafkaReceiver(settings, cast(Intake, Way(refusals=0)))
    topics = [settings.kafka_spans_topic, settings.kafka_records_topic]
    receiver._await_partitions(NoTopics(), topics)  # pyright: ignore[reportPrivateUsage]
    expected = [f"kafka: no topic [{named}] yet; it is read once it exists"] if named else []
    assert [each.getMessage() for each in caplog.records] == expected


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts collectors with data folders of their own."""
    running: list[Service] = []

    def start_one(name: str, broker: str, topics: tuple[str, str]) -> Service:
        kafka = {"kafka": broker, "kafka_group": topics[0], "foreign_settle_s": "30s"}
        named = {"kafka_spans_topic": topics[0], "kafka_records_topic": topics[1]}
        running.append(Service(tmp_path / name, **kafka, **named))
        return running[-1]

    yield start_one
    for service in running:
        if not service.http.is_closed:
            service.stop()


def test_a_partition_that_moves_under_load_is_read_once(
    tmp_path: Path,
    kafka: KafkaBroker | ExternalBroker,
    services: Callable[..., Service],
    topics: tuple[str, str],
) -> None:
    """A second collector joins the group while the first one reads, then the first one leaves."""
    create_topics(kafka.bootstrap, list(topics), partitions=4)
    first = services("first", kafka.bootstrap, topics)
    wait_until(lambda: first.http.get("/readyz").status_code == 200, what="partitions")
    producer = KafkaProducer(bootstrap_servers=[kafka.bootstrap], acks="all", linger_ms=5)
    sent = 0

    def send_until(condition: Callable[[], bool]) -> None:
        nonlocal sent
        deadline = time.monotonic() + 180  # the client may need to join its group anew
        while not condition():
            assert time.monotonic() < deadline
            spans = [span(64 * sent + m + 1, attributes={"text": "x" * 500}) for m in range(64)]
            body = encode_request(spans).SerializeToString()
            named = producer.send(topics[0], body, key=str(sent).encode(), partition=sent % 4)
            sent += 1
            if sent % 4 == 0:
                named.get(timeout=120)  # no faster than the broker

    def stored(service: Service) -> int:
        return service.get("/api/v1/conservation")["spans"]["stored"]

    send_until(lambda: stored(first) > 0)
    second = services("second", kafka.bootstrap, topics)
    send_until(lambda: stored(second) > 0)
    first.stop()
    before = stored(second)
    send_until(lambda: stored(second) > before)
    producer.flush()
    producer.close()

    store = AppendingStore(tmp_path / "first" / "data")
    left = store.conservation("default").spans
    store.close()
    wait_until(lambda: left.stored + stored(second) >= 64 * sent, what="all spans")
    sheet = second.get("/api/v1/conservation")["spans"]
    assert left.stored + sheet["stored"] == 64 * sent
    assert (left.duplicates, sheet["duplicates"]) == (0, 0)


def test_a_collector_on_a_copy_of_the_data_folder_is_noticed(
    tmp_path: Path,
    kafka: KafkaBroker | ExternalBroker,
    services: Callable[..., Service],
    topics: tuple[str, str],
) -> None:
    """To the group both are one member; the older of the two says so once it commits."""
    create_topics(kafka.bootstrap, list(topics), partitions=1)
    first = services("first", kafka.bootstrap, topics)
    wait_until(lambda: first.http.get("/readyz").status_code == 200, what="partitions")
    copied = tmp_path / "second" / "data" / FILE_NAME
    copied.parent.mkdir(parents=True)
    copied.write_bytes((tmp_path / "first" / "data" / FILE_NAME).read_bytes())

    producer = KafkaProducer(bootstrap_servers=[kafka.bootstrap], acks="all")
    services("second", kafka.bootstrap, topics)
    numbers = iter(range(1, 10_000))

    def is_logged() -> bool:
        body = encode_request([span(next(numbers))]).SerializeToString()
        producer.send(topics[0], body, partition=0).get(timeout=120)
        return "took over" in first.http.get("/readyz").text

    wait_until(is_logged, what="the older one says so", every_s=0.05)
    producer.close()


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
    """Hands out one batch, then nothing, then ends the receiver; remembers what was done."""

    receiver: KafkaReceiver
    batch: list[Message]
    _cluster: ClusterMetadata = field(default_factory=ClusterMetadata)
    events: list[str] = field(default_factory=list[str])
    is_paused: bool = False
    empty_polls: int = 0
    answers: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def poll(self, timeout_ms: int, max_records: int) -> dict[Any, list[Message]]:
        while self.answers:
            self.answers.pop(0)()
        if not self.batch:
            self.empty_polls += 1
            if self.empty_polls == 2:
                self.receiver._stopping.set()  # pyright: ignore[reportPrivateUsage]
            return {}
        batch, self.batch = self.batch, []
        return {TopicPartition("t", 0): batch}

    def committed(self, partition: TopicPartition, metadata: bool, timeout_ms: int) -> None:
        return None

    def position(self, partition: TopicPartition, timeout_ms: int) -> None:
        return None

    def commit_async(
        self,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        callback: Callable[[object, object], None],
    ) -> None:
        self.events += [f"commit {each.offset}" for each in offsets.values()]
        self.answers.append(lambda: callback(offsets, None))

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
    """A way in that refuses spans as often as it is set to, or stores them."""

    def __init__(self, refusals: int, full: Sequence[bool] = (), *, is_slow: bool = False) -> None:
        self.refusals, self.full, self.is_slow = refusals, list(full), is_slow
        self.waiting: list[Future[None]] = []
        self.dropped: list[Any] = []
        self.taken = 0
        self.limits = Limits()

    @property
    def is_full(self) -> bool:
        return bool(self.full) and self.full.pop(0)

    def deliver(self, deliveries: Sequence[Delivery]) -> "list[Future[None]]":
        assert {each.kind for each in deliveries} == {Kind.SPANS}
        future: Future[None] = Future()
        if self.refusals:
            self.refusals -= 1
            future.set_exception(TransientError("disk full"))
        else:
            self.taken += len(deliveries)
            self.waiting.append(future)
            if not self.is_slow:
                self.catch_up()
        return [future]

    def catch_up(self) -> None:
        while self.waiting:
            self.waiting.pop().set_result(None)

    def take_dropped(self, dropped: Any) -> "Future[None]":
        self.dropped.append(dropped)
        future: Future[None] = Future()
        future.set_result(None)
        return future


def run(way: Way, **fields: Any) -> Consumer:
    settings = load_settings({"kafka": "x:1"})
    receiver = KafkaReceiver(settings, cast(Intake, way))
    message = Message(topic="scouter.spans", value=encode_request([span(1)]).SerializeToString())
    consumer = Consumer(receiver, [message], **fields)
    receiver._consume(consumer, Rebalance(nothing))  # pyright: ignore[reportPrivateUsage]
    return consumer


def test_offsets_are_committed_after_the_store_has_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake_module, "RETRY_S", 0.001)
    way = Way(refusals=3)
    assert run(way).events == ["commit 8"]
    assert (way.refusals, way.taken) == (0, 1)


def messages_of(*offsets: int, partition: int = 0) -> list[Message]:
    body = encode_request([span(1)]).SerializeToString()
    return [Message(topic="s", value=body, partition=partition, offset=each) for each in offsets]


def intake_of(way: Way, *, is_stopping: bool = False) -> KafkaIntake:
    stopping = threading.Event()
    if is_stopping:
        stopping.set()
    return KafkaIntake(cast(Intake, way), "s", stopping)


P0, P1 = TopicPartition("s", 0), TopicPartition("s", 1)


def test_nothing_is_committed_if_the_service_ends_before_the_store_took_it() -> None:
    intake = intake_of(Way(refusals=10**9), is_stopping=True)
    intake.take(messages_of(7))
    intake.finish()
    assert intake.durable_offsets() == {}
    assert intake.pending_offsets() == {}


def test_what_is_on_its_way_is_no_offset_to_commit_and_counts_as_unread() -> None:
    way = Way(refusals=0, is_slow=True)
    intake = intake_of(way)
    intake.take([*messages_of(7, 8), *messages_of(3, partition=1)])
    assert (intake.durable_offsets(), intake.pending_offsets()) == ({}, {P0: 7, P1: 3})
    way.catch_up()
    intake.finish()
    assert (intake.durable_offsets(), intake.pending_offsets()) == ({P0: 9, P1: 4}, {})


def test_the_poll_before_is_durable_when_the_next_one_is_taken() -> None:
    intake = intake_of(Way(refusals=0))
    intake.take(messages_of(7))
    intake.take(messages_of(8))
    assert (intake.durable_offsets(), intake.pending_offsets()) == ({P0: 8}, {P0: 8})


@pytest.mark.parametrize("is_given_away", [True, False])
def test_nothing_behind_what_was_given_up_is_committed(is_given_away: bool) -> None:
    """Of three polls the second is refused, when the partition or the service ends."""
    way = Way(refusals=0)
    intake = intake_of(way, is_stopping=True)
    intake.take(messages_of(7))
    way.refusals = 1
    intake.take(messages_of(8))
    if is_given_away:
        intake.finish_within(5.0)
    else:
        intake.take(messages_of(9))
        intake.finish()
    assert (intake.durable_offsets(), intake.pending_offsets()) == ({P0: 8}, {})


def test_a_partition_that_is_given_away_waits_for_the_store_but_not_for_ever() -> None:
    way = Way(refusals=0, is_slow=True)
    intake = intake_of(way)
    intake.take(messages_of(7))
    threading.Timer(0.05, way.catch_up).start()
    intake.finish_within(5.0)
    assert intake.durable_offsets() == {P0: 8}
    intake.take(messages_of(8))
    intake.finish_within(0.01)
    assert (intake.durable_offsets(), intake.pending_offsets()) == ({P0: 8}, {})


def test_what_the_store_refuses_is_given_away_uncommitted() -> None:
    intake = intake_of(Way(refusals=1))
    intake.take(messages_of(7))
    intake.finish_within(5.0)
    assert (intake.durable_offsets(), intake.pending_offsets()) == ({}, {})


def test_drops_are_reported_before_a_partition_is_given_away() -> None:
    way = Way(refusals=0)
    intake = intake_of(way)
    message = messages_of(7)[0]
    message.headers = (("scouter-dropped", b"full=2"),)
    intake.take([message])
    assert way.dropped == []
    intake.finish_within(5.0)
    assert way.dropped == [{("", "full"): (0, 2)}]
    assert intake.durable_offsets() == {P0: 8}


def test_offsets_are_forgotten_unless_more_has_become_durable() -> None:
    intake = intake_of(Way(refusals=0))
    intake.take(messages_of(7))
    intake.finish()
    committed = intake.durable_offsets()
    intake.take(messages_of(8))
    intake.finish()
    intake.forget(committed)
    assert intake.durable_offsets() == {P0: 9}
    intake.forget({P0: 9})
    assert intake.durable_offsets() == {}


def test_partitions_are_paused_while_the_pipeline_is_behind() -> None:
    """Polling goes on meanwhile, so that the group does not take the consumer for dead."""
    consumer = run(Way(refusals=0, full=[True, False]))
    assert consumer.events == ["pause", "resume", "commit 8"]
