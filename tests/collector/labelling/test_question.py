"""Questions that people answer, and the numbers that they may give."""

from typing import Any

import pytest

from collector.labelling.question import is_readable, question_about, question_of, scale_for
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
