"""The condition of a check in words, for people who judge what it judges."""

import re
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.operators.comparison import NEEDS_NO_EXPECTED, ComparisonOperator
from scouter.evaluate.operators.show import show
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertionTask

_WORDS: Final = {
    ComparisonOperator.Equals: "is",
    ComparisonOperator.NotEqual: "is not",
    ComparisonOperator.DeepEquals: "is",
    ComparisonOperator.SequenceMatches: "is",
    ComparisonOperator.GreaterThan: "is more than",
    ComparisonOperator.GreaterThanOrEqual: "is at least",
    ComparisonOperator.LessThan: "is less than",
    ComparisonOperator.LessThanOrEqual: "is at most",
    ComparisonOperator.NotContains: "does not contain",
    ComparisonOperator.MatchesRegex: "matches",
    ComparisonOperator.HasLengthEqual: "has the length",
    ComparisonOperator.HasLengthGreaterThan: "is longer than",
    ComparisonOperator.HasLengthLessThan: "is shorter than",
    ComparisonOperator.HasLengthGreaterThanOrEqual: "has a length of at least",
    ComparisonOperator.HasLengthLessThanOrEqual: "has a length of at most",
    ComparisonOperator.InRange: "is in the range",
    ComparisonOperator.NotInRange: "is outside the range",
    ComparisonOperator.ContainsAll: "contains all of",
    ComparisonOperator.ContainsAny: "contains one of",
    ComparisonOperator.ContainsNone: "contains none of",
    ComparisonOperator.ContainsWord: "contains the word",
    ComparisonOperator.SetEquals: "has the same items as",
    ComparisonOperator.HasUniqueItems: "has no item twice",
}
"""Operators whose names are not words enough."""
_TEXT: Final = 300
"""Characters of an expected text."""


def condition_of(task: Task) -> str:
    """Say in words when a check passes: `answer contains “14 days”`.

    Args:
        task: Not a judge's.
    """
    return f"{_subject(task)} {_predicate(task.operator, task.expected_value)}"


def _subject(task: Task) -> str:
    if isinstance(task, AssertionTask):
        path = task.context_path or "the record"
        return path if task.item_context_path is None else f"{task.item_context_path} in {path}"
    if isinstance(task, TraceAssertionTask | AgentAssertionTask):
        kind = task.assertion.kind
        given: JsonValue = task.assertion.model_dump(mode="json")[kind]
        return f"{_spaced(kind)} {show(given)}" if given else _spaced(kind)
    return f"the score of {_spaced(task.task_type)}"


def _predicate(operator: ComparisonOperator, expected: JsonValue) -> str:
    words = _WORDS.get(operator, _spaced(operator))
    if operator not in NEEDS_NO_EXPECTED:
        return f"{words} {_value(expected)}"
    return words if expected is not False else f"not: {words}"


def _value(expected: JsonValue) -> str:
    """A text as it was written, in quotes that it hardly has inside."""
    return f"“{expected[:_TEXT]}”" if isinstance(expected, str) else show(expected)


def _spaced(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z0-9])", " ", name).lower()
