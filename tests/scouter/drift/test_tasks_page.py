"""The page on tasks in files: its profile runs, and every kind is written as it can be read."""

import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import yaml
from pydantic import JsonValue

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.checks import use_checks
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.tasks.agent import AgentAssertion
from scouter.evaluate.tasks.base import Tagged
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from tests.support.replay_results import span

PAGE = (Path(__file__).parents[3] / "docs/tasks.md").read_text(encoding="utf-8")
PROFILE, MIXED, CODE, *LISTS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

CALL = {"type": "tool_use", "id": "1", "name": "find_order", "input": {"id": "A-7"}}
RESPONSE: JsonValue = {
    "role": "assistant",
    "type": "message",
    "model": "m",
    "stop_reason": "tool_use",
    "content": [cast("JsonValue", CALL)],
}


def outcomes(folder: Path, topic: str) -> dict[str, str]:
    """Run the page's profile on one record; the judge finds it friendly."""
    path = folder / "support.yaml"
    path.write_text(PROFILE, encoding="utf-8")
    context = {"topic": topic, "order": {"id": "A-7"}, "answer": "A-7, sir.", "response": RESPONSE}
    spans = [span("agent", 1, None, 0, 9), span("find_order", 2, 1, 1, 5)]
    record = EvalRecord(context, trace_id=spans[0].trace_id)
    questions: list[str] = []

    def judge(request: JudgeRequest) -> JsonValue:
        questions.append(request.messages[-1]["content"])
        return {"score": 5, "reason": "sir"}

    dataset = EvalDataset([record], AgentEvalProfile.from_file(path).tasks, spans)
    (found,) = dataset.evaluate(judge=judge)
    expected = "How friendly is this answer, from 1 to 5? <data>A-7, sir.</data>"
    shown = [re.sub("data-[0-9a-f]{16}", "data", text) for text in questions]
    assert shown == ([expected] if topic == "refund" else [])
    return {task.task_id: str(task.outcome) for task in found.eval_set.records}


def test_the_profile_of_the_page_runs(tmp_path: Path) -> None:
    """The gate closes two tasks; the others run all the same."""
    names = ("is_refund", "names_order", "asked_the_shop", "one_lookup", "friendly")
    assert outcomes(tmp_path, "refund") == dict.fromkeys(names, "passed")
    assert outcomes(tmp_path, "weather") == {
        "is_refund": "failed",
        "names_order": "skipped",
        "asked_the_shop": "passed",
        "one_lookup": "passed",
        "friendly": "skipped",
    }


def test_the_profile_of_mixed_records_runs(tmp_path: Path) -> None:
    """Each task is judged where it applies, and nowhere else."""
    path = tmp_path / "mixed.yaml"
    path.write_text(MIXED, encoding="utf-8")
    tasks = AgentEvalProfile.from_file(path).tasks
    spans = [
        span("agent", 1, None, 0, 9),
        replace(
            span("find_order", 2, 1, 1, 5), attributes={"gen_ai.operation.name": "execute_tool"}
        ),
    ]

    def ends(topic: str, seen: list[Span]) -> list[str]:
        context = {"topic": topic, "order": {"id": "A-7"}, "answer": "A-7, sir."}
        record = EvalRecord(context, trace_id=seen[0].trace_id)
        (found,) = EvalDataset([record], tasks, seen).evaluate()
        return [str(task.reason or task.outcome) for task in found.eval_set.records]

    assert ends("refund", spans) == ["passed", "passed"]
    assert ends("weather", spans) == ["not_applicable", "passed"]
    other = replace(spans[1], name="greet")
    assert ends("refund", [spans[0], other]) == ["passed", "not_applicable"]


def test_the_checks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (module,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "desk_checks.py").write_text(module, encoding="utf-8")
    (tmp_path / "desk.yaml").write_text(CODE, encoding="utf-8")
    use_checks("desk_checks")
    try:
        tasks = AgentEvalProfile.from_file(tmp_path / "desk.yaml").tasks
        quick, slow = (
            span("execute_tool find", 1, None, 0, 9),
            span("execute_tool x", 2, 1, 0, 2_000),
        )
        context: JsonValue = {"cities": ["Rome", "Bern"], "answer": "Rome it is."}
        record = EvalRecord(context, trace_id=quick.trace_id)
        (found,) = EvalDataset([record], tasks, [quick, slow]).evaluate()
    finally:
        use_checks("")

    tasks = {task.task_id: task for task in found.eval_set.records}
    assert (tasks["cities"].outcome, tasks["quick"].outcome) == ("failed", "failed")
    assert "missing: ['Bern']" in tasks["cities"].message
    assert tasks["quick"].score == 0.5


@pytest.mark.parametrize(
    ("text", "family"), [*zip(LISTS, [AgentAssertion, TraceAssertion, SpanFilter], strict=True)]
)
def test_every_kind_is_written_as_it_is_read(text: str, family: type[Tagged]) -> None:
    rows = yaml.safe_load(text)
    assert sorted(next(iter(row)) for row in rows) == sorted(family.kinds)
    for row in rows:
        ((kind, arguments),) = row.items()
        written = family.parse(row).model_dump(mode="json")[kind]
        assert set(arguments) <= set(written)
