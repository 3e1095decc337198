"""Expected values with which a task can tell nothing: found without a record."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.operators.comparison import NEEDS_NO_EXPECTED
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.compiled import is_number
from scouter.evaluate.operators.formats import is_iso8601
from scouter.evaluate.operators.show import show
from scouter.evaluate.operators.table import compile_comparison
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.paths.templates import has_template
from scouter.evaluate.patterns import compile_pattern
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.base import ScoredTask
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import AttributeFilterAssertion, TraceAssertionTask

_FLAGS: Final = frozenset(
    (
        "SpanSequence", "SpanSet", "SpanExists", "AttributeFilter", "ToolCalled", "ToolNotCalled",
        "ToolCalledWithArgs", "ToolCallSequence",
    )
)  # fmt: skip
"""Assertions that give true or false."""
_COUNTS: Final = frozenset(
    (
        "SpanCount", "TraceDuration", "TraceSpanCount", "TraceErrorCount", "TraceServiceCount",
        "TraceMaxDepth", "ToolCallCount", "ToolErrorCount", "GuardrailCount", "ResponseInputTokens",
        "ResponseOutputTokens", "ResponseTotalTokens",
    )
)  # fmt: skip
"""Assertions that give a whole number from 0."""
_MOST_RATIO: Final = 1
"""Largest relative tolerance; beyond it 0 and numbers of the other sign are near, too."""
_MOST_TIMES: Final = 10
"""Largest absolute tolerance, in multiples of the expected value."""
_PROBES: Final = ("", " ", "\n", "a", "Z", "0", "_", "-", "é", "\x00", "\n\n", "a b\nc", "0.5\n")
"""Different texts; a pattern that is found in each of them is found in every text."""


def doubts(tasks: Iterable[Task]) -> Iterator[tuple[str, str]]:
    """Go through tasks for expected values that can never work.

    Yields:
        A task's id, and what is wrong with its expected value. Those with templates are left out.
    """
    for task in tasks:
        found = _doubt(task)
        if found:
            yield task.id, found
        if isinstance(task, TraceAssertionTask):
            assertion = task.assertion
            if isinstance(assertion, AttributeFilterAssertion):
                yield from doubts([assertion.task.task])


def _doubt(task: Task) -> str:
    operator, expected = task.operator, task.expected_value
    if has_template(expected):
        return ""
    try:
        comparison = compile_comparison(operator, expected)
    except TaskFault as fault:
        is_date = isinstance(expected, str) and is_iso8601(expected)
        hint = "; dates are texts, and only numbers have an order" if is_date else ""
        return f"{fault}{hint}"
    found = _DOUBTS.get(operator, _no_doubt)(operator, expected)
    if found:
        return found
    if operator in NEEDS_NO_EXPECTED:
        return _of_flag(operator, expected)
    if operator.startswith("HasLength"):
        return _tried(operator, expected, comparison.check, _counts(expected), "a length")
    if isinstance(task, TraceAssertionTask | AgentAssertionTask):
        kind = task.assertion.kind
        if kind in _FLAGS:
            return _tried(operator, expected, comparison.check, (True, False), "true or false")
        if kind in _COUNTS:
            wanted = "a whole number from 0"
            return _tried(operator, expected, comparison.check, _counts(expected), wanted)
    if isinstance(task, ScoredTask):
        wanted = "a number from 0 to 1"
        return _tried(operator, expected, comparison.check, _parts(expected), wanted)
    return ""


def _no_doubt(operator: Op, expected: JsonValue) -> str:
    del operator, expected
    return ""


def _counts(expected: JsonValue) -> Iterable[JsonValue]:
    """Whole numbers from 0, among them those around each number that is expected."""
    given = expected if isinstance(expected, list) else [expected]
    numbers = [float(item) for item in given if is_number(item) and abs(item) < 1e15]  # type: ignore[arg-type,operator]
    around = chain.from_iterable(
        range(math.floor(number) - 1, math.floor(number) + 3) for number in numbers
    )
    return [0, 1, 2, 3, 10, 10**16, *(number for number in around if number >= 0)]


def _parts(expected: JsonValue) -> Iterable[JsonValue]:
    """Numbers from 0 to 1, among them those around each number that is expected."""
    given = expected if isinstance(expected, list) else [expected]
    numbers = [float(item) for item in given if is_number(item) and abs(item) < 2]  # type: ignore[arg-type,operator]
    around = (math.nextafter(number, end) for number in numbers for end in (-1.0, 2.0))
    return [number for number in (0.0, 0.5, 1.0, *numbers, *around) if 0 <= number <= 1]


def _tried(
    operator: Op,
    expected: JsonValue,
    check: Callable[[JsonValue], bool],
    values: Iterable[JsonValue],
    what: str,
) -> str:
    """Say that a comparison comes out alike for all values that there can be."""
    found: set[bool] = set()
    for value in values:
        try:
            found.add(check(value))
        except TaskFault as fault:
            return f"{operator} cannot compare {what}: {fault}"
    if len(found) == 2:
        return ""
    always = "always" if found.pop() else "never"
    return f"{operator} {show(expected)} {always} passes: what is compared is {what}"


def _of_flag(operator: Op, expected: JsonValue) -> str:
    if isinstance(expected, str) and expected.strip().lower() in ("false", "no", "off"):
        return (
            f"{operator} reads {show(expected)} as any other value, and asserts its property; "
            "only false without quotes asserts the opposite"
        )
    return ""


def _relative(operator: Op, expected: JsonValue) -> str:
    target, tolerance = _pair(expected)
    if tolerance > _MOST_RATIO:
        return (
            f"{operator}: a tolerance of {tolerance:g} is {tolerance * 100:g} %, within which 0 is "
            "near any value; write 0.1 for 10 %"
        )
    if target == 0 and tolerance:
        return f"{operator}: of 0 any ratio is 0; take WithinAbsoluteTolerance"
    return ""


def _absolute(operator: Op, expected: JsonValue) -> str:
    target, tolerance = _pair(expected)
    if target and tolerance >= _MOST_TIMES * abs(target):
        return (
            f"{operator}: a tolerance of {tolerance:g} around {target:g} is "
            f"{tolerance / abs(target) * 100:g} % of it; the second number is a distance"
        )
    return ""


def _pair(expected: JsonValue) -> tuple[float, float]:
    first, second = expected if isinstance(expected, list) else (0, 0)
    return float(first), float(second)  # type: ignore[arg-type]  # the operator took them


def _similar(operator: Op, expected: JsonValue) -> str:
    text, least = expected if isinstance(expected, list) else ("", 0)
    if least == 0:
        return f"{operator} with the ratio 0 always passes: every text is so similar"
    return "" if text else f"{operator} with an empty text: only the empty one is similar to it"


def _pattern(operator: Op, expected: JsonValue) -> str:
    pattern = str(expected)
    if all(map(compile_pattern(pattern, operator).found_in, _PROBES)):
        return f"{operator} {show(pattern)} always passes: it is found in every text"
    return ""


def _schema(operator: Op, expected: JsonValue) -> str:
    if expected is False or expected == {"not": {}}:
        return f"{operator}: no value is valid under this schema"
    if expected is True or expected == {}:
        return f"{operator}: every value is valid under this schema"
    return ""


_DOUBTS: Final[dict[Op, Callable[[Op, JsonValue], str]]] = {
    Op.WithinRelativeTolerance: _relative,
    Op.WithinAbsoluteTolerance: _absolute,
    Op.ApproximatelyEquals: _absolute,
    Op.SimilarityAtLeast: _similar,
    Op.Matches: _pattern,
    Op.MatchesRegex: _pattern,
    Op.MatchesJsonSchema: _schema,
}
