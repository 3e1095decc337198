"""`POST /v1/traces`: OTLP/HTTP in protobuf and JSON, as the specification has it."""

import gzip
import itertools
import json
import threading
import zlib
from typing import Any

import pytest
from google.rpc.status_pb2 import Status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from zstandard import ZstdCompressor

from collector.items.traces import decode_json, decode_protobuf, merged
from collector.store.commit import Commit
from scouter.model.otlp import encode_request
from scouter.model.otlp_json import spans_to_otlp_json
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span
from tests.support.examples import examples
from tests.support.otlp import deep_attribute, spans_request

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def service(start: Start) -> Service:
    return start()


def request_with_a_bad_span() -> ExportTraceServiceRequest:
    """Three spans, the second one with an id that is too short."""
    request = encode_request([span(1), span(2), span(3)])
    request.resource_spans[0].scope_spans[0].spans[1].span_id = b"short"
    return request


def test_protobuf(service: Service) -> None:
    data = encode_request([span(1), span(2)]).SerializeToString()
    answer = service.http.post("/v1/traces", content=data, headers=PROTOBUF)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    trace = service.get(f"/api/v1/traces/{TRACE.upper()}")
    assert trace["trace_id"] == TRACE
    assert [each["spanId"] for each in trace["spans"]] == [f"{n:016x}" for n in (1, 2)]


def test_json_in_every_encoding(service: Service) -> None:
    text = json.dumps(spans_to_otlp_json([span(1, attributes={"k": ("v", 2)})])).encode()
    for data, headers in (
        (text, JSON),
        (gzip.compress(text), JSON | {"Content-Encoding": "gzip"}),
        (zlib.compress(text), JSON | {"Content-Encoding": "deflate"}),
        (ZstdCompressor().compress(text), JSON | {"Content-Encoding": "zstd"}),
        (text, {"Content-Type": "Application/JSON; charset=utf-8"}),
    ):
        answer = service.http.post("/v1/traces", content=data, headers=headers)
        assert (answer.status_code, answer.json()) == (200, {})
    (found,) = service.get(f"/api/v1/traces/{TRACE}")["spans"]
    assert found["attributes"][0]["key"] == "k"
    spans = service.get("/api/v1/conservation")["spans"]
    assert (spans["accepted"], spans["stored"], spans["duplicates"]) == (1, 1, 4)


def test_what_is_decompressed_counts(start: Start) -> None:
    """On every route: one byte too many is 413, broken bytes are 400, others are read."""
    http = start(max_inflated="64KiB").http
    for path, (encoding, compress) in itertools.product(
        ("/v1/traces", "/v1/logs", "/v1/metrics", "/v1/records"),
        (("deflate", zlib.compress), ("zstd", ZstdCompressor().compress)),
    ):
        headers = JSON | {"Content-Encoding": encoding}
        empty = (b'{"records": []}' if path == "/v1/records" else b"{}").ljust(2**16)
        for data, status in (
            (compress(empty), 200),
            (compress(empty + b" "), 413),
            (compress(empty)[:-3], 400),
            (b"\xff" * 20, 400),
        ):
            answer = http.post(path, content=data, headers=headers)
            assert answer.status_code == status, (path, encoding, answer.text)


def test_metrics_are_taken_and_dropped(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """A stock SDK sends them anyway, and would log an error each minute; it is reported once."""
    caplog.set_level("INFO", "collector")
    for headers, nothing in ((PROTOBUF, b""), (JSON, b"{}"), (JSON, b"{}")):
        answer = service.http.post("/v1/metrics", content=b"whatever", headers=headers)
        assert (answer.status_code, answer.content) == (200, nothing)
        assert answer.headers["content-type"] == headers["Content-Type"]
    line = 'scouter_ingest_ignored_metric_exports_total{receiver="http"}'
    assert service.sample(line) == 3
    assert sum("OTLP metrics are taken" in each.message for each in caplog.records) == 1


def test_an_empty_request_is_fine(untouched: Service) -> None:
    assert untouched.http.post("/v1/traces", content=b"", headers=PROTOBUF).status_code == 200
    assert untouched.http.post("/v1/traces", content=b"{}", headers=JSON).status_code == 200


def test_partial_success_in_protobuf(service: Service) -> None:
    data = request_with_a_bad_span().SerializeToString()
    answer = service.http.post("/v1/traces", content=data, headers=PROTOBUF)
    outcome = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, outcome.rejected_spans) == (200, 1)
    assert "span id" in outcome.error_message
    sheet = service.get("/api/v1/conservation")
    assert (sheet["spans"]["stored"], sheet["spans"]["dead_lettered"]) == (2, 1)
    assert sheet["dead_letters"] == {"invalid_span": 1}


def test_partial_success_in_json(service: Service) -> None:
    body: Any = spans_to_otlp_json([span(1), span(2)])
    body["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = "xyz"
    answer = service.http.post("/v1/traces", json=body)
    partial = answer.json()["partialSuccess"]
    assert (answer.status_code, partial["rejectedSpans"]) == (200, "1")
    assert partial["errorMessage"]


def test_the_payload_of_a_refused_span_is_a_request_of_its_own() -> None:
    """So that it can be sent again once it is mended."""
    body = decode_protobuf(request_with_a_bad_span().SerializeToString())
    (refused,) = body.refused
    one = ExportTraceServiceRequest.FromString(refused.payload)
    (bad,) = one.resource_spans[0].scope_spans[0].spans
    assert (bad.name, bad.span_id) == ("step 2", b"short")
    assert [each.name for each in body.spans] == ["step 1", "step 3"]

    raw: Any = spans_to_otlp_json([span(1), span(2)])
    raw["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["spanId"] = "short"
    (refused,) = decode_json(json.dumps(raw).encode()).refused
    again = json.loads(refused.payload)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [each["name"] for each in again] == ["step 2"]


def test_an_answer_holds_what_was_acknowledged_before_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the database is slow to take it up."""
    store = service.collector.store
    commit = store.commit

    def slow(rows: Commit) -> int:
        threading.Event().wait(0.3)
        return commit(rows)

    monkeypatch.setattr(store, "commit", slow)
    for n in range(1, 4):
        data = encode_request([span(n)]).SerializeToString()
        assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).status_code == 200
        assert len(service.get(f"/api/v1/traces/{TRACE}")["spans"]) == n
        assert service.get("/api/v1/conservation")["spans"]["stored"] == n


def test_requests_are_stored_as_they_came_where_nothing_is_refused() -> None:
    """Then nothing is written anew; and those of several messages are one."""
    whole = encode_request([span(1), span(2)]).SerializeToString()
    (batch,) = decode_protobuf(whole).batches
    assert (batch.wire, [each.name for each in batch.spans]) == (whole, ["step 1", "step 2"])
    (partly,) = decode_protobuf(request_with_a_bad_span().SerializeToString()).batches
    assert (partly.wire, len(partly.spans)) == (None, 2)
    (json_,) = decode_json(json.dumps(spans_to_otlp_json([span(4)])).encode()).batches
    other = decode_protobuf(encode_request([span(9)]).SerializeToString()).batches[0]

    one, rest = merged([batch, partly, other, json_])
    assert [each.span_id[-1] for each in one.spans] == ["1", "2", "9"]
    assert one.wire is not None
    assert decode_protobuf(one.wire).spans == one.spans
    assert (rest.wire, [each.span_id[-1] for each in rest.spans]) == (None, ["1", "3", "4"])
    assert merged([]) == []


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"\xff\xff", PROTOBUF, 400, 3),
        (b"[1]", JSON, 400, 3),
        (b'{"resourceSpans": 1}', JSON, 400, 3),
        (b'{"spans": []}', JSON, 400, 3),
        (b"{", JSON, 400, 3),
        (b"x", PROTOBUF | {"Content-Encoding": "gzip"}, 400, 3),
        (gzip.compress(bytes(65 * 2**20)), PROTOBUF | {"Content-Encoding": "gzip"}, 413, 3),
        (b"", PROTOBUF | {"Content-Encoding": "snappy"}, 415, 3),
        (b"", {"Content-Type": "text/plain"}, 415, 3),
    ],
)
def test_errors_are_a_status_in_the_encoding_of_the_request(
    untouched: Service, content: bytes, headers: dict[str, str], status: int, code: int
) -> None:
    answer = untouched.http.post("/v1/traces", content=content, headers=headers)
    assert answer.status_code == status
    if headers["Content-Type"] == "application/x-protobuf":
        outcome = Status.FromString(answer.content)
        assert (outcome.code, bool(outcome.message)) == (code, True)
    else:
        assert (answer.json()["code"], bool(answer.json()["message"])) == (code, True)


def test_a_log_that_cannot_be_written_asks_to_come_back(service: Service) -> None:
    service.collector.log.close()
    data = encode_request([span(1)]).SerializeToString()
    answer = service.http.post("/v1/traces", content=data, headers=PROTOBUF)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert Status.FromString(answer.content).code == 14


def test_drops_in_the_header(service: Service) -> None:
    headers = PROTOBUF | {"Scouter-Dropped": "full=12"}
    assert service.http.post("/v1/traces", content=b"", headers=headers).status_code == 200
    line = 'scouter_queue_dropped_total{reason="full",space="default"}'
    assert service.sample(line) == 12


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(at=st.integers(0, 400), bits=st.integers(1, 255), data=st.data())
def test_mutated_requests_never_5xx(
    service: Service, at: int, bits: int, data: st.DataObject
) -> None:
    """One byte of a real request changed; what is still readable is stored or put aside."""
    spans = [
        span(n, attributes={"k": "v", "n": 1.5, "list": (1, b"x"), "map": {"a": True}})
        for n in (1, 2, 3)
    ]
    as_json = data.draw(st.booleans())
    raw = bytearray(
        json.dumps(spans_to_otlp_json(spans)).encode()
        if as_json
        else encode_request(spans).SerializeToString()
    )
    raw[at % len(raw)] ^= bits
    answer = service.http.post(
        "/v1/traces", content=bytes(raw), headers=JSON if as_json else PROTOBUF
    )
    assert answer.status_code in (200, 400)


@pytest.mark.parametrize("depth", [40, 200])
def test_attributes_that_are_nested_cost_nothing_but_their_depth(
    service: Service, depth: int
) -> None:
    good = encode_request([span(1), span(2)]).resource_spans[0].scope_spans[0].spans
    first, second = (each.SerializeToString() for each in good)
    data = spans_request(first, second + deep_attribute(depth))
    answer = service.http.post("/v1/traces", content=data, headers=PROTOBUF)
    outcome = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, outcome.rejected_spans) == (200, 0)
    sheet = service.get("/api/v1/conservation")["spans"]
    assert (sheet["stored"], sheet["dead_lettered"]) == (2, 0)
