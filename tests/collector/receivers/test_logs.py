"""`POST /v1/logs`: EvalRecords as events of a stock OpenTelemetry SDK."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from collector.items.logs import decode_logs_json, decode_logs_protobuf
from tests.collector.conftest import Service, Start
from tests.support.otlp import logs_request

PROTOBUF = {"Content-Type": "application/x-protobuf"}
TRACE = "0af7651916cd43dd8448eb211c80319c"
RECORD = {"profile": "answers", "context": {"answer": 42, "parts": [1.5, None, True]}}


@pytest.fixture
def service(start: Start, answers: Path) -> Service:
    return start(profile=[str(answers)])


def send(service: Service, request: ExportLogsServiceRequest) -> ExportLogsServiceResponse:
    data = request.SerializeToString()
    answer = service.http.post("/v1/logs", content=data, headers=PROTOBUF)
    assert answer.status_code == 200, answer.text
    return ExportLogsServiceResponse.FromString(answer.content)


def test_an_event_is_a_record_and_gets_what_its_body_does_not_say(service: Service) -> None:
    request = logs_request(
        [RECORD],
        attributes={"team": "blue", "turn": 3, "nested": {"a": 1}},
        resource={"service.name": "shop", "host.name": "h"},
        trace_id=bytes.fromhex(TRACE),
    )
    assert send(service, request) == ExportLogsServiceResponse()
    service.wait_for(1)
    (item,) = service.get("/api/v1/evaluations")["items"]
    assert (item["outcome"], item["trace_id"]) == ("passed", TRACE)
    assert item["tags"] == {"team": "blue", "turn": "3", "service.name": "shop"}
    assert item["created_at"] == "2023-11-14T22:13:20.000000Z"


@pytest.mark.parametrize("body", [json.dumps(RECORD), json.dumps(RECORD).encode()])
def test_a_body_may_be_json_text(body: object) -> None:
    found = decode_logs_protobuf(logs_request([body], time_ns=0).SerializeToString())
    assert found.items == [RECORD]


def test_what_the_body_says_wins() -> None:
    said = {**RECORD, "trace_id": "f" * 32, "created_at": 5, "tags": {"team": "red"}}
    request = logs_request([said], attributes={"team": "blue"}, trace_id=bytes.fromhex(TRACE))
    assert decode_logs_protobuf(request.SerializeToString()).items == [said]


@pytest.mark.parametrize(
    ("trace_id", "wanted"), [("", None), ("0" * 32, None), (TRACE, TRACE), ("abcd", "abcd")]
)
def test_both_forms_say_the_same(trace_id: str, wanted: str | None) -> None:
    """Zeros are no id; one of another length is left for the check of records to refuse.

    No time is 0 in either form, and then the time of observation counts.
    """
    request = logs_request([RECORD], time_ns=0, trace_id=bytes.fromhex(trace_id))
    (log,) = request.resource_logs[0].scope_logs[0].log_records
    log.observed_time_unix_nano = 7
    said = {
        "eventName": "scouter.eval_record", "timeUnixNano": "0", "observedTimeUnixNano": "7",
        "traceId": trace_id, "body": {"stringValue": json.dumps(RECORD)},
    }  # fmt: skip
    text = {"resourceLogs": [{"scopeLogs": [{"logRecords": [said]}]}]}

    for body in (
        decode_logs_protobuf(request.SerializeToString()),
        decode_logs_json(json.dumps(text).encode()),
    ):
        (item,) = body.items
        found = cast("dict[str, object]", item)
        assert (found.get("trace_id"), found["created_at"]) == (wanted, 7)


def test_an_older_sdk_names_the_event_in_an_attribute() -> None:
    attributes: dict[str, object] = {"event.name": "scouter.eval_record"}
    request = logs_request([RECORD], event_name="", attributes=attributes, time_ns=0)
    assert decode_logs_protobuf(request.SerializeToString()).items == [RECORD]
    request = logs_request([RECORD], event_name="other", attributes=attributes)
    assert decode_logs_protobuf(request.SerializeToString()).ignored == 1


def test_a_request_sent_again_is_known(service: Service) -> None:
    for _ in range(2):
        send(service, logs_request([RECORD, {**RECORD, "record_id": "other"}]))
    records = service.get("/api/v1/conservation")["records"]
    assert (records["accepted"], records["duplicates"]) == (2, 2)


def test_other_log_records_are_counted_and_not_stored(service: Service) -> None:
    send(service, logs_request(["a line of a log", {"x": 1}], event_name=""))
    assert service.sample('scouter_ingest_ignored_log_records_total{receiver="http"}') == 2
    sheet = service.get("/api/v1/conservation")
    assert (sheet["records"]["accepted"], sheet["dead_letters"]) == (0, {})


def test_what_is_no_record_is_put_aside_and_the_rest_is_stored(service: Service) -> None:
    bodies: list[object] = [RECORD, "no JSON", 7, {"context": {}}, {**RECORD, "uid": "last"}]
    outcome = send(service, logs_request(bodies)).partial_success
    assert outcome.rejected_log_records == 3
    assert outcome.error_message
    sheet = service.get("/api/v1/conservation")
    assert (sheet["records"]["accepted"], sheet["dead_letters"]) == (2, {"invalid_record": 3})


def test_a_text_that_is_not_unicode_costs_one_record(service: Service) -> None:
    """Protobuf would refuse the request of three for the one in the middle."""
    bodies = [{**RECORD, "uid": name} for name in ("one", "two", "three")]
    data = logs_request(bodies).SerializeToString().replace(b"two", b"t\xff\xff")
    answer = service.http.post("/v1/logs", content=data, headers=PROTOBUF)
    outcome = ExportLogsServiceResponse.FromString(answer.content)
    assert (answer.status_code, outcome.partial_success.rejected_log_records) == (200, 1)
    service.wait_for(2)
    items = service.get("/api/v1/evaluations")["items"]
    assert {item["uid"] for item in items} == {"one", "three"}


def as_json(*logs: dict[str, Any]) -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": list(logs)}]}]}


def test_json(service: Service) -> None:
    log = {
        "eventName": "scouter.eval_record",
        "traceId": TRACE,
        "timeUnixNano": "1700000000000000000",
        "body": {"stringValue": json.dumps(RECORD)},
    }
    answer = service.http.post("/v1/logs", json=as_json(log, {"body": {"stringValue": "line"}}))
    assert (answer.status_code, answer.json()) == (200, {})
    service.wait_for(1)
    (item,) = service.get("/api/v1/evaluations")["items"]
    assert (item["trace_id"], item["tags"]) == (TRACE, {"service.name": "shop"})

    broken = {**log, "attributes": 7}
    answer = service.http.post("/v1/logs", json=as_json(broken, log))
    partial = answer.json()["partialSuccess"]
    assert (answer.status_code, partial["rejectedLogRecords"]) == (200, "1")
    assert "attributes" in partial["errorMessage"]


@pytest.mark.parametrize(
    "body",
    [b"[]", b'{"resourceLogs": 1}', b'{"resourceLogs": [1]}', b'{"resourceSpans": []}', b"{"],
)
def test_a_body_that_is_something_else(untouched: Service, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    assert untouched.http.post("/v1/logs", content=body, headers=headers).status_code == 400
    assert decode_logs_json(b"{}").items == []
