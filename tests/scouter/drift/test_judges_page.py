"""The page on judges: its examples run, and what it says of them holds."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from scouter.drift.wire_limits import WIRE_LIMITS
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.judge_answer import MAX_SHOWN_CHARS
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.judge.prompt import MAX_VALUE_CHARACTERS
from scouter.evaluate.judge.prompt_text import MAX_CHARACTERS
from scouter.evaluate.judge.render import SENTENCE
from scouter.evaluate.outcome import Reason
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import parse_tasks
from scouter.model.record import EvalRecord

PAGE = (Path(__file__).parents[3] / "docs/judges.md").read_text(encoding="utf-8")
TASKS: dict[str, LLMJudgeTask] = {
    task.id: task
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    if not block.startswith("# collector.yaml")  # settings: see the tests of the collector
    for task in parse_tasks(yaml.safe_load(block))
    if isinstance(task, LLMJudgeTask)
}


def outcome(task_id: str, *answers: Any) -> tuple[str, Any]:
    """Outcome and actual value where a judge gives these answers, one after the other."""
    waiting = list(answers)

    def judge(_: JudgeRequest) -> Any:
        return waiting.pop(0)

    record = EvalRecord({"answer": "a", "baseline": "b"})
    found = EvalDataset([record], [TASKS[task_id]]).evaluate(judge=judge, concurrency=1)
    [result] = found.records[0].tasks
    assert not waiting
    return str(result.reason or result.outcome), result.actual


def marks(polite: str, dated: str) -> dict[str, Any]:
    return {"polite": {"reason": "", "verdict": polite}, "dated": {"reason": "", "verdict": dated}}


@pytest.mark.parametrize(
    ("polite", "dated", "wanted"),
    [
        ("no", "yes", ("passed", 0.75)),
        ("yes", "no", ("failed", 0.25)),
        ("cannot_tell", "yes", ("passed", 0.75)),
        ("yes", "cannot_tell", ("abstained", None)),
    ],
)
def test_the_rubric(polite: str, dated: str, wanted: tuple[str, Any]) -> None:
    assert outcome("reply", marks(polite, dated)) == wanted


def test_the_median() -> None:
    scores = [{"score": score, "reason": ""} for score in (5, 1, 4)]
    assert outcome("clarity", *scores) == ("passed", 4)
    assert outcome("clarity", scores[0], scores[1], {"score": 6, "reason": ""}) == ("failed", 3)


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("A", "B", ("passed", "A")),
        ("B", "A", ("failed", "B")),
        ("A", "A", ("failed", "tie")),
        ("A", "C", ("parse", None)),
    ],
)
def test_the_pair(one: str, other: str, wanted: tuple[str, Any]) -> None:
    answers = ({"reason": "", "better": choice} for choice in (one, other))
    assert outcome("better", *answers) == wanted


def test_the_numbers_of_the_page() -> None:
    assert set(TASKS) == {"reply", "clarity", "better"}
    for number, words in (
        (MAX_VALUE_CHARACTERS, "{:,}\nunless you say otherwise"),
        (MAX_CHARACTERS, "at most {:,} characters; beyond"),
        (MAX_SHOWN_CHARS, "both ends ({:,} characters)"),
        (WIRE_LIMITS.judge_calls, "may cost {:,} of them per record"),
        (WIRE_LIMITS.prompts_characters, "at most\n{:,} characters"),
    ):
        assert words.format(number).replace("\n", " ") in PAGE.replace("\n", " ")
    assert SENTENCE.format(code="7c0a91f2be34d815")[:90] in PAGE
    reasons = re.findall(r"^\| `((?!scouter_)\w+)` \|", PAGE, re.MULTILINE)
    assert set(reasons) <= set(Reason)
