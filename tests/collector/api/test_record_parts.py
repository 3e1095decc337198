"""A scenario made of one record, and the calls that its tasks expect."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from scouter.client.client import ScouterClient
from scouter.client.harvest import Wanted, harvest, scenario_yaml
from scouter.evaluate.scenario import EvalScenarios
from tests.collector.conftest import Service, Start
from tests.support.judged_desk import judged_desk
from tests.support.served import serve


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOUSE_KEY", "of-a-test")
        with judged_desk(tmp_path_factory.mktemp("desk")) as service:
            yield service


def test_a_record_is_a_scenario_as_harvest_writes_it(desk: Service, tmp_path: Path) -> None:
    with serve(desk.collector.app) as url, ScouterClient(url) as client:
        text = b"".join(client.record_scenario("r/1")).decode()
        (item,) = harvest(client, Wanted()).items
    assert text == scenario_yaml("harvested", [item])
    file = tmp_path / "scenario.yaml"
    file.write_text(text, encoding="utf-8")
    (scenario,) = EvalScenarios.from_path(file).scenarios
    assert scenario.initial_query == "Where is my money?"
    assert scenario.id == "r/1"


def test_calls_are_shown_beside_those_that_were_made(desk: Service) -> None:
    with serve(desk.collector.app) as url, ScouterClient(url) as client:
        path, tools, expected_calls = client.trajectories("r/1").items
    assert (path.task_id, tools.task_id, expected_calls.task_id) == ("path", "tools", "asked")
    assert [each.name for each in expected_calls.expected] == ["refund"]
    assert [each.name for each in path.actual] == ["find_order", "ask_colleague", "refund"]
    assert path.expected[1].arguments == {"id": 7, "days": 3}
    assert path.actual[2].arguments == {"id": 7, "days": 63}
    assert [(each.name, each.arguments) for each in tools.expected] == [
        ("find_order", None), ("refund", None),
    ]  # fmt: skip


def test_a_record_is_known_by_its_question(start: Start, answers: Path) -> None:
    """200 characters of it; of messages the last one of the user, if all of them were read."""
    said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes?"},
            {"role": "user", "content": "Where\n is it?"}]  # fmt: skip
    long = {"role": "assistant", "content": "x" * 4_000}
    contexts: dict[str, Any] = {
        "text": {"question": "Why?", "answer": 42},
        "long": {"query": "é" * 5_000},
        "messages": {"messages": said},
        "cut": {"messages": [said[0], long, said[2]]},
        "behind": {"answer": "x" * 4_000, "question": "Why?"},
        "half": {"question": "Why?", "answer": "\ud800"},
        "none": {"answer": 42},
        "bare": "Why?",
    }
    service = start(profile=[str(answers)])
    records = [{"uid": u, "profile": "answers", "context": c} for u, c in contexts.items()]
    body = json.dumps({"records": records})
    headers = {"Content-Type": "application/json"}
    assert service.http.post("/v1/records", content=body, headers=headers).is_success
    service.wait_for(len(contexts))
    with serve(service.collector.app) as url, ScouterClient(url) as client:
        items = client.questions([*contexts, "unknown"]).items
    assert items == {
        "text": "Why?", "long": "é" * 199 + "…", "messages": "Where is it?", "half": "Why?"
    }  # fmt: skip
    assert service.http.get("/api/v1/questions").status_code == 400
    many = "&".join(f"uid={n}" for n in range(101))
    assert service.http.get(f"/api/v1/questions?{many}").status_code == 400


def test_a_record_that_says_no_question_is_no_scenario(start: Start, answers: Path) -> None:
    service = start(profile=[str(answers)])
    service.send({"uid": "u", "profile": "answers", "context": {"answer": 42}})
    service.wait_for(1)
    answer = service.http.get("/api/v1/scenarios/u")
    assert answer.status_code == 409
    assert "what the user asked" in answer.json()["detail"]
    for path in ("scenarios", "trajectories"):
        assert service.http.get(f"/api/v1/{path}/none").status_code == 404
    assert service.get("/api/v1/trajectories/u") == {"items": []}


def test_a_foreign_token_gets_no_part_of_a_record(
    start: Start, answers: Path, tmp_path: Path
) -> None:
    tokens = TokenFile(tmp_path / "data")
    _, own = tokens.create("", Scope, "default")
    _, foreign = tokens.create("", Scope, "bank")
    service = start(profile=[str(answers)])

    def ask(token: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        return service.http.request(method, path, headers=headers, json=body)

    record = {"uid": "u", "profile": "answers", "context": {"input": "So?", "answer": 41}}
    assert ask(own, "POST", "/v1/records", {"records": [record]}).status_code == 200
    assert ask(own, "GET", "/api/v1/trajectories/u").status_code == 200
    assert ask(own, "GET", "/api/v1/questions?uid=u").json() == {"items": {"u": "So?"}}
    assert ask(foreign, "GET", "/api/v1/questions?uid=u").json() == {"items": {}}
    for path in ("scenarios", "trajectories"):
        assert ask(foreign, "GET", f"/api/v1/{path}/u").status_code == 404
