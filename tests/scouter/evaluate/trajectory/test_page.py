"""`docs/trajectories.md` runs as written, and its table is that of the functions."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import scouter.evaluate
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.trajectory.call import MAX_CALLS, MAX_SIDE_BY_SIDE
from scouter.evaluate.trajectory.matching import MAX_COMPARISONS, MAX_WEIGHING
from scouter.model.record import EvalRecord
from tests.scouter.evaluate.spans_support import TRACE
from tests.scouter.model.genai.test_acts import made

PAGE = (Path(__file__).parents[4] / "docs/trajectories.md").read_text(encoding="utf-8")
CALLED: list[Any] = [{"tool_name": "a", "tool_input": {}}]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_examples() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for example in blocks("python"):
            exec(compile(example, "trajectories.md", "exec"), {})  # noqa: S102 our own page
    assert printed.getvalue() == "".join(blocks("text"))


@pytest.mark.parametrize("row", re.findall(r"^\| `(trajectory_\w+)` \|(.*)\|$", PAGE, re.MULTILINE))
def test_the_scores_of_nothing(row: tuple[str, str]) -> None:
    name, cells = row
    expected = [cell.strip() for cell in cells.split("|")[1:]]
    function: Any = getattr(scouter.evaluate, name)
    if name == "trajectory_single_tool_use":
        assert [f"{function([], 'a'):g}", "–", f"{function([], 'a'):g}"] == expected
        return
    pairs: tuple[tuple[list[Any], list[Any]], ...] = ([], CALLED), (CALLED, []), ([], [])
    assert [f"{function(*pair):g}" for pair in pairs] == expected


def test_the_profile(tmp_path: Path) -> None:
    """Two of its tasks find what they want in the calls of two spans."""
    text, _ = blocks("yaml")
    path = tmp_path / "calls.yaml"
    path.write_text(text, encoding="utf-8")
    calls = (
        made(1, "tool", "search", at=(0, 1), args='{"city": "Oslo", "page": 2}'),
        made(2, "tool", "pay", at=(2, 3), args="{}"),
    )
    expected = [{"tool_name": "search", "tool_input": {"city": "Oslo"}}, {"tool_name": "log"}]
    record = EvalRecord({"expected_trajectory": expected}, trace_id=TRACE)
    (found,) = (
        EvalDataset([record], AgentEvalProfile.from_file(path).tasks, calls).evaluate().records
    )
    assert [(task.task_id, str(task.outcome), task.score) for task in found.tasks] == [
        ("right_calls", "passed", 0.5),
        ("paid", "passed", 1.0),
        ("only_this", "failed", 0.0),
    ]


def test_the_judged_profile(tmp_path: Path) -> None:
    """By hand: the median of three samples is 0.9."""
    _, text = blocks("yaml")
    path = tmp_path / "judged_calls.yaml"
    path.write_text(text, encoding="utf-8")
    record = EvalRecord({"question": "Where?", "answer": "Oslo."}, trace_id=TRACE)
    spans = [made(1, "tool", "search", at=(0, 1), args="{}")]
    dataset = EvalDataset([record], AgentEvalProfile.from_file(path).tasks, spans)
    scores = [0.9, 0.2, 1.0]
    found = dataset.evaluate(judge=lambda each: {"reasoning": "", "score": scores[each.sample]})
    [task] = found.records[0].tasks
    assert (task.score, str(task.outcome)) == (0.9, "passed")


def test_the_limits() -> None:
    text = PAGE.split("## Limits")[1]
    for limit in (MAX_CALLS, MAX_SIDE_BY_SIDE, MAX_COMPARISONS, MAX_WEIGHING):
        assert f"{limit:,}" in text
