"""Both sides of a flip as people look at them: question, answer, calls and outcomes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from pydantic import JsonValue

from collector.comparing.comparison import FlippedRecord, FlippedScenario
from collector.comparing.side import Side
from collector.items.times import time_at
from collector.store.rows import EvaluationRow
from collector.store.store import Store
from collector.worker.stored_values import stored_value
from scouter.client.models.comparison import ComparedRecord, Look, LookedTask
from scouter.client.models.records import TaskTrajectory, ToolCall
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import DataError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.engine.trajectory import reference_of
from scouter.evaluate.outcome import Outcome, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.responses.read import work_of_spans
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import (
    AgentAssertion,
    AgentAssertionTask,
    ToolCalledAssertion,
    ToolCallSequenceAssertion,
)
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.evaluate.trajectory.call import Call, read_trajectory
from scouter.model.agent_work import ToolCall as MadeCall
from scouter.model.genai.work import agent_work
from scouter.model.span import Span

Messages: TypeAlias = Mapping[tuple[str, Outcome], str]
"""Messages of the tasks of a record, by task and outcome."""

_MESSAGE: Final = 400
_VALUE: Final = 4_000
"""Characters of a value; whoever wants more follows the link to the record or reads the file."""
_CALLS: Final = 200
_PASSED: Final = Outcome.PASSED


def look_at_records(
    store: Store, space: str, side: Side, flips: Sequence[FlippedRecord], *, is_after: bool
) -> list[Look]:
    """Look at one side of flipped records.

    Args:
        store: Has the contexts and spans of live records.
        space: Whose.
        side: Says whether the records are live.
        flips: The records.
        is_after: Of the side in question; else of the baseline.
    """
    records = [flip.after if is_after else flip.before for flip in flips]
    if side.run is not None:
        contexts = side.run.contexts
        return [_of_record(each, contexts.get(each.record_uid), None) for each in records]
    rows = {row.uid: row for row in store.records_of(space, {each.record_uid for each in records})}
    traces = store.spans_of(space, {each.trace_id for each in records if each.trace_id})
    stored = store.latest_evaluations({(space, each.record_uid) for each in records})
    return [
        _of_record(
            each,
            rows[each.record_uid].context if each.record_uid in rows else None,
            traces.get(each.trace_id or ""),
            _messages(stored.get((space, each.record_uid))),
        )
        for each in records
    ]


def _messages(stored: EvaluationRow | None) -> Messages:
    """Messages of a stored evaluation; a task that ended otherwise since has none."""
    tasks = () if stored is None else stored.tasks
    return {(task.task_id, task.outcome): task.message for task in tasks}


def look_at_attempt(run: ScenarioEvalResults, scenario_id: str, attempt: int) -> Look:
    """Look at one attempt of a scenario, with the tasks of the records that it left."""
    detail = run.get_scenario_detail(scenario_id, attempt)
    own = [
        LookedTask(task_id=each.task_id, outcome=each.outcome, message=each.message[:_MESSAGE])
        for each in detail.task_results
    ]
    names = {each.task_id for each in own}
    left = [task for task in _of_attempt(run, scenario_id, attempt) if task.task_id not in names]
    shown: dict[str, JsonValue] = {"asked": detail.initial_query}
    if len(detail.turns) > 1:
        shown["turns"] = [dict(turn) for turn in detail.turns]
    shown["answered"] = detail.response
    if detail.error:
        shown["error"] = detail.error_line
    return Look(
        uid="",
        trace_id=None,
        session_id="",
        created_at=None,
        outcome=detail.outcome,
        tasks=tuple(_sorted([*own, *map(_task, left)])),
        calls=_calls(detail.traces),
        shown={name: stored_value(value, _VALUE) for name, value in shown.items()},
    )


def _of_attempt(
    run: ScenarioEvalResults, scenario_id: str, attempt: int
) -> Iterable[EvalTaskResult]:
    for results in run.dataset_results.values():
        for row in results:
            if row.scenario_id == scenario_id and row.attempt == attempt:
                yield from row.record.tasks


def _of_record(
    record: RecordResult,
    context: JsonValue,
    spans: Sequence[Span] | None,
    messages: Messages | None = None,
) -> Look:
    """One record; `messages` are those of a live one, whose results have none."""
    tasks = map(_task, record.tasks) if messages is None else _with_messages(record.tasks, messages)
    return Look(
        **dict(record_place(record, is_live=messages is not None)),
        outcome=record.outcome,
        tasks=tuple(_sorted(tasks)),
        calls=_calls(spans or ()),
        shown={} if context is None else {"context": stored_value(context, _VALUE)},
    )


def record_place(record: RecordResult, *, is_live: bool) -> ComparedRecord:
    """Tell which record it is, and where it is if it is stored."""
    return ComparedRecord(
        uid=record.record_uid if is_live else "",
        trace_id=record.trace_id if is_live else None,
        session_id=record.session_id,
        created_at=time_at(record.created_ns),
    )


def _with_messages(tasks: Iterable[EvalTaskResult], messages: Messages) -> Iterator[LookedTask]:
    for task in tasks:
        message = messages.get((task.task_id, task.outcome), "")[:_MESSAGE]
        yield LookedTask(task_id=task.task_id, outcome=task.outcome, message=message)


def _task(task: EvalTaskResult) -> LookedTask:
    return LookedTask(task_id=task.task_id, outcome=task.outcome, message=task.message[:_MESSAGE])


def _sorted(tasks: Iterable[LookedTask]) -> list[LookedTask]:
    """Tasks that did not pass come first."""
    return sorted(tasks, key=lambda each: each.outcome is _PASSED)


def _calls(spans: Sequence[Span]) -> tuple[ToolCall, ...] | None:
    if not spans:
        return None
    ordered = sorted(spans, key=lambda span: (span.start_ns, span.end_ns))
    by_id = {span.span_id: span for span in ordered}
    return tuple(_call(call, by_id) for call in agent_work(ordered).tool_calls[:_CALLS])


def _call(call: MadeCall, spans: Mapping[str, Span]) -> ToolCall:
    span = spans[call.span_ids[0]] if call.is_executed else None
    return ToolCall(
        name=call.name,
        arguments=stored_value(call.arguments, _VALUE),
        result=stored_value(call.result, _VALUE),
        error=call.error[:_MESSAGE],
        duration_ms=None if span is None else max(0, span.end_ns - span.start_ns) / 1e6,
    )


def looks_of(
    store: Store,
    space: str,
    sides: tuple[Side, Side],
    flips: Sequence[FlippedRecord | FlippedScenario],
) -> list[tuple[Look, Look]]:
    """Look at both sides of flips, in their order.

    Args:
        store: Has the contexts and spans of live records.
        space: Whose.
        sides: The baseline and the side in question.
        flips: Of records, or of scenarios of two runs.
    """
    records = [flip for flip in flips if isinstance(flip, FlippedRecord)]
    found = zip(
        look_at_records(store, space, sides[0], records, is_after=False),
        look_at_records(store, space, sides[1], records, is_after=True),
        strict=True,
    )
    scenarios = [flip for flip in flips if isinstance(flip, FlippedScenario)]
    before, after = (side.run for side in sides)
    if before is None or after is None:
        return list(found)
    return [
        *found,
        *(
            (
                look_at_attempt(before, flip.name, flip.before),
                look_at_attempt(after, flip.name, flip.after),
            )
            for flip in scenarios
        ),
    ]


def trajectories_of(
    profile: AgentEvalProfile, context: JsonValue, spans: Sequence[Span]
) -> list[TaskTrajectory]:
    """Read the trajectories of a record's tasks; of tasks whose calls cannot be read, none.

    Args:
        profile: The profile that evaluated the record.
        context: Of the record.
        spans: Of its trace.
    """
    tree = SpanTree(spans)
    found: list[TaskTrajectory] = []
    for task_id, expected, given in _wanted(profile, context, tree):
        try:
            actual = read_trajectory(given, "the calls")
        except DataError:
            continue  # the task's own result says so
        wanted, made = (tuple(map(_bare, calls)) for calls in (expected, actual))
        found.append(TaskTrajectory(task_id=task_id, expected=wanted, actual=made))
    return found


def _bare(call: Call) -> ToolCall:
    """A call without what became of it; of a sequence of names any arguments will do."""
    return ToolCall(
        name=call.name, arguments=call.arguments, result=None, error="", duration_ms=None
    )


def _wanted(
    profile: AgentEvalProfile, context: JsonValue, tree: SpanTree
) -> Iterator[tuple[str, Sequence[Call], object]]:
    """Of each task that has expected calls: its id, these, and where the actual ones are."""
    for task in profile.tasks:
        try:
            if isinstance(task, TrajectoryTask) and task.scope == "record" and not task.tool_name:
                expected = read_trajectory(reference_of(task)(context), "the reference")
                given = _made(tree) if task.predicted is None else Path(task.predicted).get(context)
                yield task.id, expected, given
            elif (
                isinstance(task, AgentAssertionTask)
                and task.source == "spans"
                and (names := _names(task.assertion))
            ):
                calls = [Call(name, None, at) for at, name in enumerate(names)]
                yield task.id, calls, _made(tree)
        except (TaskFault, DataError):
            continue  # no reference, or no spans: the task's own result says so


def _names(assertion: AgentAssertion) -> Sequence[str]:
    """The tools that an assertion expects; none of one that expects something else."""
    if isinstance(assertion, ToolCallSequenceAssertion):
        return assertion.names
    return [assertion.name] if isinstance(assertion, ToolCalledAssertion) else []


def _made(tree: SpanTree) -> list[object]:
    return list(work_of_spans(tree).tool_calls)
