"""Feedback of people and scores of evaluators, through a whole collector."""

import json
from pathlib import Path
from typing import Any

import pytest

from collector.items.times import format_time
from scouter.drift.profile import AgentEvalProfile
from scouter.model.otlp import encode_request
from scouter.model.span import Resource, SpanEvent
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span
from tests.support.otlp import logs_request

PROTOBUF = {"Content-Type": "application/x-protobuf"}
RESULT = "gen_ai.evaluation.result"
DESK = {
    "alias": "desk",
    "scores": {"helpfulness": {"healthy": 0.8}, "feedback": {"at_least": 0.5}},
    "tasks": [
        {"task_type": "Assertion", "id": "answered", "context_path": "answer",
         "operator": "Equals", "expected_value": "yes"},
        {"task_type": "Assertion", "id": "whole", "scope": "session", "operator": "HasLengthEqual",
         "context_path": "records", "expected_value": 1},
    ],
}  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    path = tmp_path / "desk.json"
    path.write_text(json.dumps(DESK))
    return path


@pytest.fixture
def service(start: Start, desk: Path) -> Service:
    """With a trace of version 2 of the service bot, and a record on it."""
    service = start(profile=[str(desk)], session_quiet_s="100ms")
    send_trace(service)
    service.send({"uid": "u1", "record_id": "r1", "profile": "desk", "trace_id": TRACE,
                  "session_id": "chat", "context": {"answer": "yes"}})  # fmt: skip
    service.wait_for(1)
    return service


def send_trace(service: Service, **score: Any) -> None:
    attributes = {"gen_ai.evaluation.name": "helpfulness", **score}
    event = SpanEvent(name=RESULT, time_ns=span(1).end_ns, attributes=attributes)
    resource = Resource(attributes={"service.name": "bot", "service.version": "2"})
    whole = span(1, resource=resource, events=(event,) if score else ())
    data = encode_request([whole]).SerializeToString()
    assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success


def say(service: Service, status: int = 200, **fields: object) -> Any:
    answer = service.http.post("/api/v1/feedback", json=fields)
    assert answer.status_code == status, answer.text
    return answer.json()


def scores(service: Service, count: int = 1) -> list[Any]:
    """The evaluations that carry a score, once so many records are evaluated."""
    service.wait_for(count)
    items = service.get("/api/v1/evaluations")["items"]
    return [each for each in items if each["uid"].startswith("score:")]


def test_feedback_is_a_result_of_the_record_that_it_is_about(service: Service) -> None:
    """With the record's trace, conversation, time and version; sent twice it counts once."""
    taken: dict[str, Any] = {"record_id": "r1", "value": False, "text": "rude", "user_id": "anna"}

    assert say(service, **taken) == {"accepted": 1, "duplicates": 0}
    assert say(service, **taken) == {"accepted": 0, "duplicates": 1}

    [found] = scores(service, 2)
    [task] = found["tasks"]
    assert (found["trace_id"], found["session_id"], found["record_id"]) == (TRACE, "chat", "r1")
    assert (found["profile"], found["service_version"]) == ("desk", "2")
    assert (task["task_id"], task["outcome"], task["actual"]) == ("feedback", "failed", 0.0)
    assert "rude" in task["message"]
    pages = [service.http.get(f"/records/{uid}").text for uid in ("u1", found["uid"])]
    assert ["Download as a scenario" in page for page in pages] == [True, False]
    # Of the record, of the conversation and of its tasks nothing is said by that.
    labels = 'alias="desk",outcome="failed",profile="desk",space="default"'
    assert service.sample(f'scouter_evaluations_total{{{labels},task="feedback"}}') == 1
    assert service.sample(f"scouter_records_evaluated_total{{{labels}}}") == 0
    [session] = service.get("/api/v1/evaluations", profile="desk", session_id="chat",
                            task_id="whole")["items"]  # fmt: skip
    assert session["outcome"] == "passed"


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"value": True}, 400, "about nothing"),
        ({"trace_id": TRACE}, 400, "says nothing"),
        ({"trace_id": "xyz", "value": True}, 400, "trace_id"),
        ({"trace_id": TRACE, "stars": 6}, 400, "feedback.stars: "),
        ({"trace_id": TRACE, "stars": True}, 400, "feedback.stars: "),
        ({"trace_id": TRACE, "value": "good"}, 400,
         "feedback.value: expected true, false or a number, got 'good'; a word is a label"),
        ({"trace_id": TRACE, "value": 10**400}, 400, "feedback.value: "),
        ({"trace_id": TRACE, "value": True, "name": "  "}, 400, "feedback.name: "),
        ({"items": [{"trace_id": TRACE, "value": "?"}]}, 400, "batch.items.0.value: "),
        ({"items": ()}, 400, "batch.items: "),
        ({"trace_id": TRACE, "value": True, "at": "soon"}, 400, "feedback.at: 'soon' is no time"),
        ({"trace_id": TRACE, "stars": 3, "value": True}, 400, "value and stars"),
        ({"record_id": "none", "value": True}, 404, "no record 'none' is stored"),
        ({"trace_id": TRACE, "value": True, "colour": 1}, 400, "colour"),
    ],
)  # fmt: skip
def test_what_is_no_feedback_is_refused(
    service: Service, fields: dict[str, object], status: int, words: str
) -> None:
    answer = service.http.post("/api/v1/feedback", json=fields)

    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]
    assert ";" not in answer.json()["detail"].partition(words)[0], "one problem, named once"
    assert service.get("/api/v1/conservation")["records"]["accepted"] == 1


def test_another_content_of_a_known_id_is_a_conflict(service: Service) -> None:
    say(service, trace_id=TRACE, value=True, id="click-1")

    assert (
        "accepted before" in say(service, 409, trace_id=TRACE, value=False, id="click-1")["detail"]
    )
    assert say(service, trace_id=TRACE, value=True, id="click-1")["duplicates"] == 1


def test_a_record_with_much_feedback_is_found(service: Service) -> None:
    """More than a page of it carries the record's id, too."""
    items = [{"record_id": "r1", "stars": 5, "id": str(at)} for at in range(120)]
    assert say(service, items=items)["accepted"] == 120
    service.wait_for(121)

    assert say(service, record_id="r1", value=True)["accepted"] == 1
    assert service.get("/api/v1/conservation")["records"]["dead_lettered"] == 0


def test_several_are_stored_or_none(service: Service) -> None:
    items = [{"session_id": "chat", "stars": 5}, {"session_id": "new", "stars": 1}]

    assert say(service, items=items)["accepted"] == 2
    say(service, 404, items=[{"session_id": "chat", "stars": 2}, {"record_uid": "no", "stars": 1}])
    say(service, session_id="new", stars=1, id="click")
    changed = {"session_id": "new", "stars": 5, "id": "click"}
    assert (
        "'click'" in say(service, 409, items=[{"trace_id": TRACE, "stars": 1}, changed])["detail"]
    )
    twice = [{"session_id": "new", "stars": stars, "id": "twice"} for stars in (1, 2)]
    assert "two in this batch" in say(service, 409, items=twice)["detail"]
    assert service.get("/api/v1/conservation")["dead_letters"] == {}

    found = [(each["session_id"], each["tasks"][0]["actual"]) for each in scores(service, 4)]
    assert sorted(found) == [("chat", 1.0), ("new", 0.0), ("new", 0.0)]


def test_feedback_on_a_conversation_has_the_time_and_version_of_its_trace(start: Start) -> None:
    """Whether a record names the trace or only its spans name the conversation."""
    service = start()
    resource = Resource(attributes={"service.name": "bot", "service.version": "7"})
    spans = [
        span(1, trace_id=trace, resource=resource, attributes={"gen_ai.conversation.id": name})
        for trace, name in ((TRACE, ""), ("2" * 32, "spoken"))
    ]
    content = encode_request(spans).SerializeToString()
    assert service.http.post("/v1/traces", content=content, headers=PROTOBUF).is_success
    service.collector.registry.register(
        "default", AgentEvalProfile.model_validate(DESK), activate=True
    )
    service.send({"uid": "u1", "profile": "desk", "trace_id": TRACE, "session_id": "written",
                  "context": {"answer": "yes"}})  # fmt: skip
    service.wait_for(1)
    service.get("/api/v1/conservation")

    for name in ("written", "spoken"):
        say(service, session_id=name, value=True)

    found = scores(service, 3)
    began = format_time(span(1).start_ns)
    assert [(each["service_version"], each["created_at"]) for each in found] == [("7", began)] * 2


@pytest.mark.parametrize(
    "target",
    [
        {"trace_id": TRACE},
        {"record_uid": "u1"},
        {"session_id": "chat"},
        {"tag": {"key": "user.id", "value": "anna"}},
    ],
    ids=str,
)
def test_erasing_takes_the_feedback(service: Service, target: dict[str, object]) -> None:
    say(service, record_uid="u1", value=False, text="rude", user_id="anna")
    say(service, trace_id=TRACE, value=True, user_id="anna")
    scores(service, 3)

    assert service.http.post("/api/v1/erase", json=target).is_success

    assert scores(service, 0) == []
    sheet = service.get("/api/v1/conservation")["records"]
    assert (sheet["accepted"], sheet["erased"]) == (3, 2 if "tag" in target else 3)


def test_the_score_of_an_event_is_watched_by_name(start: Start, desk: Path) -> None:
    """In a span and as a log record it is one score; others stay beside their span alone."""
    service = start(profile=[str(desk)])
    value = {"gen_ai.evaluation.score.value": 0.9}
    send_trace(service, **value)
    for name in ("helpfulness", "tone"):
        request = logs_request(
            [""], event_name=RESULT, attributes={"gen_ai.evaluation.name": name, **value},
            trace_id=bytes.fromhex(TRACE),
        )  # fmt: skip
        request.resource_logs[0].scope_logs[0].log_records[0].span_id = (1).to_bytes(8, "big")
        content = request.SerializeToString()
        assert service.http.post("/v1/logs", content=content, headers=PROTOBUF).is_success

    [found] = scores(service)
    assert (found["tasks"][0]["task_id"], found["outcome"]) == ("helpfulness", "passed")
    assert found["record_id"] == "helpfulness"
    assert found["service_version"] == "2"
    sheet = service.get("/api/v1/conservation")["records"]
    assert (sheet["accepted"], sheet["duplicates"], sheet["dead_lettered"]) == (1, 1, 0)
    trace = service.get(f"/api/v1/traces/{TRACE}")
    assert {each["name"] for each in trace["foreign_results"]} == {"helpfulness", "tone"}


def test_all_scores_are_watched_if_wanted(start: Start) -> None:
    """Each by a profile of its own, which the detectors follow at once."""
    service = start(scores=True)
    send_trace(service, **{"gen_ai.evaluation.score.label": "pass"})

    [found] = scores(service)
    assert (found["profile"], found["outcome"]) == ("score.helpfulness", "passed")
    [profile] = service.get("/api/v1/profiles")["items"]
    assert (profile["alias"], profile["is_active"]) == ("score.helpfulness", True)


def test_an_event_of_no_span_is_a_score_of_its_conversation(start: Start) -> None:
    """People's need no profile; the version is that of the sender."""
    service = start()
    request = logs_request(
        [""], event_name=RESULT,
        attributes={
            "gen_ai.evaluation.name": "thumb", "gen_ai.evaluation.score.label": "bad",
            "gen_ai.evaluation.source": "human", "gen_ai.conversation.id": "chat",
        },
    )  # fmt: skip
    content = request.SerializeToString()
    assert service.http.post("/v1/logs", content=content, headers=PROTOBUF).is_success

    [found] = scores(service)
    assert (found["session_id"], found["outcome"]) == ("chat", "failed")


def test_a_score_that_nobody_watches_is_refused_where_it_was_sent_as_a_record(
    service: Service,
) -> None:
    service.send({"score": {"name": "tone", "value": 1}, "trace_id": TRACE})

    [letter] = service.get("/api/v1/dead-letters")["items"]
    assert "no active profile names it" in letter["message"]


def test_people_beside_a_task(service: Service) -> None:
    """The task passed the record; one user agrees and another one does not."""
    say(service, record_uid="u1", value=True, user_id="anna")
    say(service, trace_id=TRACE, value=False, user_id="ben")
    scores(service, 3)

    found = service.get("/api/v1/labels/agreement", profile="desk", task_id="answered")

    counts = {name: found["feedback"][name] for name in
              ("good_passed", "good_failed", "bad_passed", "bad_failed")}  # fmt: skip
    assert counts == {"good_passed": 1, "good_failed": 0, "bad_passed": 1, "bad_failed": 0}
    assert found["records"] == 0


def test_names_without_a_place_are_refused_with_the_way_out(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """89 names, the 90th, 100, then one more: by feedback, and by a record."""
    service = start()

    def send(first: int, count: int) -> Any:
        items = [{"session_id": "chat", "name": f"n{n}", "value": True}
                 for n in range(first, first + count)]  # fmt: skip
        return service.http.post("/api/v1/feedback", json={"items": items})

    assert send(0, 89).is_success
    service.wait_for(89)
    assert service.get("/api/v1/status")["remarks"] == service.get("/readyz")["detail"] == ""
    assert send(89, 1).is_success
    service.wait_for(90)
    near = service.get("/api/v1/status")["remarks"]
    assert near.startswith("90 of 100 profiles are taken ")
    assert service.get("/readyz")["detail"] == near
    assert f"space 'default': {near}" in caplog.text
    assert near.split(";")[0] in service.http.get("/health").text

    assert send(90, 11).status_code == 409  # one of them has no place: nothing is stored
    assert send(90, 10).is_success
    service.wait_for(100)
    refused = send(100, 1)
    assert refused.status_code == 409
    said = refused.json()["detail"]
    assert said.startswith("name: 'score.n100' has no place: 100 of 100 profiles are taken ")
    assert "deactivate those that nobody wants (`scouter profile deactivate`), or write" in said
    assert send(99, 1).json() == {"accepted": 0, "duplicates": 1}  # a known name has its place

    score = {"name": "n101", "value": 1.0, "source": "human"}
    service.send({"score": score, "session_id": "chat"}, {"score": score, "record_id": "r"})
    letters = service.get("/api/v1/dead-letters")["items"]
    assert {each["reason"] for each in letters} == {"invalid_record"}
    assert "then replay this letter" in letters[0]["message"]
    assert caplog.text.count("are refused: 'score.n101' has no place") == 1

    uids = {each["alias"]: each["uid"] for each in service.get("/api/v1/profiles")["items"]}
    assert service.http.post(f"/api/v1/profiles/{uids['score.n0']}/deactivate").is_success
    assert send(102, 1).is_success  # in the place of n0
    service.wait_for(101)
    assert send(103, 1).status_code == 409
    assert send(0, 1).json() == {"accepted": 0, "duplicates": 1}  # a known name needs no place

    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"alias": "mine", "scores": {"n100": {}, "n101": {}}}))
    service = start(profile=[str(file)])
    assert send(100, 1).is_success
    assert service.http.post("/api/v1/dead-letters/replay", json={}).json()["accepted"] == 2


def test_a_restart_evaluates_no_conversation_again_for_a_score(
    service: Service, start: Start, desk: Path
) -> None:
    say(service, session_id="chat", value=True)
    before = scores(service, 2)
    service = start(profile=[str(desk)], session_quiet_s="100ms")
    send_trace(service, **{"gen_ai.evaluation.score.value": 1.0})
    service.wait_for(3)

    [session] = service.get("/api/v1/evaluations", session_id="chat", task_id="whole")["items"]
    assert (session["revision"], len(before)) == (1, 1)
