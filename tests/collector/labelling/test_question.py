"""The question that a person answers about a record."""

from typing import Any

import pytest

from collector.labelling.question import is_readable, question_about, question_of
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask

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


SPANS = TraceAssertion.span_exists(SpanFilter.by_name("lookup"))


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (AssertionTask("a", "answer", 42, "Equals"), "“answer” is 42"),
        (AssertionTask("a", "answer", 42, "Equals", description="Right?"), "Right?"),
        (AssertionTask("a", "answer", "14 days", "Contains"), "“answer” contains “14 days”"),
        (AssertionTask("a", "text", "No. ${answer}", "Contains"), "“text” contains “No. 1”"),
        (AssertionTask("a", "at", "false", "Equals"), "“at” is false"),
        (AssertionTask("a", "at", "-1.5 or 2", "Equals"), "“at” is “-1.5 or 2”"),
        (AssertionTask("a", "at", False, "IsIso8601"), "“at” is no date and no time"),
        (
            TraceAssertionTask(id="a", assertion=SPANS, operator="Equals", expected_value=True),
            "there is a span named “lookup”",
        ),
        (
            TraceAssertionTask(
                id="a", assertion=TraceAssertion.trace_duration(), operator="LessThan",
                expected_value=500,
            ),
            "the duration of the trace is less than 500 ms",
        ),
    ],
)  # fmt: skip
def test_a_check_asks_what_it_describes_or_else_its_condition(task: Any, said: str) -> None:
    assert question_about(task, {"answer": 1}) == said
    assert question_of(task) == said.replace("No. 1", "No. ${answer}")


def test_spans_are_not_read_from_a_record() -> None:
    spans = TraceAssertionTask(id="a", assertion=SPANS, operator="Equals", expected_value=True)
    assert is_readable(AssertionTask("a", "answer", 42, "Equals"))
    assert not is_readable(spans)
