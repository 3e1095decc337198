"""Expected values that can never work are found without a record, and no others."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.expected_doubts import doubts
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import (
    AttributeFilterTask,
    MultiResponseMode,
    TraceAssertion,
    TraceAssertionTask,
)

PROFILES = sorted((Path(__file__).parents[4] / "profiles").glob("*.yaml"))


def doubt(task: Task) -> str:
    return " ".join(text for _, text in doubts([task]))


@pytest.mark.parametrize(
    ("operator", "expected", "said"),
    [
        (Op.GreaterThan, "2024-01-01", 'expects a number, got a text: "2024-01-01"; dates are'),
        (Op.LessThanOrEqual, "5", "expects a number"),
        (Op.GreaterThan, None, "expects a number"),
        (Op.GreaterThanOrEqual, True, "expects a number"),
        (Op.InRange, [10, 1], "in this order"),
        (Op.InRange, 5, "two numbers"),
        (Op.NotInRange, ["a", "b"], "two numbers"),
        (Op.WithinRelativeTolerance, [100, 10], "1000 %"),
        (Op.WithinRelativeTolerance, [100, 5], "500 %"),
        (Op.WithinRelativeTolerance, [0, 0.1], "of 0 any ratio is 0"),
        (Op.WithinRelativeTolerance, [1, -0.1], "not negative"),
        (Op.ApproximatelyEquals, [3, 30], "1000 %"),
        (Op.WithinAbsoluteTolerance, [0.5, 50], "10000 %"),
        (Op.WithinAbsoluteTolerance, 5, "[value, tolerance]"),
        (Op.HasLengthEqual, -1, "never passes"),
        (Op.HasLengthEqual, 2.5, "never passes"),
        (Op.HasLengthEqual, "3", "expects a number"),
        (Op.HasLengthGreaterThan, -1, "always passes"),
        (Op.HasLengthGreaterThanOrEqual, 0, "always passes"),
        (Op.HasLengthLessThan, 0, "never passes"),
        (Op.HasLengthLessThanOrEqual, -3, "never passes"),
        (Op.SimilarityAtLeast, ["a", 0], "always passes"),
        (Op.SimilarityAtLeast, ["", 0.5], "empty text"),
        (Op.SimilarityAtLeast, ["a", 80], "[0, 1]"),
        (Op.ContainsWord, "", "not empty"),
        (Op.StartsWith, 5, "expects a text"),
        (Op.ContainsAll, "a", "a list of items"),
        (Op.SequenceMatches, "a", "expects a list"),
        (Op.SetEquals, {"a": 1}, "expects a list"),
        (Op.MatchesRegex, "x*", "always passes"),
        (Op.Matches, ".*", "always passes"),
        (Op.MatchesJsonSchema, False, "no value is valid"),
        (Op.MatchesJsonSchema, {}, "every value is valid"),
        (Op.IsEmpty, "false", "without quotes"),
    ],
)
def test_what_can_never_work_is_found(operator: Op, expected: JsonValue, said: str) -> None:
    assert said in doubt(AssertionTask("t", "v", expected, operator))


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (Op.GreaterThan, -5),
        (Op.GreaterThan, "${limit}"),
        (Op.InRange, [1, 1]),
        (Op.InRange, ["${low}", 1]),
        (Op.WithinRelativeTolerance, [100, 1]),
        (Op.WithinAbsoluteTolerance, [0, 50]),
        (Op.WithinAbsoluteTolerance, [1, 5]),
        (Op.HasLengthEqual, 0),
        (Op.HasLengthEqual, 10**16),
        (Op.HasLengthGreaterThan, 0),
        (Op.HasLengthGreaterThan, 2.5),
        (Op.HasLengthLessThan, 1),
        (Op.HasLengthLessThanOrEqual, 0),
        (Op.SimilarityAtLeast, ["a", 1]),
        (Op.SequenceMatches, []),
        (Op.SetEquals, []),
        (Op.Equals, "2024-01-01"),
        (Op.Equals, ""),
        (Op.Matches, "^a*$"),
        (Op.Matches, "^$"),
        (Op.Matches, "(^|,)a($|,)"),
        (Op.Matches, "(?m)a$\nb"),
        (Op.Matches, "é$"),
        (Op.MatchesJsonSchema, {"type": "object"}),
        (Op.IsEmpty, False),
        (Op.IsZero, 0),
        (Op.IsNull, None),
        (Op.IsString, "str"),
    ],
)
def test_what_can_work_is_left_alone(operator: Op, expected: JsonValue) -> None:
    assert doubt(AssertionTask("t", "v", expected, operator)) == ""


EXISTS = TraceAssertion.span_exists(SpanFilter.by_name("a"))


@pytest.mark.parametrize(
    ("assertion", "operator", "expected", "said"),
    [
        (TraceAssertion.trace_error_count(), Op.LessThan, 0, "never passes"),
        (TraceAssertion.trace_error_count(), Op.GreaterThanOrEqual, 0, "always passes"),
        (TraceAssertion.trace_span_count(), Op.Equals, 1.5, "never passes"),
        (TraceAssertion.trace_duration(), Op.Contains, "a", "cannot compare"),
        (EXISTS, Op.Equals, "true", "never passes"),
        (EXISTS, Op.GreaterThan, 0, "cannot compare"),
        (TraceAssertion.span_set(["a"]), Op.NotEqual, 1, "always passes"),
        (TraceAssertion.trace_error_count(), Op.Equals, 0, ""),
        (TraceAssertion.trace_error_count(), Op.LessThanOrEqual, 0, ""),
        (TraceAssertion.trace_span_count(), Op.InRange, [3, 9], ""),
        (TraceAssertion.trace_span_count(), Op.Equals, "3", ""),
        (EXISTS, Op.Equals, False, ""),
    ],
)
def test_what_is_known_of_the_value_counts(
    assertion: TraceAssertion, operator: Op, expected: JsonValue, said: str
) -> None:
    found = doubt(TraceAssertionTask("t", assertion, expected, operator))
    assert said in found
    assert bool(said) is bool(found)


def test_an_agents_answer_and_a_task_inside_a_filter_are_looked_at() -> None:
    called = AgentAssertionTask("called", AgentAssertion.tool_called("a"), "yes", Op.Equals)
    inner = AssertionTask("inner", "n", [9, 1], Op.InRange)
    filter = TraceAssertion.attribute_filter(
        "k", AttributeFilterTask.assertion(inner), MultiResponseMode.All
    )
    outer = TraceAssertionTask("outer", filter, True, Op.Equals)

    assert [name for name, _ in doubts([called, outer])] == ["called", "inner"]


@pytest.mark.parametrize("file", PROFILES, ids=lambda file: file.stem)
def test_the_ready_made_profiles_are_beyond_doubt(file: Path) -> None:
    assert list(doubts(AgentEvalProfile.from_file(file).tasks)) == []
