"""A scenario made of one record, and the calls that its tasks expect."""

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


def test_calls_are_told_beside_those_that_were_made(desk: Service) -> None:
    with serve(desk.collector.app) as url, ScouterClient(url) as client:
        path, tools, asked = client.trajectories("r/1").items
    assert (path.task_id, tools.task_id, asked.task_id) == ("path", "tools", "asked")
    assert [each.name for each in asked.expected] == ["refund"]
    assert [each.name for each in path.actual] == ["find_order", "ask_colleague", "refund"]
    assert path.expected[1].arguments == {"id": 7, "days": 3}
    assert path.actual[2].arguments == {"id": 7, "days": 63}
    assert [(each.name, each.arguments) for each in tools.expected] == [
        ("find_order", None), ("refund", None),
    ]  # fmt: skip


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
    for path in ("scenarios", "trajectories"):
        assert ask(foreign, "GET", f"/api/v1/{path}/u").status_code == 404
