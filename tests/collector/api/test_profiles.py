"""Profiles over the network: registering, activating, and what a stranger's profile may not do."""

import builtins
import contextlib
import copy
import io
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.api import wire_profile
from collector.api.wire_profile import read_wire_profile
from collector.problem import ProblemError
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.prompt import Prompt
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from tests.collector.conftest import Service, Start
from tests.support.processes import wait_until


def profile(expected: int = 42, alias: str = "answers", **config: Any) -> dict[str, Any]:
    found = AgentEvalProfile([AssertionTask("right", "answer", expected, "Equals")], alias=alias)
    return {**found.model_dump(mode="json"), **({"config": config} if config else {})}


def judged() -> dict[str, Any]:
    prompt = Prompt("Is ${answer} right?", "small", "openai", model_settings={"temperature": 0})
    task = LLMJudgeTask("asks", prompt, 1, "score", "Equals")
    return AgentEvalProfile([task], alias="judged").model_dump(mode="json")


def post(service: Service, path: str, body: Any = None) -> Any:
    return service.http.post(f"/api/v1/profiles{path}", json=body)


def active(service: Service) -> dict[str, bool]:
    items = service.get("/api/v1/profiles")["items"]
    return {item["uid"]: item["is_active"] for item in items}


# --- what a profile goes through ---------------------------------------------------------------


def test_a_version_is_registered_once_and_activated_on_its_own(start: Start) -> None:
    service = start()
    first = post(service, "", profile(42))
    assert (first.status_code, first.json()["is_active"]) == (201, False)
    assert post(service, "", profile(42)).status_code == 200
    second = post(service, "", profile(43)).json()
    one, two = first.json()["uid"], second["uid"]
    assert active(service) == {one: False, two: False}
    assert post(service, f"/{one}/activate").json()["is_active"]
    assert active(service) == {one: True, two: False}
    assert post(service, f"/{two}/activate").status_code == 200
    assert active(service) == {one: False, two: True}
    service = start()  # a restart knows the same
    assert active(service) == {one: False, two: True}
    assert not post(service, f"/{two}/deactivate").json()["is_active"]
    assert active(service) == {one: False, two: False}
    service = start()
    assert active(service) == {one: False, two: False}
    body = service.get(f"/api/v1/profiles/{one}")["body"]
    assert AgentEvalProfile.model_validate(body).digest == first.json()["profile_version"]


def test_profiles_are_found_by_alias_and_name(start: Start) -> None:
    service = start()
    for body in (profile(alias="a"), profile(alias="b"), profile(43, alias="c", name="b")):
        assert post(service, "", body).status_code == 201
    same = post(service, "", profile(alias="d", name="b"))  # as alias b, which has no other name
    assert (same.status_code, "under the alias 'b'" in same.text) == (409, True)

    def aliases(**filters: str) -> list[str]:
        return [each["alias"] for each in service.get("/api/v1/profiles", **filters)["items"]]

    assert aliases() == ["a", "b", "c"]
    assert aliases(alias="b") == ["b"]
    assert aliases(name="b") == ["b", "c"]
    assert aliases(alias="b", name="c") == []
    for path in ("/nothing", "/nothing/activate", "/nothing/deactivate"):
        method = "GET" if path == "/nothing" else "POST"
        answer = service.http.request(method, f"/api/v1/profiles{path}")
        assert (answer.status_code, "'nothing' is registered" in answer.text) == (404, True)


def test_records_that_wait_for_a_profile_are_judged_once_it_is_active(start: Start) -> None:
    """By alias only then; one that names the digest as soon as it is registered."""
    service = start(deadline_s="60s")
    digest = AgentEvalProfile.model_validate(profile(42)).digest
    service.send(
        {"uid": "by-alias", "profile": "answers", "context": {"answer": 42}},
        {"uid": "by-digest", "profile": digest, "context": {"answer": 41}},
    )
    assert service.get("/api/v1/conservation")["records"]["waiting"] == 2
    uid = post(service, "", profile(42)).json()["uid"]
    service.wait_for(1)
    assert [each["uid"] for each in service.get("/api/v1/evaluations")["items"]] == ["by-digest"]
    post(service, f"/{uid}/activate")
    service.wait_for(2)
    line = 'scouter_evaluations_total{alias="answers",outcome="passed",profile="answers",'
    assert service.sample(f'{line}space="default",task="right"}}') == 1


def test_the_alert_follows_the_active_version(start: Start, answers: Path) -> None:
    service = start(profile=[str(answers)])
    (before,) = service.get("/api/v1/alerts")["items"]
    body = json.loads(answers.read_text())
    body["tasks"][0]["expected_value"] = 43
    uid = post(service, "", body).json()["uid"]
    assert service.get("/api/v1/alerts")["items"] == [before]
    post(service, f"/{uid}/activate")
    (after,) = service.get("/api/v1/alerts")["items"]
    assert after["profile_version"] != before["profile_version"]
    post(service, f"/{uid}/deactivate")
    assert service.get("/api/v1/alerts")["items"] == []


def test_the_space_is_the_tokens(start: Start) -> None:
    """What the config calls its space is a word of the profile; here it opens nothing."""
    service = start()
    answer = post(service, "", profile(42, name="n", space="bank"))
    assert (answer.status_code, answer.json()["space"]) == (201, "default")
    uid = answer.json()["uid"]
    assert service.collector.registry.get("bank", uid) is None
    post(service, f"/{uid}/activate")
    service.send({"uid": "u", "profile": "answers", "context": {"answer": 42}})
    service.wait_for(1)


# --- what is refused ----------------------------------------------------------------------------


def with_task(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["tasks"][0].update(fields)


def with_prompt(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["tasks"][0]["prompt"].update(fields)


def with_setting(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["tasks"][0]["prompt"]["model_settings"].update(fields)


def repeated(count: int, **fields: Any) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        body["tasks"] = [
            {**body["tasks"][0], "id": f"t{n}", **copy.deepcopy(fields)} for n in range(count)
        ]

    return change


ATTACKS: Final[dict[str, tuple[Callable[[dict[str, Any]], None], str]]] = {
    "a prompt's file": (with_task(prompt={"path": "/etc/passwd"}), "only a file of tasks can name"),
    "a prompt's address": (with_prompt(base_url="http://10.0.0.1"), "base_url"),
    "a prompt's key": (with_prompt(api_key="sk-1"), "api_key"),
    "an address as provider": (with_prompt(provider="http://10.0.0.1/v1"), "no provider's name"),
    "a path as provider": (with_prompt(provider="../../etc"), "no provider's name"),
    "an address as setting": (with_setting(base_url="http://10.0.0.1"), "model_settings.base_url"),
    "headers": (with_setting(extra_headers={"Authorization": "x"}), "model_settings.extra_headers"),
    "a body": (with_setting(extra_body={"stream": True}), "model_settings.extra_body"),
    "a key as setting": (with_setting(api_key="sk-1"), "model_settings.api_key"),
    "tools": (with_setting(tools=[{"type": "web_search"}]), "model_settings.tools"),
    "an object as setting": (with_setting(seed={"a": 1}), "model_settings.seed"),
    "a callable": (with_task(judge="os:system"), "judge"),
    "a function": (with_task(function="os.system"), "function"),
    "a task's own type": (with_task(task_type="Python"), "task_type"),
    "many calls": (repeated(17, max_retries=2), "51 calls of judges for a record; at most 50"),
    "many retries": (with_task(max_retries=21), "max_retries"),
    "many tasks": (repeated(201, max_retries=0), "201 tasks; at most 200"),
    "a long prompt": (
        lambda body: body["tasks"][0]["prompt"]["messages"].append(
            {"role": "user", "content": "x" * 100_001}
        ),
        "characters; at most 100000",
    ),
}  # fmt: skip
"""What is done to a profile with one judge, and what the answer says."""


@pytest.mark.parametrize("name", ATTACKS)
def test_a_judge_that_wants_more_than_a_question(name: str) -> None:
    change, message = ATTACKS[name]
    body = judged()
    read_wire_profile(json.dumps(body).encode())
    change(body)
    with pytest.raises(ProblemError) as caught:
        read_wire_profile(json.dumps(body).encode())
    assert caught.value.status == 422
    assert message in caught.value.detail
    if "tasks" not in name and "calls" not in name:
        assert "'asks'" in caught.value.detail or "asks" in caught.value.detail


PATTERN: Final[dict[str, Any]] = {
    "task_type": "Assertion", "context_path": "answer", "operator": "Matches",
}  # fmt: skip


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([{**PATTERN, "id": "t", "expected_value": "a{1,1000}" * 20}], "task 't'"),
        ([{**PATTERN, "id": "t", "expected_value": "x" * 5000}], "at most 4096"),
        ([{**PATTERN, "id": f"t{n}", "expected_value": "x"} for n in range(51)], "51 tasks with"),
        (
            [{**PATTERN, "id": f"t{n}", "operator": "MatchesJsonSchema", "expected_value": True}
             for n in range(6)],
            "6 tasks with JSON schemas; at most 5",
        ),
        ([{**PATTERN, "id": "t", "expected_value": "x", "context_path": "a" * 513}], "task 't'"),
        ([{**PATTERN, "id": "t", "expected_value": "x", "depends_on": ["t"]}], "'t'"),
        ([], "tasks"),
        ("all", "tasks"),
        ([{**PATTERN, "id": "t", "expected_value": "("}], "task 't': Matches '(': not a regular"),
    ],
)  # fmt: skip
def test_what_costs_too_much_or_is_no_profile(tasks: Any, message: str) -> None:
    body = {"alias": "a", "tasks": tasks}
    with pytest.raises(ProblemError) as caught:
        read_wire_profile(json.dumps(body).encode())
    assert (caught.value.status, message in caught.value.detail) == (422, True), caught.value.detail


@pytest.mark.parametrize("field", ["alias", "name", "version"])
def test_names_are_for_one_line_of_a_log(field: str) -> None:
    body = profile(name="n", version="1")
    (body if field == "alias" else body["config"])[field] = "a\nERROR forged\x1b[31m"
    with pytest.raises(ProblemError, match="control characters"):
        read_wire_profile(json.dumps(body).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b'{"alias": "\\ud800"}'])
def test_what_is_no_profile_at_all(data: bytes) -> None:
    with pytest.raises(ProblemError) as caught:
        read_wire_profile(data)
    assert caught.value.status == 422


def test_addresses_and_patterns_are_data(start: Start) -> None:
    """What a task compares with may look like anything."""
    tasks = [
        AssertionTask("link", "answer", "https://example.org/a?key=1", "Contains"),
        AssertionTask("file", "answer", "file:///etc/passwd", "NotContains"),
        AssertionTask("slow", "answer", "(a+)+$", "Matches"),
    ]
    body = AgentEvalProfile(tasks, alias="a").model_dump(mode="json")
    assert post(start(), "", body).status_code == 201


def test_a_body_that_is_too_large_is_not_read_to_its_end(start: Start) -> None:
    service = start()
    content = b" " * (wire_profile.MAX_BYTES + 1)
    answer = service.http.post("/api/v1/profiles", content=content, headers=JSON)
    assert (answer.status_code, "1048576 bytes" in answer.text) == (413, True)


JSON: Final = {"Content-Type": "application/json"}
_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20),
    st.sampled_from(["path", "/etc/passwd", "http://127.0.0.1:1", "os:system", "(a{99}){99}"]),
)  # fmt: skip
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["path", "prompt", "tasks", "id", "task_type", "model_settings", "messages", "config",
             "expected_value", "operator", "depends_on", "output_type", "$ref", "assertion", "x"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A good profile with some value anywhere in it replaced, removed or added."""
    body: Any = draw(st.sampled_from([profile(), judged()]))
    for _ in range(draw(st.integers(1, 3))):
        at: Any = body
        while True:
            keys: list[Any] = list(at) if hasattr(at, "keys") else list(range(len(at)))
            key = draw(st.sampled_from(keys))
            inner: Any = at[key]
            if type(inner) not in (dict, list) or not inner or draw(st.booleans()):
                at[key] = draw(_JSON)
                break
            at = inner
    return body


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=st.one_of(mutated(), _JSON))
def test_no_profile_is_a_fault_reads_a_file_or_takes_long(body: Any) -> None:
    touched: list[object] = []

    def refused(*args: Any, **_: Any) -> Any:
        touched.append(args)
        raise OSError("not from here")

    data = json.dumps(body).encode()
    began = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtins, "open", refused)
        patch.setattr(io, "open", refused)
        patch.setattr(socket, "socket", refused)
        with contextlib.suppress(ProblemError):  # which is always a 422: see above
            read_wire_profile(data)
    assert not touched
    assert time.monotonic() - began < 5


def test_who_may_register(start: Start) -> None:
    """A route of its own scope: see `tests/cases/routes.txt`; nothing was registered meanwhile."""
    service = start()
    answer = service.http.post(
        "/api/v1/profiles", content=json.dumps(profile()), headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 415
    wait_until(lambda: not active(service), what="no profile")
