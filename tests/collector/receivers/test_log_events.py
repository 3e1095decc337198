"""GenAI events as OTLP log records, from their bytes to the spans that people read."""

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from collector.items.limits import Limits, TooLargeError
from collector.items.logs import LogsBody, decode_logs_json, decode_logs_protobuf
from collector.receivers.kafka.intake import KafkaIntake
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.model.otlp import encode_request
from scouter.model.span import Span
from tests.collector.conftest import Service, Start
from tests.collector.receivers.kafka.test_receiver import Message
from tests.support.components import require
from tests.support.otlp import field, logs_request
from tests.support.processes import wait_until

TRAFFIC = Path(
    os.environ.get("SCOUTER_AGENT_TRACES")
    or Path(__file__).parents[4] / "shared" / "data" / "agent-traces"
)
PROTOBUF = {"Content-Type": "application/x-protobuf"}
TRACE = "0af7651916cd43dd8448eb211c80319c"
CHAT = Span(
    trace_id=TRACE, span_id=f"{1:016x}", name="chat", start_ns=10, end_ns=20,
    attributes={"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": ("stop",)},
)  # fmt: skip
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Canberra"}}


def events(*bodies: object, span_id: int = 1, name: str = "gen_ai.choice") -> bytes:
    """A request as opentelemetry-instrumentation-openai-v2 sends it."""
    request = logs_request(
        bodies, event_name=name, attributes={"gen_ai.system": "openai"},
        trace_id=bytes.fromhex(TRACE), time_ns=15,
    )  # fmt: skip
    for log in request.resource_logs[0].scope_logs[0].log_records:
        log.span_id = span_id.to_bytes(8, "big")
    return request.SerializeToString()


def send(service: Service, path: str, data: bytes) -> bytes:
    answer = service.http.post(path, content=data, headers=PROTOBUF)
    assert answer.status_code == 200, answer.text
    return answer.content


def send_spans(service: Service, *spans: Span) -> None:
    send(service, "/v1/traces", encode_request(spans).SerializeToString())


def test_both_forms_give_the_same_event() -> None:
    said = {
        "eventName": "gen_ai.choice", "observedTimeUnixNano": "15", "traceId": TRACE,
        "spanId": f"{1:016x}",
        "attributes": [{"key": "gen_ai.system", "value": {"stringValue": "openai"}}],
        "body": {"kvlistValue": {"values": [
            {"key": "index", "value": {"intValue": "0"}},
            {"key": "message", "value": {"kvlistValue": {"values": [
                {"key": "role", "value": {"stringValue": "assistant"}},
                {"key": "content", "value": {"stringValue": "Canberra"}},
            ]}}},
        ]}},
    }  # fmt: skip
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": [said]}]}]}
    (of_json,) = decode_logs_json(json.dumps(request).encode()).events
    (of_protobuf,) = decode_logs_protobuf(events(CHOICE)).events
    assert of_json == of_protobuf
    assert of_json.attributes == {**CHOICE, "gen_ai.system": "openai"}


def test_what_protobuf_would_refuse_is_repaired() -> None:
    """A text that is not UTF-8, and nesting without end; the other event is whole."""
    log = ExportLogsServiceRequest.FromString(events(CHOICE)).resource_logs[0].scope_logs[0]
    (good,) = log.log_records
    raw = good.SerializeToString()
    text = field(5, field(1, b"caf\xe9 \xed\xa0\xbd"))  # LogRecord.body.string_value
    deep = b"\x18\x01"
    for _ in range(200):
        deep = field(5, field(1, deep))
    ids = good.__class__(event_name="gen_ai.choice", trace_id=good.trace_id, span_id=good.span_id)
    bad = [ids.SerializeToString() + text, ids.SerializeToString() + field(5, deep)]
    data = field(1, field(2, b"".join(field(2, each) for each in [raw, *bad])))

    body = decode_logs_protobuf(data)

    assert (len(body.events), body.refused, body.refused_events) == (3, [], [])
    assert body.events[0].attributes["index"] == 0
    repaired = body.events[1].attributes["body"]
    assert isinstance(repaired, str)
    assert repaired.startswith("caf\ufffd ")
    assert body.events[2].attributes["scouter.truncated"] == ("body",)


def test_a_record_that_is_not_whole_is_still_refused() -> None:
    """Only events are repaired: a cut record would be judged as if it were whole."""
    request = logs_request([{"profile": "p", "context": {"answer": "x" * 500}}])
    body = decode_logs_protobuf(request.SerializeToString(), Limits(max_item=200))
    assert (len(body.items), body.refused) == (1, [])  # a small request is parsed in one go
    broken = request.SerializeToString().replace(b"x" * 500, b"\xe9" * 500)
    body = decode_logs_protobuf(broken)
    assert (body.items, body.events, len(body.refused)) == ([], [], 1)


def test_limits_are_those_of_spans() -> None:
    """A value that is too large is cut and says so; a request of too many values is refused."""
    limits = Limits(max_item=2000, max_attributes=8)
    (large,) = decode_logs_protobuf(events({"text": "x" * 9000}), limits).events
    assert encode_request([large]).ByteSize() <= 2100
    assert large.attributes["scouter.truncated"] == ("text",)
    many = {f"k{n}": n for n in range(50)}
    (wide,) = decode_logs_protobuf(events(many), limits).events
    assert len(wide.attributes) == 8
    assert wide.attributes["scouter.truncated"] == ("attributes",)
    assert wide.dropped_count == 44
    with pytest.raises(TooLargeError, match="values"):
        decode_logs_protobuf(events({"l": [1] * 60}), Limits(max_values=50))
    again = decode_logs_protobuf(events({"text": "x" * 9000}), limits).events
    assert again == [large]


def test_bad_ids_are_refused_alone() -> None:
    """An event outside of every span is counted like any other log record."""

    def decoded(trace_id: bytes, span_id: bytes) -> LogsBody:
        request = ExportLogsServiceRequest.FromString(events(CHOICE, CHOICE))
        log = request.resource_logs[0].scope_logs[0].log_records[0]
        log.trace_id, log.span_id = trace_id, span_id
        return decode_logs_protobuf(request.SerializeToString())

    body = decoded(b"\1" * 3, b"\1" * 8)
    assert (len(body.events), len(body.refused_events), body.ignored) == (1, 1, 0)
    assert "trace id" in body.refused_events[0].message
    body = decoded(b"", b"")
    assert (len(body.events), len(body.refused_events), body.ignored) == (1, 0, 1)


def test_events_are_read_with_their_spans_and_counted_once(start: Start) -> None:
    """In any order of arrival; a refused one is a dead letter with a part of the answer."""
    service = start()
    send(service, "/v1/logs", events(CHOICE))
    send_spans(service, CHAT)
    send(service, "/v1/logs", events(CHOICE, {"index": 1}))
    send(service, "/v1/logs", events("lonely", span_id=9))
    bad = ExportLogsServiceRequest.FromString(events(CHOICE))
    bad.resource_logs[0].scope_logs[0].log_records[0].trace_id = b"\1"
    answer = send(service, "/v1/logs", bad.SerializeToString())
    partial = ExportLogsServiceResponse.FromString(answer).partial_success
    assert (partial.rejected_log_records, "trace id" in partial.error_message) == (1, True)

    trace = service.get(f"/api/v1/traces/{TRACE}")
    (span,) = trace["spans"]
    assert [each["name"] for each in span["events"]] == ["gen_ai.choice"] * 2
    keys = {pair["key"] for each in span["events"] for pair in each["attributes"]}
    assert keys == {"gen_ai.system", "index", "message"}
    (lonely,) = trace["spanless_events"]
    assert (lonely["name"], lonely["parentSpanId"]) == ("gen_ai.choice", f"{9:016x}")
    assert service.get("/api/v1/conservation")["events"] == {
        "accepted": 3, "stored": 3, "spanless": 1, "duplicates": 1, "dead_lettered": 1,
        "expired": 0, "erased": 0, "lost": 0,
    }  # fmt: skip
    assert service.get("/api/v1/conservation")["spans"]["accepted"] == 1
    assert service.sample('scouter_log_events_received_total{space="default"}') == 3
    assert [each["span_id"] for each in service.get("/api/v1/spans")["items"]] == [CHAT.span_id]


def answer_profile(folder: Path) -> Path:
    """Judges what the model said, as its spans tell it."""
    task = AgentAssertionTask(
        "right", AgentAssertion.response_content(), "Canberra", ComparisonOperator.Equals,
        source="spans",
    )  # fmt: skip
    return AgentEvalProfile([task], alias="spoken").save_to_json(folder / "spoken.json")


@pytest.mark.parametrize("is_late", [False, True])
def test_what_an_event_says_is_judged_also_after_an_evaluation(
    start: Start, tmp_path: Path, is_late: bool
) -> None:
    """Late events re-open the record, as late spans do."""
    service = start(profile=[str(answer_profile(tmp_path))])
    said = events(CHOICE)
    if not is_late:
        send(service, "/v1/logs", said)
    send_spans(service, CHAT)
    service.send({"uid": "u", "profile": "spoken", "trace_id": TRACE, "context": {}})
    service.wait_for(1)
    if is_late:
        (first,) = service.get("/api/v1/evaluations")["items"]
        assert first["outcome"] != "passed"
        send(service, "/v1/logs", said)

    def latest() -> Any:
        return service.get("/api/v1/evaluations")["items"][0]

    wait_until(lambda: latest()["outcome"] == "passed", what="the answer")
    assert latest()["revision"] == (2 if is_late else 1)


def test_a_result_of_an_evaluator_reopens_nothing(start: Start, tmp_path: Path) -> None:
    """It comes before its span and after the evaluation: it is shown, and nobody waits for it."""
    service = start(profile=[str(answer_profile(tmp_path))])
    send(service, "/v1/logs", events(CHOICE))
    send(service, "/v1/logs", events("early", span_id=9, name="gen_ai.evaluation.result"))
    send_spans(service, CHAT)
    service.send({"uid": "u", "profile": "spoken", "trace_id": TRACE, "context": {}})
    service.wait_for(1)
    (item,) = service.get("/api/v1/evaluations")["items"]
    assert (item["completeness"], item["outcome"]) == ("complete", "passed")
    send(service, "/v1/logs", events("late", name="gen_ai.evaluation.result"))
    (span,) = service.get(f"/api/v1/traces/{TRACE}")["spans"]
    assert [each["name"] for each in span["events"]] == [
        "gen_ai.choice", "gen_ai.evaluation.result",
    ]  # fmt: skip
    service = start(profile=[str(answer_profile(tmp_path))])  # takes up what waits, if anything
    send_spans(service, replace(CHAT, trace_id="1" * 32))
    service.send({"uid": "v", "profile": "spoken", "trace_id": "1" * 32, "context": {}})
    service.wait_for(2)
    revisions = {
        each["uid"]: each["revision"] for each in service.get("/api/v1/evaluations")["items"]
    }
    assert revisions == {"u": 1, "v": 1}


def test_an_event_without_its_span_keeps_a_record_waiting(start: Start, tmp_path: Path) -> None:
    """It says that the span exists: silence decides nothing, the deadline does."""
    service = start(profile=[str(answer_profile(tmp_path))], deadline_s="1s")
    send(service, "/v1/logs", events(CHOICE, span_id=9))
    send_spans(service, CHAT)
    service.send({"uid": "u", "profile": "spoken", "trace_id": TRACE, "context": {}})
    service.wait_for(1)
    (item,) = service.get("/api/v1/evaluations")["items"]
    assert (item["completeness"], item["missing_parents"]) == ("deadline", 1)
    (task,) = item["tasks"]
    assert (task["outcome"], task["reason"]) == ("errored", "incomplete")


def test_a_dead_letter_of_the_store_and_of_an_event_can_be_replayed(start: Start) -> None:
    """An event that was refused stays refused, and nothing else changes."""
    service = start()
    bad = ExportLogsServiceRequest.FromString(events(CHOICE))
    bad.resource_logs[0].scope_logs[0].log_records[0].trace_id = b"\1"
    send(service, "/v1/logs", bad.SerializeToString())
    (letter,) = service.get("/api/v1/dead-letters")["items"]
    assert (letter["kind"], letter["reason"]) == ("log", "invalid_event")
    done = service.http.post(f"/api/v1/dead-letters/{letter['letter_id']}/replay").json()
    assert done["result"] == "refused"


@pytest.mark.parametrize("client", ["openai-v2", "bedrock-botocore", "openai-openlit", "adk-own"])
def test_real_clients(start: Start, client: str) -> None:
    """Every event that real instrumentors sent finds its span, whichever comes first."""
    files = sorted(TRAFFIC.glob(f"{client}-[0-9]*.logs.binpb"))
    require("agent-traces", present=bool(files), detail="no recorded traffic here")
    (logs,) = files
    service = start()
    request = ExportLogsServiceRequest.FromString(logs.read_bytes())
    sent = [
        log
        for group in request.resource_logs
        for scope in group.scope_logs
        for log in scope.log_records
    ]
    for _ in range(2):
        send(service, "/v1/logs", logs.read_bytes())
        traces = logs.with_name(logs.name.replace(".logs", ""))
        send(service, "/v1/traces", traces.read_bytes())

    sheet = service.get("/api/v1/conservation")["events"]
    assert (sheet["accepted"], sheet["spanless"], sheet["duplicates"]) == (
        len(sent), 0, len(sent),
    )  # fmt: skip
    wanted = sorted((log.span_id.hex(), log.event_name) for log in sent)
    found = [
        (span["spanId"], event["name"])
        for trace_id in {log.trace_id.hex() for log in sent}
        for span in service.get(f"/api/v1/traces/{trace_id}")["spans"]
        for event in cast(list[dict[str, Any]], span.get("events", []))
        if event["name"].startswith("gen_ai.")
    ]
    assert sorted(found) == wanted


def test_log_requests_of_a_kafka_topic(start: Start) -> None:
    """Records and events of one; what cannot be read is put aside, and the rest goes on."""
    service = start(deadline_s="1h")
    intake = KafkaIntake(
        service.collector.ingest, "scouter.spans", threading.Event(), logs_topic="otlp_logs"
    )
    record = logs_request([{"uid": "u", "profile": "p", "context": {}}]).SerializeToString()
    bad = ExportLogsServiceRequest.FromString(events(CHOICE))
    bad.resource_logs[0].scope_logs[0].log_records[0].trace_id = b"\1"
    spans = encode_request([CHAT]).SerializeToString()
    messages = [
        Message(topic=topic, value=value, offset=offset)
        for offset, (topic, value) in enumerate(
            [
                ("otlp_logs", events(CHOICE) + record),
                ("otlp_logs", b"garbage"),
                ("scouter.spans", spans),
                ("otlp_logs", events(CHOICE)),
                ("otlp_logs", bad.SerializeToString()),
            ]
        )
    ]
    intake.take(messages)
    intake.finish()

    sheet = service.get("/api/v1/conservation")
    assert sheet["records"]["accepted"] == 1
    assert sheet["spans"]["accepted"] == 1
    events_sheet = sheet["events"]
    assert (events_sheet["stored"], events_sheet["spanless"], events_sheet["duplicates"]) == (
        1,
        0,
        1,
    )
    letters = {
        (each["kind"], each["reason"]) for each in service.get("/api/v1/dead-letters")["items"]
    }
    assert letters == {("log", "invalid_message"), ("log", "invalid_event")}
