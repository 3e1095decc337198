"""Run a plan on one record, or assertions without one: plain functions of record and spans."""

import math
import time
from collections.abc import Collection, Generator, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.evaluate.engine.asking_task import Asking, AskingTask, ResultAndAnswer
from scouter.evaluate.engine.plan import Plan, compile_plan
from scouter.evaluate.judge.ask import Reply, together
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.responses.parse import shared_responses
from scouter.evaluate.results.record_result import (
    MissingKeyError,
    RecordResult,
    record_outcome,
)
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertionTask
from scouter.model.json_value import MAX_DEPTH, plain_text, to_json_value
from scouter.model.record import EvalRecord
from scouter.model.span import Span

_INT_LIMIT: Final = 2**63
"""Integers beyond it are left to `to_json_value`, which knows how large is too large."""
_MOST: Final = 2_500_000
"""Values of one context that are looked at: of the largest record that a collector takes. Beyond it
a context is copied, which has a limit of its own for parts that stand in many places."""


def plain_context(record: EvalRecord) -> JsonValue:
    """Give the context by the rule of `to_json_value`.

    A frozen record, and one whose context is plain JSON already, is read in place.

    Raises:
        DataError: Something in it has no JSON form; names the place.
    """
    context = record.context
    if record.is_frozen or _is_plain(context, MAX_DEPTH, [_MOST]):
        return context
    return to_json_value(context)


def _is_plain(value: object, depth: int, left: list[int]) -> bool:
    """Tell whether a value is what `to_json_value` would make of it.

    Exact types count: a subclass of dict or str may behave in its own way.

    Args:
        value: The value.
        depth: Levels that it may have.
        left: Number of values that may still be looked at; a list of one, as it goes down.
    """
    kind = type(value)
    if kind is str:
        return plain_text(cast(str, value)) is value
    if kind is int:
        return -_INT_LIMIT < cast(int, value) < _INT_LIMIT
    if kind is float:
        return math.isfinite(cast(float, value))
    if kind is not dict and kind is not list:
        return kind is bool or value is None
    items = cast("Collection[object]", value)
    left[0] -= len(items)
    if left[0] < 0 or depth == 0:
        return False
    if kind is dict:
        fields = cast("dict[object, object]", value)
        if not all(type(key) is str and plain_text(key) is key for key in fields):
            return False
        items = fields.values()
    return all(_is_plain(item, depth - 1, left) for item in items)


_PASSED: Final = Outcome.PASSED
_ERRORED: Final = Outcome.ERRORED
_SKIPPED: Final = Outcome.SKIPPED
_PENDING: Final = Outcome.PENDING
_LEFT_OUT: Final = "skipped, as "
_clock = time.perf_counter_ns


@dataclass(frozen=True, slots=True)
class Found:
    """Results found so far for a record's tasks, by task index; a walk adds to them."""

    results: dict[int, EvalTaskResult] = field(default_factory=dict[int, EvalTaskResult])
    answers: dict[int, JsonValue] = field(default_factory=dict[int, JsonValue])
    """Whole answers of judge tasks, which dependent tasks read."""

    def scope_of(self, context: JsonValue, needs: Sequence[int]) -> JsonValue:
        """The context and, under their ids, what the named tasks found.

        That is the value that was compared; for a judge task, the judge's whole answer.
        """
        base = context if isinstance(context, dict) else {"context": context}
        found = {
            self.results[need].task_id: self.answers.get(need, self.results[need].actual)
            for need in needs
        }
        return {**base, **found}


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """Question that a walk waits for: a judge task and its request."""

    task: AskingTask
    request: JudgeRequest


Walk: TypeAlias = Generator[Sequence[JudgeQuestion], Sequence[Reply], tuple[EvalTaskResult, ...]]


def evaluate_record(plan: Plan, record: EvalRecord, spans: SpanTree | None = None) -> RecordResult:
    """Judge one record by all tasks of a plan.

    Deterministic and synchronous. A task that cannot be decided is errored and touches no other.
    A task whose gate did not pass is skipped, and so is everything behind it; a task that depends
    on an errored task is errored itself, whether it reads from it or not. All of them are in the
    result, in the plan's order. Judge tasks are errored, as nobody is there to answer; see
    `scouter.evaluate.engine.judged`.

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
        tasks = unreadable(plan, error)
    else:
        if plan.shares_responses:
            with shared_responses():
                tasks = _run_all(plan, context, spans)
        else:
            tasks = _run_all(plan, context, spans)
    return RecordResult(
        record.uid, record.record_id, record.session_id, record.trace_id, record_outcome(tasks),
        tasks, record.created_ns, _clock() - started,
    )  # fmt: skip


def _run_all(plan: Plan, context: JsonValue, spans: SpanTree | None) -> tuple[EvalTaskResult, ...]:
    if plan.is_flat:
        return tuple([run(context, spans, context) for run in plan.runs])
    return _finish(walk(plan, context, spans))


def unreadable(plan: Plan, error: DataError) -> tuple[EvalTaskResult, ...]:
    """The results of a record whose context is none."""
    message = f"the record's context has no JSON form: {error}"
    return tuple(
        EvalTaskResult(spec, _ERRORED, Reason.TYPE, task.expected_value, None, message)
        for spec, task in zip(plan.specs, plan.tasks, strict=True)
    )


def walk(
    plan: Plan,
    context: JsonValue,
    spans: SpanTree | None,
    asking_for: str | None = None,
    found: Found | None = None,
) -> Walk:
    """Go through the stages of a plan; stop where a judge has to be called.

    In every stage the deterministic tasks run first. The walk yields the questions of the stage,
    and takes the replies, in the same order.

    Args:
        plan: From `compile_plan`.
        context: The record's, as plain JSON.
        spans: The spans of the record's trace.
        asking_for: The record's uid, for the questions. None asks nothing: judge tasks are then
            errored, and the walk never stops.
        found: Known results, which are not computed again; the other ones are added to it.

    Returns:
        One result per task, in the plan's order.
    """
    found = Found() if found is None else found
    results, answers = found.results, found.answers
    judges: Mapping[int, AskingTask] = {} if asking_for is None else plan.judges
    for step in plan.steps:
        asking: dict[int, Asking] = {}
        for at in step:
            if at in results:
                continue
            needs = plan.dependencies[at]
            scope = context
            if needs:
                blocked = blocked_by(plan, at, results, spans)
                if blocked is not None:
                    results[at] = blocked
                    continue
                scope = found.scope_of(context, needs)
            if at not in judges:
                results[at] = plan.runs[at](scope, spans, context)
            elif judges[at].is_sampled(asking_for or ""):
                asking[at] = judges[at].ask(scope, asking_for or "", context, spans)
            else:
                results[at] = judges[at].not_sampled()
        if asking:
            for at, (result, answer) in (yield from _ask(judges, asking)).items():
                results[at], answers[at] = result, answer
    return tuple(results[at] for at in range(len(plan.tasks)))


def _ask(
    judges: Mapping[int, AskingTask], asking: Mapping[int, Asking]
) -> Generator[Sequence[JudgeQuestion], Sequence[Reply], dict[int, ResultAndAnswer]]:
    """Let the judge tasks of one stage ask together, until each has its outcome."""
    steps = together(asking, lambda at, error: (judges[at].fault(error), None))
    try:
        requests = next(steps)
        while True:
            requests = steps.send(
                (yield [JudgeQuestion(judges[at], request) for at, request in requests])
            )
    except StopIteration as end:
        return cast("dict[int, ResultAndAnswer]", end.value)


def _finish(steps: Walk) -> tuple[EvalTaskResult, ...]:
    """Walk to the end where no judge is called."""
    try:
        next(steps)
    except StopIteration as end:
        return cast("tuple[EvalTaskResult, ...]", end.value)
    raise AssertionError("a walk that asks nothing has stopped")


def blocked_by(
    plan: Plan, at: int, results: Mapping[int, EvalTaskResult], spans: SpanTree | None
) -> EvalTaskResult | None:
    """Say why a task cannot run, if it cannot.

    A closed gate counts before what is pending, that before another reason to skip, and that before
    an error: so nothing that is decided would be decided otherwise by what is pending. The last
    reason is a value that the task reads and that missing evidence may change.

    Args:
        plan: From `compile_plan`.
        at: Index of the task.
        results: Those of the tasks that it depends on, by index.
        spans: The spans of the record's trace.
    """
    spec, expected = plan.specs[at], plan.tasks[at].expected_value
    before = [results[need] for need in plan.dependencies[at]]
    if (blocked := _blocked_by(spec, before, expected)) is not None:
        return blocked
    for need, open_value in plan.doubted_needs[at]:
        if (fault := open_value(results[need], spans)) is not None:
            text = (
                f"the value of {results[need].task_id!r}, which it reads, may be another: {fault}"
            )
            return EvalTaskResult(spec, _ERRORED, fault.reason, expected, None, text)
    return None


def _blocked_by(
    spec: TaskSpec, needs: Sequence[EvalTaskResult], expected: JsonValue
) -> EvalTaskResult | None:
    pending: EvalTaskResult | None = None
    left_out: EvalTaskResult | None = None
    for need in needs:
        if need.outcome is _PENDING:
            pending = pending or need
            continue
        if need.outcome is _SKIPPED:
            if need.reason is not Reason.GATE:
                left_out = left_out or need
                continue
            text = f"skipped, as {need.task_id!r} before it was skipped by a gate"
            return EvalTaskResult(spec, _SKIPPED, Reason.GATE, expected, None, text)
        if need.condition and need.outcome is not _PASSED:
            text = f"skipped, as the gate {need.task_id!r} did not pass: {need.message}"
            return EvalTaskResult(spec, _SKIPPED, Reason.GATE, expected, None, text)
    if pending is not None:
        text = f"the task {pending.task_id!r} before it is pending"
        return EvalTaskResult(spec, _PENDING, None, expected, None, text)
    if left_out is not None:
        text = left_out.message
        if not text.startswith(_LEFT_OUT):
            text = f"{_LEFT_OUT}{left_out.task_id!r} before it was: {text}"
        return EvalTaskResult(spec, _SKIPPED, left_out.reason, expected, None, text)
    for need in needs:
        if need.outcome is _ERRORED:
            # In a chain the first fault is reported by all, not each with all those before it.
            text = need.message
            if need.reason is not Reason.DEPENDENCY:
                text = f"the task {need.task_id!r} that it depends on errored: {text}"
            return EvalTaskResult(spec, _ERRORED, Reason.DEPENDENCY, expected, None, text)
    return None


class AssertionResults:
    """Results by task id.

    Args:
        results: One per task.
    """

    def __init__(self, results: Iterable[EvalTaskResult]) -> None:
        self.results: Mapping[str, EvalTaskResult] = {r.task_id: r for r in results}

    def __getitem__(self, task_id: str) -> EvalTaskResult:
        result = self.results.get(task_id.lower())
        if result is None:
            known = ", ".join(map(repr, self.results))
            raise MissingKeyError(f"Key not found: {task_id}; the tasks are {known}")
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def items(self) -> ItemsView[str, EvalTaskResult]:
        """Pairs of task id and result."""
        return self.results.items()


def execute_trace_assertion_tasks(
    tasks: Iterable[TraceAssertionTask], spans: Iterable[Span]
) -> AssertionResults:
    """Run trace assertions on spans.

    Raises:
        ConfigError: The tasks do not form a plan; names the task.
    """
    return _run(tasks, EvalRecord(), SpanTree(spans))


def execute_agent_assertion_tasks(
    tasks: Iterable[AgentAssertionTask], context: object
) -> AssertionResults:
    """Run agent assertions on a response, or on a context that holds one under `response`.

    Raises:
        ConfigError: The tasks do not form a plan; names the task.
    """
    return _run(tasks, EvalRecord(context), None)


def _run(tasks: Iterable[Task], record: EvalRecord, spans: SpanTree | None) -> AssertionResults:
    plan = compile_plan(tasks)
    if plan.session is not None:
        raise ConfigError(
            f"task {plan.session.tasks[0].id!r} has the scope session; there is no session here, "
            "leave the scope out"
        )
    return AssertionResults(evaluate_record(plan, record, spans).tasks)
