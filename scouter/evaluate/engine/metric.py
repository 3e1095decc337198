"""A task that measures, compiled: its number is the score, a comparison of it the outcome."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import JsonValue

from scouter.evaluate.engine.compiled_task import CompiledTask, Subject, compile_run, errored
from scouter.evaluate.operators.show import show
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.results.score import as_score
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.spans.tree import SpanTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Number that a metric gives for one record, with its explanation.

    Args:
        score: The number that is compared.
        actual: Value that the result shows, and dependent tasks read, in the number's place; None
            shows the number itself.
        told: Reason for the number, in words; it follows the message of the comparison.
        span_ids: The first spans that it is about, in time order.
    """

    score: float
    actual: JsonValue = None
    told: str = ""
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
        if found.told:
            message = f"{result.message}; {found.told}"
        actual = score if found.actual is None else found.actual
        return EvalTaskResult(
            self.spec, result.outcome, None, result.expected, actual, message, found.span_ids
        ).scored(score)
