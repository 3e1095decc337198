"""A known set of spans and records, and producers that deliver it however often it takes."""

import contextlib
import gzip
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.transport.kafka_client import partition_of
from tests.support.processes import wait_until

SPANS_PER_TRACE: Final = 4
ALIAS: Final = "load"


def load_profile() -> AgentEvalProfile:
    """One task that reads the record and one that reads the trace; both pass on whole data."""
    return AgentEvalProfile(
        alias=ALIAS,
        tasks=[
            AssertionTask("named", "text", "record-", ComparisonOperator.StartsWith),
            TraceAssertionTask(
                "whole", TraceAssertion.trace_span_count(), SPANS_PER_TRACE,
                ComparisonOperator.Equals,
            ),
        ],
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One record and the trace that it belongs to."""

    number: int

    @property
    def uid(self) -> str:
        """The record's key."""
        return f"record-{self.number}"

    @property
    def trace_id(self) -> str:
        """32 hex digits."""
        return hashlib.sha256(self.uid.encode()).hexdigest()[:32]

    @property
    def span_ids(self) -> list[str]:
        """16 hex digits each; the first is the root."""
        return [f"{self.number * SPANS_PER_TRACE + n + 1:016x}" for n in range(SPANS_PER_TRACE)]

    def record(self) -> dict[str, Any]:
        """The record as `POST /v1/records` and the Kafka topic take it."""
        return {
            "uid": self.uid, "record_id": self.uid, "profile": ALIAS, "trace_id": self.trace_id,
            "context": {"text": self.uid},
        }  # fmt: skip


def span_request(items: Sequence[Item]) -> bytes:
    """All spans of some items as one OTLP request; the same items, the same bytes."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for item in items:
        root, *children = item.span_ids
        for n, span_id in enumerate((root, *children)):
            span = spans.add()
            span.trace_id, span.span_id = bytes.fromhex(item.trace_id), bytes.fromhex(span_id)
            if n:
                span.parent_span_id = bytes.fromhex(root)
            span.name = f"step {n}"
            span.start_time_unix_nano = 1_700_000_000_000_000_000 + n
            span.end_time_unix_nano = 1_700_000_000_000_001_000 + n
    return request.SerializeToString()


def span_requests(item: Item) -> list[bytes]:
    """The spans of an item as requests of one span each."""
    whole = ExportTraceServiceRequest.FromString(span_request([item]))
    requests: list[bytes] = []
    for span in whole.resource_spans[0].scope_spans[0].spans:
        request = ExportTraceServiceRequest()
        request.resource_spans.add().scope_spans.add().spans.append(span)
        requests.append(request.SerializeToString())
    return requests


class Delivery(Protocol):
    """Gets batches over."""

    cut_off: int
    """Requests whose connection ended between their first byte and their answer."""
    is_in_flight: bool
    """True if a request waits for its answer."""

    def __call__(self, items: Sequence[Item]) -> None:
        """Return when the far side has acknowledged spans and records."""
        ...

    def close(self) -> None:
        """End its connections."""
        ...


@dataclass(slots=True)
class HttpDelivery:
    """Sends spans and records over HTTP, again and again until each is acknowledged."""

    url: Callable[[], str]
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=120))
    repeated: int = 0
    cut_off: int = 0
    is_in_flight: bool = False

    def __call__(self, items: Sequence[Item]) -> None:
        spans = gzip.compress(span_request(items), 1)
        headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
        self._insist(lambda: self.client.post(f"{self.url()}/v1/traces", content=spans,
                                              headers=headers))  # fmt: skip
        records = {"records": [item.record() for item in items]}
        self._insist(lambda: self.client.post(f"{self.url()}/v1/records", json=records))

    def _insist(self, post: Callable[[], httpx.Response]) -> None:
        def accepted() -> bool:
            self.is_in_flight = True
            try:
                answer = post()
            except httpx.TransportError as error:
                self.repeated += 1
                self.cut_off += not isinstance(error, httpx.ConnectError)
                return False
            finally:
                self.is_in_flight = False
            if not answer.is_success:
                assert answer.status_code in {429, 503}, answer.text
                self.repeated += 1
            return answer.is_success

        wait_until(accepted, what="the collector takes a batch")

    def close(self) -> None:
        """End its connections."""
        self.client.close()


@dataclass(slots=True)
class KafkaDelivery:
    """Writes spans and records to Kafka, again and again until the broker acknowledges all."""

    bootstrap: str
    spans_topic: str
    records_topic: str
    partitions: int
    cut_off: int = 0
    is_in_flight: bool = False
    _producer: Any = None

    def __call__(self, items: Sequence[Item]) -> None:
        from kafka.errors import KafkaError

        def delivered() -> bool:
            try:
                self._deliver(items)
            except KafkaError:
                self.close()  # its batch may never end; a new producer connects anew
                return False
            return True

        wait_until(delivered, what="the broker takes a batch", timeout_s=300)

    def _deliver(self, items: Sequence[Item]) -> None:
        import json

        from kafka import KafkaProducer

        from scouter.transport.kafka_client import connect

        if self._producer is None:
            settings: dict[str, Any] = {
                "bootstrap_servers": self.bootstrap.split(","), "acks": "all",
                "bootstrap_timeout_ms": 5_000, "max_block_ms": 5_000,
                "request_timeout_ms": 5_000, "delivery_timeout_ms": 10_000,
            }  # fmt: skip
            self._producer = connect(KafkaProducer, settings)
        sent: list[Any] = []
        for item in items:
            key = item.trace_id.encode()
            at = partition_of(key, self.partitions)
            sent.append(
                self._producer.send(self.spans_topic, span_request([item]), key, partition=at)
            )
            body = json.dumps(item.record()).encode()
            sent.append(self._producer.send(self.records_topic, body, key, partition=at))
        for each in sent:
            each.get(60)

    def close(self) -> None:
        """End the producer's threads."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        from kafka.errors import KafkaError

        try:
            producer.close(timeout=1)
        except KafkaError:  # it waits for batches that never end
            producer._sender.force_close()
            with contextlib.suppress(KafkaError):
                producer.close(timeout=1)


class Producer:
    """Delivers items on a thread, in order, and logs what was acknowledged: the oracle.

    Args:
        numbers: Numbers of the items.
        deliver: Delivers a batch.
        batch: Items per delivery.
        pause_s: Pause between deliveries, so that the traffic lasts.
    """

    def __init__(
        self, numbers: Iterator[int], deliver: Delivery, *, batch: int = 5, pause_s: float = 0.02
    ) -> None:
        self._numbers, self._deliver, self._batch = numbers, deliver, batch
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer")
        self.acknowledged: list[Item] = []
        self.fault: BaseException | None = None

    def __enter__(self) -> "Producer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(120)
        if self.fault is not None:
            raise self.fault

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                items = [Item(number=next(self._numbers)) for _ in range(self._batch)]
                self._deliver(items)
                self.acknowledged += items
                self._stopping.wait(self._pause_s)
        except BaseException as error:  # noqa: BLE001 told to the thread that waits
            self.fault = error
