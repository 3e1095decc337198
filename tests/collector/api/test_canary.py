"""A canary's decision over HTTP, from traces of two versions."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.api import drift as api
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.otlp import encode_request
from scouter.model.span import Resource, Span
from tests.collector.conftest import Service, Start
from tests.support.processes import wait_until

TURNS = 2
EQUALS = ComparisonOperator.Equals


@pytest.fixture
def service(start: Start, tmp_path: Path) -> Service:
    task = AssertionTask("right", "answer", 42, ComparisonOperator.Equals)
    count = TraceAssertion.span_count(SpanFilter.by_name("turn"))  # spans name the version
    spans = TraceAssertionTask("spans", count, 1, ComparisonOperator.Equals)
    file = AgentEvalProfile([task, spans], alias="answers").save_to_json(tmp_path / "p.json")
    return start(profile=[str(file)], session_quiet_s="1s", session_deadline_s="10s")


def converse(service: Service, version: str, passed: int, failed: int) -> None:
    """Conversations of two turns, each with a trace that names the version."""
    turns = [(number, turn) for number in range(passed + failed) for turn in range(TURNS)]
    send(
        service, version,
        [{"answer": 42 if number < passed else turn} for number, turn in turns],
        [f"{version}-{number}" for number, _ in turns],
    )  # fmt: skip


def send(
    service: Service,
    version: str,
    contexts: Sequence[dict[str, Any]],
    sessions: Sequence[str] | None = None,
) -> None:
    """Records, each with a trace that names the version."""
    spans: list[Span] = []
    records: list[dict[str, Any]] = []
    for at, context in enumerate(contexts):
        trace_id = f"{random.getrandbits(128):032x}"
        resource = Resource(attributes={"service.name": "bot", "service.version": version})
        spans.append(
            Span(trace_id=trace_id, span_id="b" * 16, name="turn", start_ns=1, end_ns=2,
                 resource=resource)
        )  # fmt: skip
        session = {"session_id": sessions[at]} if sessions else {}
        records.append({"profile": "answers", "trace_id": trace_id, "context": context, **session})
    media = {"content-type": "application/x-protobuf"}
    for at in range(0, len(spans), 500):
        body = encode_request(spans[at : at + 500]).SerializeToString()
        assert service.http.post("/v1/traces", content=body, headers=media).status_code == 200
        service.send(*records[at : at + 500])


def ask(collector: Service, **query: Any) -> Any:
    return collector.get("/api/v1/canary", stable="1", candidate="2", **query)


def test_from_hold_to_a_decision(service: Service) -> None:
    empty = ask(service)
    assert (empty["decision"], empty["profile"]) == ("hold", "answers")
    assert empty["reason"] == ("no complete conversation of version 1 and 2 since the canary began")
    converse(service, "2", 140, 60)
    converse(service, "1", 190, 10)

    def all_complete() -> Any:
        answer = ask(service)
        rates = [answer[name]["pass_rate"] for name in ("stable", "candidate")]
        return answer if rates == [pytest.approx(0.95), pytest.approx(0.7)] else None

    found = wait_until(all_complete, what="all conversations are complete")
    assert found["decision"] == "roll_back"
    # 140 conversations pass as a whole; the others fail in both turns: 0 and 1 are no 42.
    assert (found["candidate"]["conversations"], found["candidate"]["records"]) == (200, 400)
    assert found["pass_rate"]["upper"] < 0
    assert found["decided_rate"]["lower"] < 0 < found["decided_rate"]["upper"]
    assert ask(service, task="right")["decision"] == "roll_back"
    query = {"stable": "1", "candidate": "2"}
    gate = service.http.post("/api/v1/canary/promote", params=query, json={"phase": "x"})
    assert gate.status_code == 409
    assert gate.json()["detail"] == "roll_back: the candidate passes less"
    gate = service.http.post("/api/v1/canary/roll_back", params=query)
    assert (gate.status_code, gate.json()["decision"]) == (200, "roll_back")
    # Of another service or environment there is nothing, and a share that was not met is reported.
    assert ask(service, service="other")["decision"] == "hold"
    assert ask(service, environment="other")["stable"]["records"] == 0
    assert ask(service, share=0.01)["split_chance"] < 0.001


def test_only_what_runs_beside_the_candidate_counts(service: Service) -> None:
    """The stable version's results of before are left out, unless a time is given."""
    converse(service, "1", 30, 0)
    service.wait_for(60)
    converse(service, "2", 5, 0)
    service.wait_for(70)
    converse(service, "1", 0, 7)  # its sessions have other names once they are quiet
    service.wait_for(84)
    assert ask(service)["stable"]["records"] == 14
    assert ask(service, since="2020-01-01T00:00:00Z")["stable"]["records"] == 74


def test_a_candidate_that_seldom_answers_is_not_promoted(start: Start, tmp_path: Path) -> None:
    """Its answers are right where there are any; a gate skips the task in the other records."""
    gate = AssertionTask("has_answer", "has", expected_value=True, operator=EQUALS, condition=True)
    right = AssertionTask("right", "answer", 42, EQUALS, depends_on=["has_answer"])
    count = TraceAssertion.span_count(SpanFilter.by_name("turn"))
    spans = TraceAssertionTask("spans", count, 1, EQUALS)
    profile = AgentEvalProfile([gate, right, spans], alias="answers")
    service = start(
        profile=[str(profile.save_to_json(tmp_path / "p.json"))],
        session_quiet_s="1s",
        session_deadline_s="10s",
    )
    right_answer, empty = {"has": True, "answer": 42}, {"has": False, "answer": ""}
    send(service, "2", [*[right_answer] * 100, *[empty] * 200])
    send(service, "1", [right_answer] * 300)
    service.wait_for(600)
    found = ask(service, task="right")
    assert (found["decision"], found["reason"]) == (
        "roll_back", "the candidate has fewer results",
    )  # fmt: skip
    candidate = found["candidate"]
    assert (candidate["conversations"], candidate["pass_rate"]) == (300, 1)
    assert candidate["result_rate"] == pytest.approx(1 / 3)
    assert found["result_rate"]["upper"] < -0.05
    assert not found["is_cut"]


def test_beyond_the_most_results_nothing_is_promoted(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "MOST", 3)
    send(service, "2", [{"answer": 42}] * 3)
    send(service, "1", [{"answer": 42}] * 4)
    service.wait_for(7)
    found = ask(service)
    assert (found["decision"], found["is_cut"]) == ("hold", True)
    assert found["stable"]["records"] == found["candidate"]["records"] == 3
    assert "rests on the first 3 results of version 1:" in found["reason"]


def test_what_cannot_be_compared_is_refused(service: Service) -> None:
    path = "/api/v1/canary"
    for query, status, detail in (
        ({"stable": "1", "candidate": "1"}, 400, "the same version"),
        ({"stable": "1", "candidate": "2", "profile": "nobody"}, 404, "active are: answers"),
        ({"stable": "1", "candidate": "2", "task": "wrong"}, 404, "no task of 'answers'"),
        ({"stable": "1"}, 400, "candidate"),
        ({"stable": "1", "candidate": "2", "margin": "1"}, 400, "margin"),
        ({"stable": "1", "candidate": "2", "share": "0"}, 400, "share"),
    ):
        answer = service.http.get(path, params=query)
        assert answer.status_code == status, answer.text
        assert detail in answer.json()["detail"]


def test_of_several_profiles_one_is_named(start: Start, tmp_path: Path) -> None:
    files = [
        AgentEvalProfile(
            [AssertionTask("t", "answer", 42, ComparisonOperator.Equals)], alias=alias
        ).save_to_json(tmp_path / f"{alias}.json")
        for alias in ("a", "b")
    ]
    service = start(profile=[str(file) for file in files])
    answer = service.http.get("/api/v1/canary", params={"stable": "1", "candidate": "2"})
    assert answer.status_code == 400
    assert answer.json()["detail"] == "profile: there are several, say which one: a, b"
    assert ask(service, profile="b")["profile"] == "b"
