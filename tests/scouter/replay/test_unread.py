"""Expected outcomes that nothing compares are found, and no others."""

from typing import Any

import pytest

from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.replay.setup_check import unread_outcomes, unread_warning

WANTED = "${expected_outcome}"
COUNT = TraceAssertion.span_count(SpanFilter.by_name("step"))


def judge(text: str, **more: Any) -> LLMJudgeTask:
    return LLMJudgeTask("j", rated(text), True, "ok", "Equals", **more)


def rated(text: str) -> Prompt:
    return Prompt(text, model="m", provider="openai")


def scenario(*tasks: Any, outcome: str | None = "Paris") -> EvalScenario:
    return EvalScenario("Where?", list(tasks), expected_outcome=outcome)


@pytest.mark.parametrize(
    "tasks",
    [
        [AssertionTask("t", "response", WANTED, "Contains")],
        [AssertionTask("t", "response", ["x", f"it is {WANTED}"], "ContainsAny")],
        [AssertionTask("t", "response", "${['expected_outcome']}", "Equals")],
        [AssertionTask("t", "expected_outcome", "${response}", "Contains")],
        [AssertionTask("t", None, {"response": WANTED}, "Equals")],
        [
            AssertionTask("t", "expected_outcome", None, "IsString"),
            AssertionTask("u", "response", "${t}", "Equals", depends_on=["t"]),
        ],
        [TraceAssertionTask("t", COUNT, WANTED, "Equals")],
        [AgentAssertionTask("t", AgentAssertion.response_content(), WANTED, "Contains")],
        [judge(f"Is ${{response}} the same as {WANTED}?")],
        [judge("Is ${response} right?", reference="expected_outcome")],
        [
            TrajectoryTask(
                "t", prompt_without_reference=rated(f"Do ${{agent_trajectory}} lead to {WANTED}?")
            )
        ],
    ],
)
def test_what_is_compared(tasks: list[Any]) -> None:
    assert unread_outcomes([scenario(*tasks)]) == []


@pytest.mark.parametrize(
    "tasks",
    [
        [],
        [AssertionTask("t", "response", "Paris", "Contains")],
        [AssertionTask("t", "response", "$${expected_outcome}", "Contains")],
        [AssertionTask("t", "response", "${metadata.expected_outcome}", "Contains")],
        [AssertionTask("t", "expected_outcome", None, "IsString")],
        [AssertionTask("t", "expected_outcome", WANTED, "Equals")],
        [TraceAssertionTask("t", COUNT, 1, "Equals")],
        [judge("Is ${response} polite?")],
        [TrajectoryTask("t", prompt_without_reference=rated("Are ${agent_trajectory} right?"))],
        [judge("Is ${expected_outcome} polite?")],
        [
            AssertionTask("t", "response", "x", "Contains"),
            AssertionTask("u", "expected_outcome", None, "IsString"),
        ],
    ],
)
def test_what_nothing_compares(tasks: list[Any]) -> None:
    found = scenario(*tasks)
    assert unread_outcomes([found]) == [found]
    assert unread_outcomes([scenario(*tasks, outcome=None)]) == []


def test_the_warning_names_the_first_five() -> None:
    given = EvalScenarios([EvalScenario("q", id=f"s{n}", expected_outcome="x") for n in range(7)])
    text = unread_warning(given)
    assert text is not None
    assert text.startswith(
        "no task compares the expected_outcome of 's0', 's1', 's2', 's3', 's4' and 2 more: "
    )
    assert unread_warning([scenario(outcome=None)]) is None
