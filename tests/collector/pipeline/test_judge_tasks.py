"""Profiles with judge tasks in the collector: they register, run and say that nobody judges."""

from pathlib import Path

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.prompt import Prompt, Score
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from tests.collector.conftest import Start

PROMPT = Prompt("Rate ${answer}.", "m", "openai", output_type=Score)
PROFILE = AgentEvalProfile(
    [
        AssertionTask("right", "answer", 42, "Equals"),
        LLMJudgeTask("quality", PROMPT, 3, "score", "GreaterThanOrEqual"),
        AssertionTask("why", "quality.reason", True, "IsString", depends_on=["quality"]),
    ],
    alias="judged",
)


def test_judge_tasks_are_errored_and_hold_up_nothing(start: Start, tmp_path: Path) -> None:
    """Until a judge is configured; the other tasks are judged, and a restart changes nothing."""
    profile = str(PROFILE.save_to_json(tmp_path / "judged.json"))
    service = start(profile=[profile])
    service.send({"uid": "u1", "profile": "judged", "context": {"answer": 42}})
    service.wait_for(1)
    (item,) = service.get("/api/v1/evaluations")["items"]
    assert item["outcome"] == "errored"
    assert [(task["task_id"], task["outcome"], task["reason"]) for task in item["tasks"]] == [
        ("right", "passed", None),
        ("quality", "errored", "provider"),
        ("why", "errored", "dependency"),
    ]
    assert "no judge is configured" in item["tasks"][1]["message"]

    again = start(profile=[profile])
    assert len(again.get("/api/v1/profiles")["items"]) == 1
    again.send({"uid": "u2", "profile": PROFILE.digest, "context": {"answer": 41}})
    again.wait_for(2)
    outcomes = {row["uid"]: row["outcome"] for row in again.get("/api/v1/evaluations")["items"]}
    assert outcomes == {"u1": "errored", "u2": "errored"}
