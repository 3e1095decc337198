"""Results of other evaluators, sent as log records: stored with their span, and nothing else."""

from pathlib import Path

import pytest

from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.otlp import encode_request
from scouter.model.span import Resource
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span
from tests.support.otlp import logs_request

PROTOBUF = {"Content-Type": "application/x-protobuf"}
RESULT = {
    "gen_ai.evaluation.name": "tone",
    "gen_ai.evaluation.score.value": 0.25,
    "gen_ai.evaluation.score.label": "rude",
}


@pytest.fixture
def service(start: Start, traced: Path) -> Service:
    """With a record that was judged with its whole trace, and failed: one span and not two."""
    service = start(profile=[str(traced)])
    resource = Resource(attributes={PROCESS_ID: "p"})
    root = span(1, name="step", attributes={PROCESS_SPAN_COUNT: 1}, resource=resource)
    data = encode_request([root]).SerializeToString()
    assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
    service.send({"uid": "u1", "profile": "traced", "trace_id": TRACE})
    service.wait_for(1)
    return service


def send(service: Service, attributes: dict[str, object], span_id: str) -> None:
    request = logs_request(
        ["why"], event_name="gen_ai.evaluation.result", attributes=attributes,
        trace_id=bytes.fromhex(TRACE),
    )  # fmt: skip
    request.resource_logs[0].scope_logs[0].log_records[0].span_id = bytes.fromhex(span_id)
    data = request.SerializeToString()
    answer = service.http.post("/v1/logs", content=data, headers=PROTOBUF)
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_late_result_is_stored_and_changes_no_evaluation(service: Service) -> None:
    """Sent twice it is stored once; the record is not judged again, and erased it is gone."""
    before = service.get(f"/api/v1/traces/{TRACE}")["evaluations"]
    for _ in range(2):
        send(service, dict(RESULT), f"{1:016x}")

    trace = service.get(f"/api/v1/traces/{TRACE}")
    [found] = trace["foreign_results"]
    assert (found["span_id"], found["name"], found["score"], found["label"]) == (
        f"{1:016x}", "tone", 0.25, "rude",
    )  # fmt: skip
    assert found["time"] == "2023-11-14T22:13:20.000000Z"
    assert trace["evaluations"] == before
    events = service.get("/api/v1/conservation")["events"]
    assert (events["accepted"], events["stored"], events["duplicates"]) == (1, 1, 1)
    assert service.sample("scouter_records_reopened_total") == 0

    service.http.post("/api/v1/erase", json={"trace_id": TRACE})
    events = service.get("/api/v1/conservation")["events"]
    assert (events["stored"], events["erased"]) == (0, 1)


def test_ours_that_comes_back_is_not_stored(service: Service) -> None:
    """Else each would be sent on, come back, and be stored, for ever."""
    send(service, {**RESULT, "scouter.evaluation.id": "e1"}, f"{1:016x}")

    assert service.sample('scouter_ingest_ignored_log_records_total{receiver="http"}') == 1
    assert service.get("/api/v1/conservation")["events"]["accepted"] == 0


def test_a_result_about_a_span_that_is_not_here_says_nothing_of_the_trace(
    service: Service,
) -> None:
    send(service, dict(RESULT), "ab" * 8)
    answer = service.http.post(
        "/api/v1/reevaluations", json={"profile": "traced", "dry_run": False}
    )
    assert answer.is_success, answer.text

    [item] = service.get(f"/api/v1/traces/{TRACE}")["evaluations"]
    [task] = item["tasks"]
    assert (task["outcome"], task["actual"]) == ("failed", 1)
