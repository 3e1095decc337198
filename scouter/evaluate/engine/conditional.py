"""Tasks that are judged only where their condition holds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from scouter.evaluate.engine.asking_task import Asking, AskingTask
from scouter.evaluate.engine.compiled_task import CompiledTask, Run
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.spans.tree import SpanTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The condition of one task, compiled."""

    holds: Run
    """The task that tells whether it holds."""
    spec: TaskSpec
    """Of the task that depends on it."""
    expected: JsonValue

    def kept_from(
        self, scope: JsonValue, spans: SpanTree | None, base: JsonValue
    ) -> EvalTaskResult | None:
        """Give the result of a task that is not judged; None where it is.

        What cannot be told is no reason to leave a task out: it is errored then, with the reason.
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
        return condition.kept_from(scope, spans, base) or run(scope, spans, base)

    return replace(compiled, run=run_where_it_holds, plain=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking(AskingTask):
    inner: AskingTask
    condition: Condition

    def ask(
        self, scope: JsonValue, record_uid: str, base: JsonValue, spans: SpanTree | None
    ) -> Asking:
        kept = self.condition.kept_from(scope, spans, base)
        if kept is not None:
            return kept, None
        return (yield from self.inner.ask(scope, record_uid, base, spans))

    def basis(self, scope: JsonValue, base: JsonValue) -> Sequence[JsonValue]:
        return self.inner.basis(scope, base)

    def fault(self, error: Exception) -> EvalTaskResult:
        return self.inner.fault(error)

    def run(self, scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        kept = self.condition.kept_from(scope, spans, base)
        return kept or self.inner.run(scope, spans, base)
