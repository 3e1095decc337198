"""Scales on which people score records."""

from typing import Any

import pytest

from collector.labelling.scale import scale_for
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask

PROMPT = Prompt("Rate ${answer}.", model="m", provider="openai")
EQUAL = {"polite": "Is it polite?", "short": "Is it short?", "true": "Is it true?", "new": "New?"}
WEIGHTED = [
    {"id": "polite", "text": "Is it polite?", "weight": 3},
    {"id": "short", "text": "Is it short?"},
]


def judge(**fields: Any) -> LLMJudgeTask:
    given: dict[str, Any] = {
        "expected_value": 0.5,
        "context_path": "score",
        "operator": "GreaterThanOrEqual",
    }
    return LLMJudgeTask("tone", PROMPT, **(given | fields))


@pytest.mark.parametrize(
    ("task", "ends", "steps"),
    [
        (judge(scale=(1, 5)), (1, 5), [1, 2, 3, 4, 5]),
        (judge(scale=(-1, 1)), (-1, 1), [-1, 0, 1]),
        (judge(scale=(0, 10)), (0, 10), list(range(11))),
        (judge(scale=(0, 11)), (0, 11), []),
        (judge(scale=(0.5, 5)), (0.5, 5), []),
        (judge(scale=(0, 1)), (0, 1), [each / 10 for each in range(11)]),
        (judge(rubric=EQUAL), (0, 1), [0, 0.25, 0.5, 0.75, 1]),
        (judge(rubric=WEIGHTED), (0, 1), []),
        (judge(rubric={f"c{n}": "?" for n in range(11)}), (0, 1), []),
    ],
    ids=["1-5", "signed", "0-10", "wide", "halves", "tenths", "rubric", "weights", "long rubric"],
)
def test_a_scale(task: LLMJudgeTask, ends: tuple[float, float], steps: list[float]) -> None:
    scale = scale_for(task)
    assert scale is not None
    assert ((scale.least, scale.most), list(scale.steps)) == (ends, steps)
    assert (ends[0] in scale, ends[1] in scale) == (True, True)
    assert (ends[0] - 0.01 in scale, ends[1] + 0.01 in scale) == (False, False)


@pytest.mark.parametrize(
    "task",
    [
        judge(),
        judge(rubric=EQUAL, context_path="all_met", expected_value=True, operator="Equals"),
        judge(scale=(1, 5), expected_value="${wanted}"),
        AssertionTask("right", "answer", 42, ComparisonOperator.Equals),
    ],
    ids=["no scale", "rubric as a whole", "bound of the record", "no judge"],
)
def test_no_scale(task: Any) -> None:
    assert scale_for(task) is None


def test_the_task_says_which_numbers_pass() -> None:
    scale = scale_for(judge(scale=(1, 5), expected_value=4))
    assert scale is not None
    assert [scale.passes(each) for each in scale.steps] == [False, False, False, True, True]
    assert scale.passes(3.9) is False
