"""A task turned into one function, so that a record costs no look-ups."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.judge.shorten import shorten
from scouter.evaluate.operators.comparison import NEEDS_NO_EXPECTED, ComparisonOperator
from scouter.evaluate.operators.compiled import Check, Comparison
from scouter.evaluate.operators.show import show
from scouter.evaluate.operators.table import (
    EXPLAINED,
    compile_comparison,
    explain,
)
from scouter.evaluate.operators.text import PATTERN_OPERATORS
from scouter.evaluate.operators.values import contains_all_of_none
from scouter.evaluate.outcome import Outcome, Reason, TaskFault, VacuousFault
from scouter.evaluate.paths.templates import Resolve, compile_template, has_template
from scouter.evaluate.results.task_result import EvalTaskResult, Explain, TaskSpec, as_score
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.task import Task

Run: TypeAlias = Callable[[JsonValue, "SpanTree | None", JsonValue], EvalTaskResult]
"""Function from the task's scope, the record's spans and its own context to the result.

The scope is the context with the actual values of the task's dependencies. The function never
raises for a record's content.
"""

Read: TypeAlias = Callable[[JsonValue, "SpanTree | None", JsonValue], JsonValue]
"""Function from the arguments of `Run` to the value that is compared; raises `TaskFault`."""

MAX_MESSAGE: Final = 2_000
"""Most characters of a fault's message; it contains names from records, which may be very long."""
_PASSED: Final = Outcome.PASSED
_FAILED: Final = Outcome.FAILED
_ERRORED: Final = Outcome.ERRORED


OpenValue: TypeAlias = Callable[[EvalTaskResult, "SpanTree | None"], TaskFault | None]
"""Function from a decided result to the reason that its value may still be another one.

The outcome may stand all the same: a count that passed `>= 1` at 1 may become 7.
"""


@dataclass(frozen=True, slots=True)
class CompiledTask:
    """A task as the engine runs it."""

    run: Run
    spec: TaskSpec
    """Fields that are the same in all results of the task."""
    open_value: OpenValue | None = None
    """None for a task whose value no missing evidence can change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Parts of a task that its comparison is compiled from."""

    task: Task
    stage: int
    assertion: JsonValue
    """The parts of the task that say what it looks at, as results show them."""
    label: str
    """Words for the compared value, at the beginning of a message."""
    item: Callable[[JsonValue], JsonValue] | None = None
    """Reads the compared part of every item of a list."""

    @property
    def expected(self) -> JsonValue:
        """Value that is compared with, templates unresolved."""
        return self.task.expected_value

    def spec(self) -> TaskSpec:
        """Fields that are the same in all results of the task."""
        task = self.task
        return TaskSpec(
            task_id=task.id,
            task_type=task.task_type,
            operator=str(task.operator),
            condition=task.condition,
            stage=self.stage,
            assertion=self.assertion,
            label=self.label,
            passed_message=_confirm(self.label, task.operator, task.expected_value),
            explain=self._explain(),
        )

    def _explain(self) -> Explain:
        """Prepare the words for a failure; a constant expected value is written once."""
        operator = self.task.operator
        label = f"the length of {self.label}" if operator.startswith("HasLength") else self.label
        is_constant = not has_template(self.expected)
        if is_constant and operator in EXPLAINED:
            return lambda actual, expected: f"{label}: {explain(operator, actual, expected)}"
        constant = _wanted(operator, self.expected) if is_constant else ""
        return lambda actual, expected: _explain(
            label, operator, actual, expected, constant or _wanted(operator, expected)
        )


def _wanted(operator: ComparisonOperator, expected: JsonValue) -> str:
    if operator in NEEDS_NO_EXPECTED and expected is not False:
        return str(operator)
    return f"{operator} {show(expected)}"


def _confirm(label: str, operator: ComparisonOperator, expected: JsonValue) -> str:
    return f"{label}: {_wanted(operator, expected)} holds"


def _explain(
    label: str,
    operator: ComparisonOperator,
    actual: JsonValue,
    expected: JsonValue,
    wanted: str,
) -> str:
    """Say in words why a comparison failed. Runs only when somebody reads the message."""
    if isinstance(actual, list):
        comparison = compile_comparison(operator, expected)
        if comparison.item is not None:
            if not actual:
                return f"{label}: nothing to compare: the list is empty (expected {wanted})"
            test = comparison.item
            at = next((i for i, item in enumerate(actual) if not test(item)), 0)
            return f"{label}: item {at} of {len(actual)} is {show(actual[at])}, expected {wanted}"
    return f"{label} is {show(actual)}, expected {wanted}"


def compile_run(subject: Subject, read: Read) -> CompiledTask:
    """Join reading and comparing into one function.

    Args:
        subject: The comparison and what its results share.
        read: Gives the value to compare.

    Raises:
        ConfigError: A pattern or a template that can never work.
    """
    spec = subject.spec()
    return CompiledTask(_run(subject, spec, read), spec)


def _run(subject: Subject, spec: TaskSpec, read: Read) -> Run:
    operator = subject.task.operator
    resolve = compile_template(subject.expected)
    if resolve is not None:
        if operator in PATTERN_OPERATORS:
            raise ConfigError(
                f"task {subject.task.id!r}: {operator} takes no template; a value that comes from "
                "a record is never used as a pattern or schema (for the characters themselves "
                "write '[$]{')"
            )
        return _with_template(subject, spec, read, resolve)
    try:
        comparison = compile_comparison(operator, subject.expected)
    except TaskFault as fault:
        if isinstance(fault, VacuousFault) or operator in PATTERN_OPERATORS:
            raise ConfigError(f"task {subject.task.id!r}: expected_value: {fault}") from fault
        reason, message, expected = fault.reason, fault.message, subject.expected
        return lambda _, __, ___: EvalTaskResult(spec, _ERRORED, reason, expected, None, message)
    prepare = _prepare_value(comparison, subject)
    return _comparing(subject.expected, spec, read, prepare, comparison.check)


def errored(
    spec: TaskSpec, expected: JsonValue, actual: JsonValue, error: Exception
) -> EvalTaskResult:
    """Turn what went wrong into the task's result.

    A `TaskFault` says why. Anything else is a fault of ours; it still must not touch any other
    task, so it becomes a result that names it.
    """
    if isinstance(error, TaskFault):
        tells_where = error.reason is Reason.EXPECTED or error.message.startswith("path ")
        text = error.message if tells_where else f"{spec.label}: {error.message}"
        return EvalTaskResult(spec, _ERRORED, error.reason, expected, actual, _bounded(text))
    text = _bounded(f"{spec.label}: the task could not be run: {type(error).__name__}: {error}")
    return EvalTaskResult(spec, _ERRORED, Reason.TYPE, expected, actual, text)


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else shorten(text, MAX_MESSAGE)


def _prepare_value(
    comparison: Comparison, subject: Subject
) -> Callable[[JsonValue], JsonValue] | None:
    """Make the function that prepares a value: it reads each item, then measures the whole."""
    item, measure = subject.item, comparison.measure
    if item is None:
        return measure

    def look_into(value: JsonValue) -> JsonValue:
        found = value
        if isinstance(value, list):
            found = [item(part) for part in value]
        return found if measure is None else measure(found)

    return look_into


def _comparing(
    expected: JsonValue,
    spec: TaskSpec,
    read: Read,
    prepare: Callable[[JsonValue], JsonValue] | None,
    check: Check,
) -> Run:
    def run(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        value: JsonValue = None
        try:
            value = read(scope, spans, base)
            if prepare is not None:
                value = prepare(value)
            outcome = _PASSED if check(value) else _FAILED
        except Exception as error:  # noqa: BLE001 — one task never touches another
            return errored(spec, expected, value, error)
        return EvalTaskResult(spec, outcome, None, expected, value)

    return run


def _compile_given(operator: ComparisonOperator, expected: JsonValue) -> Comparison:
    """Prepare a comparison with a value of the record, which may require nothing at all."""
    if operator == ComparisonOperator.ContainsAll and expected == []:
        return contains_all_of_none()
    return compile_comparison(operator, expected)


def _with_template(subject: Subject, spec: TaskSpec, read: Read, resolve: Resolve) -> Run:
    operator = subject.task.operator

    def run(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        value: JsonValue = None
        expected = subject.expected
        try:
            value = read(scope, spans, base)
            expected = resolve(scope)
            comparison = _compile_given(operator, expected)
            prepare = _prepare_value(comparison, subject)
            if prepare is not None:
                value = prepare(value)
            outcome = _PASSED if comparison.check(value) else _FAILED
        except Exception as error:  # noqa: BLE001 — one task never touches another
            return errored(spec, expected, value, error)
        message = _confirm(subject.label, operator, expected) if outcome is _PASSED else None
        return EvalTaskResult(spec, outcome, None, expected, value, message)

    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Number that a metric gives for one record, with its explanation.

    Args:
        score: The number that is compared.
        actual: Value that the result shows, and dependent tasks read, in the number's place; None
            shows the number itself.
        detail: Reason for the number, in words; it follows the message of the comparison.
        span_ids: The first spans that it is about, in time order.
    """

    score: float
    actual: JsonValue = None
    detail: str = ""
    span_ids: tuple[str, ...] = ()


Measure: TypeAlias = Callable[[JsonValue, "SpanTree | None", JsonValue], Measured]
"""Function from the arguments of `Run` to the number that is compared.

It raises `TaskFault` where there is nothing to measure.
"""


def compile_metric(subject: Subject, measure: Measure) -> CompiledTask:
    """Join measuring and comparing into one function.

    Args:
        subject: The comparison and what the task's results share; its type is no assertion's.
        measure: Gives the number.

    Raises:
        ConfigError: A pattern or a template that can never work.
    """
    metric = Metric.of(subject)

    def run(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        try:
            return metric.result(measure(scope, spans, base), scope)
        except Exception as error:  # noqa: BLE001 — one task never touches another
            return errored(metric.spec, subject.expected, None, error)

    return CompiledTask(run, metric.spec)


@dataclass(frozen=True, slots=True)
class Metric:
    """The comparison of a number that was measured."""

    compared: CompiledTask
    """Takes the number in the place of the record's own context."""

    @staticmethod
    def of(subject: Subject) -> "Metric":
        """Prepare the comparison.

        Raises:
            ConfigError: A pattern or a template that can never work.
        """
        return Metric(compile_run(subject, lambda _, __, value: value))

    @property
    def spec(self) -> TaskSpec:
        """Fields that are the same in all results of the metric."""
        return self.compared.spec

    def result(self, found: Measured, scope: JsonValue) -> EvalTaskResult:
        """Compare what was measured.

        Raises:
            TaskFault: It is no finite number.
        """
        score = as_score(found.score)
        if score is None:
            raise TaskFault(Reason.TYPE, f"{show(found.score)} is no score: no finite number")
        result = self.compared.run(scope, None, score)
        if result.outcome is Outcome.ERRORED:
            return result
        message = result.given_message
        if found.detail:
            message = f"{result.message}; {found.detail}"
        actual = score if found.actual is None else found.actual
        return EvalTaskResult(
            self.spec, result.outcome, None, result.expected, actual, message, found.span_ids
        ).scored(score)
