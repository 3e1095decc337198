"""Compiled tasks that ask a judge, and those that are judged only where their condition holds."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TypeAlias

from pydantic import JsonValue

from scouter.evaluate.engine.compiled_task import CompiledTask, Run, errored
from scouter.evaluate.judge.ask import AskingFor
from scouter.evaluate.judge.port import NO_JUDGE
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.paths.templates import has_template
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.function import FunctionTask
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.report import ReportTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask

ResultAndAnswer: TypeAlias = tuple[EvalTaskResult, JsonValue]
"""A task's result, and the answer that dependent tasks read."""
Asking: TypeAlias = AskingFor[ResultAndAnswer]
"""Ends with the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingTask(ABC):
    """A task that is decided by the answers of a judge."""

    spec: TaskSpec
    task: LLMJudgeTask | ReportTask | TrajectoryTask | FunctionTask | JourneyTask

    @property
    def max_retries(self) -> int:
        """Most further tries of a question where the provider failed."""
        return self.task.max_retries

    @abstractmethod
    def ask(
        self, scope: JsonValue, record_uid: str, base: JsonValue, spans: SpanTree | None
    ) -> Asking:
        """Ask about one record until there is an outcome; may end without a question.

        Args:
            scope: The record's context and what the task depends on; anything but an object can
                be read as `${context}`.
            record_uid: Key of the record.
            base: The record's own context.
            spans: Those of the record's trace, as far as they are here.

        Raises:
            TaskFault: Something that the question is about is missing; raised before any call.
        """

    def basis(self, scope: JsonValue, base: JsonValue) -> Sequence[JsonValue]:
        """All that an outcome follows from, beside the task, the questions and the answers."""
        del base
        return [scope] if has_template(self.task.expected_value) else []

    def is_sampled(self, record_uid: str) -> bool:
        """Tell whether the task judges a record; the same in every process and at any time."""
        rate = self.task.sample_rate
        if rate >= 1.0:
            return True
        key = f"{len(record_uid)}:{record_uid}{self.task.id}".encode("utf-8", "surrogatepass")
        drawn = int.from_bytes(blake2b(key, digest_size=8).digest())
        return drawn < rate * 2.0**64

    def not_sampled(self) -> EvalTaskResult:
        """The result of a record that is not among those judged."""
        rate = self.task.sample_rate
        text = f"not among the {rate:.3%} of the records that this task judges"
        if not rate:
            text = "judges are not called for this record"
        return self._skipped(Reason.SAMPLED, text)

    def fault(self, error: Exception) -> EvalTaskResult:
        """The result where the question could not even be put."""
        if isinstance(error, TaskFault):  # it is about the question, not about the score
            return self._errored(error.reason, error.message)
        return errored(self.spec, self.task.expected_value, None, error)

    def run(self, scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        """The result where nobody is there to answer."""
        return self._errored(Reason.PROVIDER, NO_JUDGE)

    def _errored(self, reason: Reason, message: str) -> EvalTaskResult:
        return EvalTaskResult(
            self.spec, Outcome.ERRORED, reason, self.task.expected_value, None, message
        )

    def _skipped(self, reason: Reason, message: str) -> EvalTaskResult:
        return EvalTaskResult(
            self.spec, Outcome.SKIPPED, reason, self.task.expected_value, None, message
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The condition of one task, compiled."""

    holds: Run
    """The task that tells whether it holds."""
    spec: TaskSpec
    """Of the task that depends on it."""
    expected: JsonValue

    def unjudged_result(
        self, scope: JsonValue, spans: SpanTree | None, base: JsonValue
    ) -> EvalTaskResult | None:
        """Give the result of a task that is not judged; None where it is.

        What is not known is no reason to leave a task out: it is errored then, with the reason.
        """
        found = self.holds(scope, spans, base)
        if found.outcome is Outcome.PASSED:
            return None
        if found.outcome is Outcome.ERRORED:
            text, outcome, reason = f"when: {found.message}", Outcome.ERRORED, found.reason
        else:
            text = f"skipped, as it does not apply: {found.message}"
            outcome, reason = Outcome.SKIPPED, Reason.NOT_APPLICABLE
        return EvalTaskResult(self.spec, outcome, reason, self.expected, None, text, found.span_ids)


def conditional(
    compiled: CompiledTask | AskingTask, holds: Run, expected: JsonValue
) -> CompiledTask | AskingTask:
    """Let a task be judged only where a condition holds.

    Args:
        compiled: The task.
        holds: The task that tells whether it holds.
        expected: The expected value of the task.
    """
    condition = Condition(holds=holds, spec=compiled.spec, expected=expected)
    if isinstance(compiled, AskingTask):
        return _Asking(spec=compiled.spec, task=compiled.task, inner=compiled, condition=condition)
    run = compiled.run

    def run_where_it_holds(
        scope: JsonValue, spans: SpanTree | None, base: JsonValue
    ) -> EvalTaskResult:
        return condition.unjudged_result(scope, spans, base) or run(scope, spans, base)

    return replace(compiled, run=run_where_it_holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking(AskingTask):
    inner: AskingTask
    condition: Condition

    def ask(
        self, scope: JsonValue, record_uid: str, base: JsonValue, spans: SpanTree | None
    ) -> Asking:
        retained = self.condition.unjudged_result(scope, spans, base)
        if retained is not None:
            return retained, None
        return (yield from self.inner.ask(scope, record_uid, base, spans))

    def basis(self, scope: JsonValue, base: JsonValue) -> Sequence[JsonValue]:
        return self.inner.basis(scope, base)

    def fault(self, error: Exception) -> EvalTaskResult:
        return self.inner.fault(error)

    def run(self, scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        retained = self.condition.unjudged_result(scope, spans, base)
        return retained or self.inner.run(scope, spans, base)
