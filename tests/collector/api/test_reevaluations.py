"""A report by a profile that is in the request: checked as a stranger's, and stored nowhere."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.collector.conftest import Service, Start
from tests.scouter.drift.test_wire import ATTACKS, any_json, mutated

PATH = "/api/v1/reevaluations"
JSON = {"Content-Type": "application/json"}


def version(expected: int, **config: Any) -> AgentEvalProfile:
    """With 42, the same tasks and name as the fixture `answers` has, and no alert."""
    return AgentEvalProfile(
        [AssertionTask("right", "answer", expected, "Equals")],
        AgentEvalConfig(name="deep-thought", **config),
        alias="answers",
    )


def body_of(found: AgentEvalProfile) -> Any:
    return json.loads(found.model_dump_json())


def report(service: Service, found: AgentEvalProfile, **more: Any) -> Any:
    answer = service.http.post(PATH, json={"profile_body": body_of(found), **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def state(service: Service) -> Any:
    """All that a registration could change."""
    items = service.get("/api/v1/profiles")["items"]
    bodies = [service.get(f"/api/v1/profiles/{each['uid']}") for each in items]
    return bodies, service.get("/api/v1/alerts"), service.get("/api/v1/tasks")


@pytest.fixture
def service(start: Start, answers: Path) -> Service:
    """Two records: one was answered with 42, one with 41."""
    service = start(profile=[str(answers)], deadline_s="1s")
    service.send(
        *({"uid": f"u{n}", "profile": "answers", "context": {"answer": n}} for n in (41, 42))
    )
    service.wait_for(2)
    return service


def test_a_report_registers_nothing(service: Service) -> None:
    """Neither what is new, nor what the active version would take over: its alert would be lost."""
    before = state(service)
    (active,), alerts, _ = before
    assert active["body"]["config"]["alert_config"]["alert_condition"] is not None
    assert len(alerts["items"]) == 1
    known, new = version(42, sample_ratio=0.01), version(41)
    assert known.uid == active["uid"]
    page = report(service, known)
    assert (page["checked"], page["flipped"], page["profile_version"]) == (2, 0, known.digest)
    page = report(service, new)
    assert (page["checked"], page["flipped"], page["stored"]) == (2, 2, 0)
    assert (page["dry_run"], page["profile"], page["profile_version"]) == (
        True, "answers", new.digest,
    )  # fmt: skip
    assert {(item["uid"], *each.values()) for item in page["items"] for each in item["tasks"]} == {
        ("u41", "right", "failed", "passed"),
        ("u42", "right", "passed", "failed"),
    }
    assert state(service) == before
    service.send({"uid": "stamped", "profile": new.digest, "context": {"answer": 41}})
    service.wait_for(1, "dead_lettered")
    (letter,) = service.get("/api/v1/dead-letters")["items"]
    assert letter["reason"] == "unknown_profile"


def test_a_report_is_that_of_the_same_version_registered(service: Service) -> None:
    """Page by page and with a filter."""
    new = version(41)

    def pages(**profile: Any) -> list[Any]:
        found: list[Any] = []
        cursor = None
        while True:
            sent = {"limit": 1, "cursor": cursor, "outcome": "failed", **profile}
            found.append(service.http.post(PATH, json=sent).json())
            cursor = found[-1]["next_cursor"]
            if cursor is None:
                return found

    by_body = pages(profile_body=body_of(new))
    answer = service.http.post("/api/v1/profiles", json=body_of(new))
    assert answer.status_code == 201
    assert by_body == pages(profile=new.uid)
    assert sum(page["flipped"] for page in by_body) == 1


def test_revisions_need_a_registered_version(service: Service) -> None:
    before = service.get("/api/v1/evaluations")
    for body, message in (
        ({"profile_body": body_of(version(41)), "dry_run": False}, "register this one with POST"),
        ({"profile_body": body_of(version(41)), "profile": "answers"}, "exactly one of profile"),
        ({"profile_body": None}, "exactly one of profile and profile_body"),
        ({"profile_body": "answers"}, "profile_body: expected an object"),
    ):
        answer = service.http.post(PATH, json=body)
        assert (answer.status_code, message in answer.json()["detail"]) == (400, True), answer.text
    assert service.get("/api/v1/evaluations") == before


def test_what_is_judged_again_between_two_pages_is_not_left_out(service: Service) -> None:
    """By a version that was registered in between; it could be a span that came late, as well."""

    def apply(version: str, **more: Any) -> Any:
        answer = service.http.post(PATH, json={"profile": version, "dry_run": False, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()

    wanted, other = (
        service.http.post("/api/v1/profiles", json=body_of(version(expected))).json()["uid"]
        for expected in (41, 43)
    )
    first = apply(wanted, limit=1)
    assert apply(other, record_id="u41")["stored"] == 1
    second = apply(wanted, limit=1, cursor=first["next_cursor"])
    assert [(page["checked"], page["stored"]) for page in (first, second)] == [(1, 1), (1, 1)]
    assert second["next_cursor"] is None
    found = service.get("/api/v1/evaluations")["items"]
    assert {(each["uid"], each["revision"]) for each in found} == {("u42", 2), ("u41", 3)}
    assert {each["profile_version"] for each in found} == {first["profile_version"]}


def test_a_profile_in_the_request_needs_two_scopes(start: Start, tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "data")
    made = {
        scopes: tokens.create("", scopes, "default")[1]
        for scopes in ((Scope.ADMIN,), (Scope.PROFILE,), (Scope.ADMIN, Scope.PROFILE))
    }
    service = start()
    for scopes, status, message in (
        ((Scope.ADMIN,), 403, "this needs the scope profile"),
        ((Scope.PROFILE,), 403, "this needs the scope admin"),
        ((Scope.ADMIN, Scope.PROFILE), 200, '"checked":0'),
    ):
        answer = service.http.post(
            PATH,
            json={"profile_body": body_of(version(1))},
            headers={"Authorization": f"Bearer {made[scopes]}"},
        )
        assert (answer.status_code, message in answer.text) == (status, True), answer.text


# --- strangers ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    service = Service(tmp_path_factory.mktemp("attacked"))
    yield service
    service.stop()


UNREAD = {
    "not-utf-8", "nothing", "no-object", "too-deep", "deep-and-whole", "half-a-character",
    "key-twice",
}  # fmt: skip
"""Refused before it is looked at as a profile, and in other words."""


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused(attacked: Service, attack: str) -> None:
    sent, message = ATTACKS[attack]
    answer = attacked.http.post(PATH, content=b'{"profile_body": %b}' % sent, headers=JSON)
    assert answer.headers["content-type"] == "application/problem+json"
    if len(sent) > 2**20:
        assert answer.status_code == 413
    elif attack in UNREAD:
        assert answer.status_code in (400, 422), answer.text
    else:
        assert (answer.status_code, message in answer.json()["detail"]) == (422, True), answer.text


def test_what_nests_too_deeply_is_refused(attacked: Service) -> None:
    content = b'{"profile_body": ' + b'{"a": ' * 300 + b"1" + b"}" * 301
    answer = attacked.http.post(PATH, content=content, headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["detail"].endswith(": nested too deeply")


@settings(max_examples=60, deadline=None, database=None)
@given(any_json | mutated())
def test_any_body_is_answered(attacked: Service, document: Any) -> None:
    answer = attacked.http.post(PATH, content=json.dumps({"profile_body": document}), headers=JSON)
    assert answer.status_code in (200, 400, 422), answer.text
    assert attacked.get("/api/v1/profiles")["items"] == []


def test_a_text_counts_as_it_is_sent(attacked: Service) -> None:
    """A body has a mebibyte: 300,000 letters of three bytes, not 350,000."""
    body = body_of(version(1))
    for letters, status in ((300_000, 200), (350_000, 413)):
        body["tasks"][0]["expected_value"] = "日" * letters
        content = json.dumps({"profile_body": body}, ensure_ascii=False).encode()
        assert attacked.http.post(PATH, content=content, headers=JSON).status_code == status
