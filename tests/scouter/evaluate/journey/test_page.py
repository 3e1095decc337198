"""The page on watsonx Orchestrate: its example runs and prints what it says."""

import re
from pathlib import Path

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.model.record import EvalRecord
from tests.scouter.evaluate.spans_support import span

PAGE = (Path(__file__).parents[4] / "docs" / "from_watsonx.md").read_text(encoding="utf-8")


def test_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    for name in ("evaluate_journey", "check_tool_calls"):
        (example,) = (text for text in examples if f"import {name}" in text)
        printed = PAGE.partition(example)[2].split("```")[2].removeprefix("text\n")
        exec(compile(example, "from_watsonx.md", "exec"), {})  # noqa: S102 our own page
        assert capsys.readouterr().out == printed


def test_the_profile(tmp_path: Path) -> None:
    """It reads a session of one trace with both calls and one more: precision 1 of 3."""
    texts = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    (text,) = (text for text in texts if text.startswith("# profile.yaml"))
    (tmp_path / "profile.yaml").write_text(text, encoding="utf-8")
    profile = AgentEvalProfile.from_file(tmp_path / "profile.yaml")
    names = ("get_assignment_id", "get_schedule", "weather")
    arguments = '{"username": "x", "assignment_id": "y"}'
    spans = [
        span(
            n, f"execute_tool {name}", None, (n, n + 1),
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
             "gen_ai.tool.call.arguments": arguments},
        )
        for n, name in enumerate(names, start=1)
    ]  # fmt: skip
    record = EvalRecord({}, session_id="s", trace_id=spans[0].trace_id)
    (session,) = EvalDataset([record], profile.tasks, spans).evaluate().sessions
    assert {task.task_id: task.score for task in session.tasks} == {
        "time_off": 1.0,
        "right_calls": pytest.approx(1 / 3),
    }
