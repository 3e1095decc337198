"""Rubbish on every way in: no 5xx, no crash, and the good items of a batch are kept."""

import gzip
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from collector.log.port import Kind
from collector.receivers.intake import Delivery
from collector.receivers.kafka.intake import KafkaIntake
from collector.receivers.message_servers.receiver import MessageReceiver
from scouter.model.otlp import encode_request
from scouter.model.otlp_json import spans_to_otlp_json
from tests.collector.conftest import Service
from tests.contracts.store_data import span
from tests.support.examples import examples
from tests.support.otlp import GrpcClient, deep_attribute, field, logs_request, spans_request
from tests.support.processes import wait_until

FUZZ: Final = settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
PROTOBUF, JSON = "application/x-protobuf", "application/json"
PATHS: Final = ("/v1/traces", "/v1/logs", "/v1/records")
REFUSALS: Final = {200, 400, 413, 415}
STATES: Final = ("waiting", "evaluated", "skipped", "expired", "dead_lettered", "erased")
TEN_MB: Final = 10 * 10**6


@dataclass
class Ways:
    """One collector and all ways into it."""

    service: Service
    grpc: GrpcClient
    kafka: KafkaIntake
    queue: MessageReceiver
    """The part that Redis and RabbitMQ have in common."""

    def post(self, path: str, data: bytes, media: str, encoding: str | None = None) -> Any:
        headers = {"Content-Type": media} | ({"Content-Encoding": encoding} if encoding else {})
        return self.service.http.post(path, content=data, headers=headers)

    def call(self, data: bytes, signal: str) -> str:
        """The status of a gRPC call."""
        try:
            self.grpc.send(data, signal)
        except grpc.RpcError as error:
            return cast(Any, error).code().name
        return "OK"

    def consume(self, topic: str, value: bytes) -> None:
        """From Kafka, and from one of the other message servers."""
        self.from_kafka(topic, value)
        self.from_queue(topic, value)

    def from_kafka(self, topic: str, value: bytes) -> None:
        self.kafka.take([Message(topic=topic, value=value, offset=0)])
        self.kafka.finish()

    def from_queue(self, topic: str, value: bytes) -> None:
        kind = Kind.SPANS if topic == "scouter.spans" else Kind.RECORDS
        told = Delivery(kind=kind, data=value, dropped="\xff=1, full=x", source="queue")
        assert self.queue.store([told])


@dataclass
class Message:
    topic: str
    value: bytes
    offset: int
    partition: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


class NoServer(MessageReceiver):
    """Stores what the test hands it."""

    def consume(self) -> None:
        raise AssertionError


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    service = Service(folder, grpc="127.0.0.1:0")
    assert service.collector.grpc is not None
    client = GrpcClient(str(service.collector.grpc.listen))
    kafka = KafkaIntake(service.collector.ingest, "scouter.spans", threading.Event())
    yield Ways(service, client, kafka, NoServer("queue", "nowhere", service.collector.ingest))
    sheet = service.get("/api/v1/conservation")  # after everything below
    records, spans = sheet["records"], sheet["spans"]
    assert records["accepted"] == sum(records[state] for state in STATES)
    assert spans["accepted"] == spans["stored"]
    wait_until(lambda: service.collector.ingest.budget.used == 0, what="the pipeline took all")
    letters = service.get("/api/v1/dead-letters", limit=1000)["items"]
    assert letters
    answer = service.http.post("/api/v1/dead-letters/replay", params={"limit": 1000})
    assert answer.status_code == 200
    client.close()
    service.stop()


# --- any bytes ----------------------------------------------------------------------------------


@FUZZ
@given(
    data=st.binary(max_size=300),
    path=st.sampled_from(PATHS),
    media=st.sampled_from([PROTOBUF, JSON, "text/plain", "", "application/json; charset=x"]),
    encoding=st.sampled_from([None, "gzip", "identity", "br", "gzip, gzip"]),
)
def test_random_bytes_over_http(
    ways: Ways, data: bytes, path: str, media: str, encoding: str | None
) -> None:
    answer = ways.post(path, data, media, encoding)
    assert answer.status_code in REFUSALS


@FUZZ
@given(data=st.binary(max_size=300), signal=st.sampled_from(["traces", "logs"]))
def test_random_bytes_over_grpc(ways: Ways, data: bytes, signal: str) -> None:
    assert ways.call(data, signal) in ("OK", "INVALID_ARGUMENT")


@FUZZ
@given(data=st.binary(max_size=300), topic=st.sampled_from(["scouter.spans", "scouter.records"]))
def test_random_bytes_from_message_servers(ways: Ways, data: bytes, topic: str) -> None:
    ways.consume(topic, data)


JSON_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(
            ["records", "resourceSpans", "resourceLogs", "scopeSpans", "scopeLogs", "spans", "body",
             "logRecords", "traceId", "spanId", "attributes", "key", "value", "stringValue", "uid",
             "intValue", "arrayValue", "kvlistValue", "values", "profile", "context", "tags",
             "eventName", "resource", "scope", "status", "events", "links", "timeUnixNano"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=25,
)  # fmt: skip
"""Any JSON, mostly with keys that mean something."""


@FUZZ
@given(value=JSON_VALUES, key=st.sampled_from(["records", "resourceSpans", "resourceLogs"]))
def test_json_of_any_shape(ways: Ways, value: object, key: str) -> None:
    for path in PATHS:
        for body in (value, {key: value}, {key: [value]}):
            answer = ways.post(path, json.dumps(body).encode(), JSON)
            assert answer.status_code in REFUSALS
    ways.consume("scouter.records", json.dumps(value).encode())


# --- real requests, damaged ---------------------------------------------------------------------


def traces_data() -> bytes:
    attributes = {"k": "v", "n": 1.5, "list": (1, b"x"), "map": {"a": True}}
    return encode_request([span(n, attributes=attributes) for n in (1, 2, 3)]).SerializeToString()


def logs_data() -> bytes:
    bodies = [{"uid": f"log {n}", "profile": "p", "context": {"a": [n, None]}} for n in (1, 2, 3)]
    return logs_request(bodies, resource={"service.name": "s"}).SerializeToString()


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes flipped, cut, doubled or put elsewhere."""
    raw = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, max(0, len(raw) - 1)))
        end = draw(st.integers(start, min(len(raw), start + 40)))
        match draw(st.sampled_from(["flip", "cut", "double", "move", "end"])):
            case "flip" if start < len(raw):
                raw[start] ^= draw(st.integers(1, 255))
            case "cut":
                del raw[start:end]
            case "double":
                raw[start:start] = raw[start:end]
            case "move":
                part = raw[start:end]
                del raw[start:end]
                raw[: len(part)] += part
            case _:
                del raw[max(1, start) :]
    return bytes(raw)


@FUZZ
@given(traces=damaged(traces_data()), logs=damaged(logs_data()))
def test_damaged_protobuf(ways: Ways, traces: bytes, logs: bytes) -> None:
    assert ways.post("/v1/traces", traces, PROTOBUF).status_code in REFUSALS
    assert ways.post("/v1/logs", logs, PROTOBUF).status_code in REFUSALS
    assert ways.call(traces, "traces") in ("OK", "INVALID_ARGUMENT")
    assert ways.call(logs, "logs") in ("OK", "INVALID_ARGUMENT")
    ways.consume("scouter.spans", traces)


@FUZZ
@given(data=damaged(json.dumps(spans_to_otlp_json([span(1), span(2)])).encode()))
def test_damaged_json(ways: Ways, data: bytes) -> None:
    assert ways.post("/v1/traces", data, JSON).status_code in REFUSALS
    assert ways.post("/v1/records", data, JSON).status_code in REFUSALS


@FUZZ
@given(data=damaged(gzip.compress(traces_data())))
def test_damaged_gzip(ways: Ways, data: bytes) -> None:
    assert ways.post("/v1/traces", data, PROTOBUF, "gzip").status_code in REFUSALS


# --- one bad item between two good ones ---------------------------------------------------------


def _span(number: int) -> Any:
    return encode_request([span(number)]).resource_spans[0].scope_spans[0].spans[0]


def _with(**fields: object) -> Callable[[], bytes]:
    def make() -> bytes:
        proto = _span(900)
        for name, value in fields.items():
            setattr(proto, name, value)
        return proto.SerializeToString()

    return make


def _appended(*parts: bytes) -> Callable[[], bytes]:
    return lambda: _span(900).SerializeToString() + b"".join(parts)


def _attribute(key: bytes, text: bytes) -> bytes:
    return field(9, field(1, key) + field(2, field(1, text)))


BAD_SPANS: Final[dict[str, Callable[[], bytes]]] = {
    "short trace id": _with(trace_id=b"short"),
    "zero trace id": _with(trace_id=bytes(16)),
    "long span id": _with(span_id=b"x" * 9),
    "no span id": _with(span_id=b""),
    "short parent": _with(parent_span_id=b"x"),
    "time beyond 63 bits": _with(end_time_unix_nano=2**64 - 1),
    "a field without end": _appended(b"\x2a\x7f"),
    "another wire type": _appended(b"\x0b"),
}


ODD_SPANS: Final[dict[str, Callable[[], bytes]]] = {
    "name not UTF-8": _appended(field(5, b"\xff\xfe")),
    "attribute not UTF-8": _appended(_attribute(b"k", b"\xc3\x28")),
    "key not UTF-8": _appended(_attribute(b"\xff", b"v")),
    "deep nesting": _appended(deep_attribute(3000)),
    "attribute of 10 MB": _appended(_attribute(b"k", b"x" * TEN_MB)),
    "10,000 attributes": _appended(*(_attribute(b"k%d" % n, b"") for n in range(10_000))),
}
"""They are taken, cut where they have to be."""


@pytest.mark.parametrize("make", ODD_SPANS.values(), ids=ODD_SPANS)
@pytest.mark.parametrize("way", ["http", "grpc", "kafka", "queue"])
def test_no_span_is_lost_for_what_it_holds(
    ways: Ways, way: str, make: Callable[[], bytes], request: pytest.FixtureRequest
) -> None:
    number = abs(zlib.crc32(request.node.name.encode())) + 1
    head = _span(number + 2**34).SerializeToString()
    odd = make().replace(_span(900).SerializeToString(), head)
    before = ways.service.get("/api/v1/conservation")["spans"]
    data = spans_request(_span(number).SerializeToString(), odd)
    if way == "http":
        told = ExportTraceServiceResponse.FromString(
            ways.post("/v1/traces", data, PROTOBUF).content
        )
        assert told == ExportTraceServiceResponse()
    elif way == "grpc":
        told = ExportTraceServiceResponse.FromString(ways.grpc.send(data))
        assert told == ExportTraceServiceResponse()
    elif way == "kafka":
        ways.from_kafka("scouter.spans", data)
    else:
        ways.from_queue("scouter.spans", data)

    def stored() -> int:
        return ways.service.get("/api/v1/conservation")["spans"]["stored"] - before["stored"]

    wait_until(lambda: stored() == 2, what="stored")
    after = ways.service.get("/api/v1/conservation")["spans"]
    assert after["dead_lettered"] == before["dead_lettered"]


@pytest.mark.parametrize("make", BAD_SPANS.values(), ids=BAD_SPANS)
@pytest.mark.parametrize("way", ["http", "grpc", "kafka", "queue"])
def test_a_bad_span_costs_only_itself(
    ways: Ways, way: str, make: Callable[[], bytes], request: pytest.FixtureRequest
) -> None:
    number = abs(zlib.crc32(request.node.name.encode())) + 1  # spans of this test alone
    good = [_span(number).SerializeToString(), _span(number + 2**33).SerializeToString()]
    before = ways.service.get("/api/v1/conservation")["spans"]
    data = spans_request(good[0], make(), good[1])
    if way == "http":
        answer = ways.post("/v1/traces", data, PROTOBUF)
        assert answer.status_code == 200, answer.content
        told = ExportTraceServiceResponse.FromString(answer.content)
        assert told.partial_success.rejected_spans == 1
    elif way == "grpc":
        told = ExportTraceServiceResponse.FromString(ways.grpc.send(data))
        assert told.partial_success.rejected_spans == 1
        assert told.partial_success.error_message
    elif way == "kafka":
        ways.from_kafka("scouter.spans", data)
    else:
        ways.from_queue("scouter.spans", data)
    after = ways.service.get("/api/v1/conservation")["spans"]
    assert after["stored"] - before["stored"] == 2
    assert after["dead_lettered"] - before["dead_lettered"] == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"profile": "p", "context": "x" * TEN_MB},
        {"profile": "p", "context": json.loads("[" * 150 + "]" * 150)},
        {"profile": "p", "context": json.loads("[" * 700 + '"\\ud800"' + "]" * 700)},
        {"profile": "p", "trace_id": "0" * 32},
        {"profile": "p", "created_at": -1},
        {"profile": "p", "created_at": 10**30},
        {"profile": ["p"]},
        None,
    ],
    ids=lambda value: str(value)[:40].encode("ascii", "replace").decode(),
)
def test_a_bad_record_costs_only_itself(
    ways: Ways, bad: object, request: pytest.FixtureRequest
) -> None:
    name = request.node.name.encode("ascii", "replace").decode()[:200]
    good = [{"uid": f"{name} {n}", "profile": "p"} for n in (1, 2)]
    data = json.dumps({"records": [good[0], bad, good[1]]}).encode()
    answer = ways.post("/v1/records", data, JSON)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["accepted"], answer.json()["rejected"]) == (2, 1)


def test_bad_log_records_cost_only_themselves(ways: Ways) -> None:
    good = [{"uid": f"good log {n}", "profile": "p"} for n in (1, 2)]
    bodies: list[object] = [good[0], {"uid": "BAD", "profile": "p"}, "x" * TEN_MB, good[1]]
    data = logs_request(bodies).SerializeToString().replace(b"BAD", b"B\xffD")
    told = ExportLogsServiceResponse.FromString(ways.post("/v1/logs", data, PROTOBUF).content)
    assert told.partial_success.rejected_log_records == 2
    told = ExportLogsServiceResponse.FromString(ways.grpc.send(data, "logs"))
    assert told.partial_success.rejected_log_records == 2
    assert ways.service.get("/api/v1/conservation")["records"]["duplicates"] >= 2


# --- bombs, and what newer senders say ----------------------------------------------------------


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """300 MB of nothing."""
    return gzip.compress(bytes(300 * 2**20), 9)


@pytest.mark.parametrize("path", PATHS)
def test_gzip_bombs(ways: Ways, bomb: bytes, path: str) -> None:
    media = JSON if path == "/v1/records" else PROTOBUF
    assert len(bomb) < 2**20
    assert ways.post(path, bomb, media, "gzip").status_code == 413
    assert ways.post(path, gzip.compress(bomb, 9), media, "gzip").status_code == 400


@pytest.mark.parametrize(
    ("path", "data", "media"),
    [
        ("/v1/traces", b"\x0a\x00" * 4 * 2**20, PROTOBUF),
        ("/v1/logs", b"\x0a\x02\x12\x00" * 2 * 2**20, PROTOBUF),
        ("/v1/traces", field(1, field(2, b"\x12\x00" * 4 * 2**20)), PROTOBUF),
        ("/v1/records", b'{"records": [' + b"[]," * 10**6 + b"0]}", JSON),
        ("/v1/traces", b'{"resourceSpans": [' + b"{}," * 10**6 + b"{}]}", JSON),
        ("/v1/records", b'{"records": [' + b"0," * 30_000 + b"0]}", JSON),
    ],
)
def test_many_small_things_are_refused_as_a_whole(
    ways: Ways, path: str, data: bytes, media: str
) -> None:
    """Eight million empty messages in 8 MiB would be gigabytes once they are parsed."""
    assert ways.post(path, data, media).status_code == 413


def test_a_large_resource_is_not_multiplied_by_its_spans(ways: Ways) -> None:
    """A thousand spans with a resource of 60 kB would be stored as 60 MB; of 1 MB not at all."""
    spans = [_span(10_000 + n).SerializeToString() for n in range(2000)]
    for size in (60_000, 10**6):
        resource = field(1, field(1, b"k") + field(2, field(1, b"x" * size)))
        data = spans_request(*spans, resource=resource)
        assert ways.post("/v1/traces", data, PROTOBUF).status_code == 413


def test_newer_senders_are_understood(ways: Ways) -> None:
    """Unknown fields, enum values and keys are passed over."""
    proto = _span(77)
    proto.kind, proto.status.code = 17, 9
    unknown = b"\x9a\x06\x02\xff\xff" + b"\x98\x06\x01"  # field 99, bytes and number
    data = spans_request(proto.SerializeToString() + unknown) + unknown
    assert ways.post("/v1/traces", data, PROTOBUF).content == b""
    assert ExportTraceServiceRequest.FromString(data).resource_spans
    body: Any = spans_to_otlp_json([span(78)])
    group = body["resourceSpans"][0]
    for each in (body, group, group["scopeSpans"][0], group["scopeSpans"][0]["spans"][0]):
        each["newField"] = {"deep": [1]}
    group["scopeSpans"][0]["spans"][0] |= {"kind": 99, "status": {"code": "NEW"}}
    assert ways.post("/v1/traces", json.dumps(body).encode(), JSON).json() == {}
    log = ExportLogsServiceRequest.FromString(logs_data()).SerializeToString() + unknown
    assert ways.post("/v1/logs", log, PROTOBUF).status_code == 200
