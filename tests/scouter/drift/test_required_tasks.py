"""`required` on tasks: the same on every way of a profile, and absent where it is not set."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from scouter.agent.calibration.identity import identify, judge_task
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.wire import read_wire_profile
from scouter.errors import FileFormatError
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task, parse_task, tasks_digest
from scouter.evaluate.tasks.trace import AttributeFilterTask, TraceAssertion, TraceAssertionTask


def tasks(*, required: bool = False) -> list[Task]:
    """One of each kind."""
    prompt = Prompt("Polite? ${answer}", model="gpt-4o", provider="openai")
    return [
        AssertionTask("own", "answer", 1, "Equals", required=required),
        LLMJudgeTask(
            "polite", prompt, True, "polite", "Equals", depends_on=["own"], required=required
        ),
        TraceAssertionTask(
            "spans", TraceAssertion.trace_span_count(), 1, "Equals", required=required
        ),
        AgentAssertionTask(
            "called", AgentAssertion.tool_called("pay"), True, "Equals", required=required
        ),
    ]


@pytest.mark.parametrize("at", range(4))
def test_every_kind_of_task_keeps_it(at: int) -> None:
    plain, required = tasks()[at], tasks(required=True)[at]
    assert "required" not in plain.model_dump(mode="json")
    assert required.model_dump(mode="json") == plain.model_dump(mode="json") | {"required": True}
    assert parse_task(json.loads(required.model_dump_json())) == required
    wire = plain.model_dump(mode="json")
    assert parse_task(wire | {"required": False}) == parse_task(wire | {"required": None}) == plain
    assert tasks_digest([plain]) != tasks_digest([required])


def test_a_digest_without_it_is_what_it_was() -> None:
    """SHA-256 of the document that versions wrote which did not know the key."""
    task: dict[str, Any] = {
        "condition": False, "context_path": "answer", "depends_on": [], "expected_value": 1,
        "id": "own", "item_context_path": None, "operator": "Equals", "task_type": "Assertion",
    }  # fmt: skip
    text = json.dumps([task], sort_keys=True, separators=(",", ":"))
    assert AgentEvalProfile(tasks()[:1], alias="a").digest == (
        hashlib.sha256(text.encode()).hexdigest()
    )


def test_profiles_keep_it_in_files_and_from_the_network(tmp_path: Path) -> None:
    profile = AgentEvalProfile(tasks(required=True), alias="a")
    file = profile.save_to_json(tmp_path / "p.json")
    read = AgentEvalProfile.from_file(file)
    sent = read_wire_profile(file.read_bytes())
    assert read.digest == sent.digest == profile.digest
    assert all(task.required for task in (*read.tasks, *sent.tasks))
    page = tmp_path / "p.yaml"
    page.write_text(
        "alias: a\ntasks:\n- {task_type: Assertion, id: own, context_path: answer, "
        "operator: Equals, expected_value: 1, required: true}\n",
        encoding="utf-8",
    )
    assert AgentEvalProfile.from_file(page).tasks == (tasks(required=True)[0],)
    page.write_text(page.read_text(encoding="utf-8").replace("true", "often"), encoding="utf-8")
    with pytest.raises(FileFormatError, match="required"):
        AgentEvalProfile.from_file(page)


def test_a_calibration_stays_that_of_a_task_that_becomes_required() -> None:
    """A consequence of an outcome changes no outcome, neither of the task nor of one before it."""
    plain, required = (
        identify(profile, judge_task(profile))
        for profile in (
            AgentEvalProfile(tasks(), alias="a"),
            AgentEvalProfile(tasks(required=True), alias="a"),
        )
    )
    assert plain.differences(required) == []
    assert plain.task_digest == required.task_digest


def test_a_task_inside_a_filter_has_none() -> None:
    inner = AssertionTask("own", "answer", 1, "Equals", required=True)
    with pytest.raises(ValueError, match="stands alone: no depends_on, condition, required or"):
        AttributeFilterTask.assertion(inner)
