"""The question that a person answers about a record."""

from typing import Any

import pytest

from collector.labelling.question import question_about, question_of
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask

ASKED = "Is ${answer.text} right? It cites ${cited}. Costs $${no variable} and ${other_task.score}."


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"answer": {"text": "Oslo"}, "cited": ["a", 1]}, ("Oslo", '["a", 1]')),
        ({"answer": {"text": "${cited}"}, "cited": 2}, ("${cited}", "2")),
        ({}, ("${answer.text}", "${cited}")),
        ("no object", ("${answer.text}", "${cited}")),
    ],
    ids=["filled", "once", "missing", "text"],
)
def test_a_record_fills_the_variables_that_it_can(context: Any, said: tuple[str, str]) -> None:
    prompt = Prompt(ASKED, model="m", provider="openai")
    task = LLMJudgeTask("helpful", prompt, 3, "score", ComparisonOperator.GreaterThan)
    answer, cited = said
    assert question_about(task, context) == (
        f"Is {answer} right? It cites {cited}. Costs ${{no variable}} and ${{other_task.score}}."
    )
    assert question_of(task) == ASKED


def test_a_check_asks_what_its_description_says() -> None:
    task = AssertionTask("right", "answer", 42, ComparisonOperator.Equals)
    assert question_about(task, {"answer": 1}) == question_of(task) == "task 'right'"
