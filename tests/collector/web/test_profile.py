"""The view of a profile: its versions, its tasks with what became of them, and why one is idle."""

import html
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from collector.web.period import Traffic
from collector.web.profile import idle, newest_of, results_of
from scouter.cli.app import main
from scouter.client.models.evaluations import Evaluation, RatedTask
from scouter.client.models.records import ProfileItem
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch, WatchMatch
from scouter.evaluate.show.definition import definition_of
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.collector.conftest import Start, save_answers
from tests.collector.web.test_views import Parts, view
from tests.support.answers import answer
from tests.support.judged_desk import judged_desk
from tests.support.served import serve

ALL = Traffic(version="", environment="")
ACTIVE = answer(ProfileItem, is_active=True)
TASK: dict[str, Any] = AssertionTask("t", "a", 1, "Equals").model_dump(mode="json")


def result(outcome: str, reason: str | None = None) -> dict[str, Any]:
    return {"task_id": "t", "outcome": outcome, "reason": reason}


def evaluations(*results: dict[str, Any]) -> list[Evaluation]:
    """One evaluation of each result, a minute apart, the newest first; all have another task."""
    other = {**result("errored", "type"), "task_id": "other"}
    return [
        answer(Evaluation, evaluated_at=f"2026-01-01T00:0{9 - at}:00Z", tasks=[other, each])
        for at, each in enumerate(results)
    ]


def counts(**given: int) -> RatedTask:
    return answer(RatedTask, **{"passed": 0, "failed": 0, "errored": 0, "skipped": 0, **given})


def test_the_newest_results_of_a_task_are_summed_up() -> None:
    results = results_of(
        evaluations(
            result("skipped", "sampled"),
            result("passed"),
            result("errored", "no_spans"),
            result("skipped", "sampled"),
            result("failed"),
        )
    )
    assert [task.outcome for _, task in results["other"]] == ["errored"] * 5
    found = newest_of(results["t"])
    assert (found.seen, found.last_at) == (5, datetime(2026, 1, 1, 0, 8, tzinfo=UTC))
    assert found.reasons == [
        (2, "skipped", "not among the sampled records"),
        (1, "errored", "there are no spans"),
    ]
    assert newest_of(()).last_at is None


@pytest.mark.parametrize(
    ("rate", "results", "profile", "traffic", "why"),
    [
        (counts(failed=1), (), ACTIVE, ALL, ""),
        (None, (), answer(ProfileItem, is_active=False), ALL, "This version is not active."),
        (counts(skipped=1_200), (result("skipped", "gate"),), ACTIVE, ALL,
         "All 1,200 were skipped: a gate before it did not pass."),
        (counts(skipped=2), (), ACTIVE, ALL, "All 2 were skipped."),
        (None, (result("pending"),), ACTIVE, ALL, "Its judge has yet to answer."),
        (None, (), ACTIVE, Traffic(version="2", environment="prod"),
         "No record of version 2 in prod was evaluated"),
    ],
)  # fmt: skip
def test_an_idle_task_says_why(
    rate: RatedTask | None, results: tuple[Any, ...], profile: Any, traffic: Traffic, why: str
) -> None:
    newest = newest_of(results_of(evaluations(*results))["t"])
    found = idle(definition_of(TASK), rate, newest, profile, traffic)
    assert found.startswith(why)
    assert bool(found) is bool(why)


def test_a_task_of_conversations_waits_for_their_end() -> None:
    task = {**TASK, "scope": "session"}
    found = idle(definition_of(task), None, newest_of(()), ACTIVE, ALL)
    assert found.startswith("It runs once a conversation is over")


def test_versions_and_their_tasks_are_a_link_away(start: Start, tmp_path: Path) -> None:
    """The newer version watches traces by itself and has a judge; the older one is not active."""
    service = start(profile=[str(save_answers(tmp_path))])
    service.send({"uid": "u1", "profile": "answers", "context": {"answer": 41}})
    service.wait_for(1)
    text = view(service, "/profile/tasks?profile=answers")
    for wanted in (
        "deep-thought",
        "4.2",
        "no judge",
        "pass rate below 80.0%",
        "of the last 20 records, once there are 5",
    ):
        assert wanted in text, wanted
    assert "1 result in the last day: 1 failed." in text
    for address in ("/", "/task?profile=answers&task=right"):
        assert 'href="/profile?profile=answers' in view(service, address), address
    for address in ("/profile?profile=answers", "/records/u1"):
        assert 'href="/profile/tasks?profile=answers' in view(service, address), address
    assert "Passes where <code>answer</code> is <code>42</code>." in view(
        service, "/task?profile=answers&task=right"
    )
    (first,) = service.get("/api/v1/profiles")["items"]
    body = AgentEvalProfile(
        [AssertionTask("wise", "answer", 42, "Equals", scope="session")],
        alias="answers",
        watch=Watch(match=WatchMatch(service="desk"), sample=0.25),
    ).model_dump_json()
    headers = {"Content-Type": "application/json"}
    added = service.http.post("/api/v1/profiles?activate=true", content=body, headers=headers)
    assert added.is_success, added.text
    text = view(service, "/profile/tasks?profile=answers")
    words = " ".join(" ".join(Parts(text).text).split())
    assert "also traces with a span of the service desk , 25.0% of these" in words
    assert "It runs once a conversation is over" in words
    older = f"/profile/tasks?profile=answers&digest={first['profile_version']}"
    assert f'href="{older}"' in html.unescape(text)
    text = view(service, older)
    assert ">not active<" in text
    assert "1 result in the last day: 1 failed." in text
    answer = service.http.get(older.replace("/profile/tasks?", "/profile.json?"))
    assert AgentEvalProfile.model_validate(answer.json()).digest == first["profile_version"]
    assert "attachment" in answer.headers["content-disposition"]
    assert "42" in view(service, "/task?profile=answers&task=right"), "an older version has it"
    beyond = view(service, f"{older}&from={'9' * 5_000}")
    assert "Passes where" not in beyond
    missing = service.http.get("/profile/tasks?profile=answers&digest=0")
    assert (missing.status_code, "has no version" in missing.text) == (404, True)


def test_a_judge_has_its_question_and_its_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOUSE_KEY", "sk-house")
    with judged_desk(tmp_path) as service:
        text = view(service, "/profile/tasks?profile=desk")
        words = " ".join(" ".join(Parts(text).text).split())
        assert "asks model-1 of house" in words
        assert "Rate ${answer}." in words
        assert "Its judge in the last day: 1 call;" in words
        assert "5, 1 of them asks a judge" in words
        assert "Its judge in the last day: 1 call;" in view(
            service, "/task?profile=desk&task=truthful"
        )
        items = service.get("/api/v1/tasks", profile="desk", usage="true")["items"]
        used = {each["task_id"]: each["usage"] for each in items}
        (evaluation,) = service.get("/api/v1/evaluations")["items"]
        (taken,) = (each["usage"] for each in evaluation["tasks"] if each["usage"])
        assert taken["calls"] == 1
        assert {name: usage for name, usage in used.items() if usage} == {"truthful": taken}
        items = service.get("/api/v1/tasks", profile="desk")["items"]
        assert {each["usage"] for each in items} == {None}
        with serve(service.collector.app) as url:
            monkeypatch.setenv("COLUMNS", "200")
            monkeypatch.setattr("sys.argv", ["scouter", "results", "tasks", "--url", url])
            with pytest.raises(SystemExit, match="0"):
                main()
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[-6:] == ["judge", "calls", "input", "output", "judge", "USD"]
    (line,) = (each for each in lines if "truthful" in each)
    cost = "unknown" if taken["cost_usd"] is None else f"{taken['cost_usd']:.4f}"
    tokens = [str(taken[name]) for name in ("input_tokens", "output_tokens")]
    assert line.split()[-4:] == ["1", *tokens, cost]
