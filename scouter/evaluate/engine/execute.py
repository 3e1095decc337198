"""Run a plan on one record: a plain function of record and spans."""

import time
from typing import Final

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.context import plain_context
from scouter.evaluate.engine.plan import Plan
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results import RecordResult, record_outcome
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.task_result import EvalTaskResult, TaskSpec
from scouter.model.record import EvalRecord

_PASSED: Final = Outcome.PASSED
_ERRORED: Final = Outcome.ERRORED
_SKIPPED: Final = Outcome.SKIPPED
_clock = time.perf_counter_ns


def evaluate_record(plan: Plan, record: EvalRecord, spans: SpanTree | None = None) -> RecordResult:
    """Judge one record by all tasks of a plan.

    Deterministic and synchronous. A task that cannot be decided is errored and touches no other.
    A task whose gate did not pass is skipped, and so is everything behind it; a task that depends
    on an errored task is errored itself, whether it reads from it or not. All of them are in the
    result, in the plan's order.

    Args:
        plan: From `compile_plan`.
        record: Not changed. Its context is read by the rule of `to_json_value`; lists and objects
            in results are the record's own, not copies.
        spans: The spans of the record's trace (only those).
    """
    started = _clock()
    try:
        context = plain_context(record)
    except DataError as error:
        message = f"the record's context has no JSON form: {error}"
        tasks = tuple(
            EvalTaskResult(spec, _ERRORED, Reason.TYPE, task.expected_value, None, message)
            for spec, task in zip(plan.specs, plan.tasks, strict=True)
        )
    else:
        if plan.is_flat:
            tasks = tuple([run(context, spans, context) for run in plan.runs])
        else:
            tasks = _run_stages(plan, context, spans)
    return RecordResult(
        record.uid, record.record_id, record.session_id, record.trace_id, record_outcome(tasks),
        tasks, record.created_ns, _clock() - started,
    )  # fmt: skip


def _run_stages(
    plan: Plan, context: JsonValue, spans: SpanTree | None
) -> tuple[EvalTaskResult, ...]:
    results: dict[int, EvalTaskResult] = {}
    for at in plan.order:
        needs = [results[need] for need in plan.dependencies[at]]
        blocked = _blocked(plan.specs[at], needs, plan.tasks[at].expected_value) if needs else None
        if blocked is not None:
            results[at] = blocked
        elif needs:
            results[at] = plan.runs[at](_scope(context, needs), spans, context)
        else:
            results[at] = plan.runs[at](context, spans, context)
    return tuple(results[at] for at in range(len(plan.tasks)))


def _scope(context: JsonValue, needs: list[EvalTaskResult]) -> JsonValue:
    """The context and, under their ids, the actual values of the tasks that were named."""
    base = context if isinstance(context, dict) else {"context": context}
    return {**base, **{need.task_id: need.actual for need in needs}}


def _blocked(
    spec: TaskSpec, needs: list[EvalTaskResult], expected: JsonValue
) -> EvalTaskResult | None:
    """Say why a task cannot run, if it cannot. A closed gate counts before an error."""
    for need in needs:
        if need.outcome is _SKIPPED:
            text = f"skipped, as {need.task_id!r} before it was skipped by a gate"
            return EvalTaskResult(spec, _SKIPPED, Reason.GATE, expected, None, text)
        if need.condition and need.outcome is not _PASSED:
            text = f"skipped, as the gate {need.task_id!r} did not pass: {need.message}"
            return EvalTaskResult(spec, _SKIPPED, Reason.GATE, expected, None, text)
    for need in needs:
        if need.outcome is _ERRORED:
            text = f"the task {need.task_id!r} that it depends on errored: {need.message}"
            return EvalTaskResult(spec, _ERRORED, Reason.DEPENDENCY, expected, None, text)
    return None
