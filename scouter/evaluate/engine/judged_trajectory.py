"""Trajectory tasks with a judge: the calls of a trace or of a context, put to it with the tools."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.asking_task import Asking, AskingTask
from scouter.evaluate.engine.doubt import refuse_missing
from scouter.evaluate.engine.judge_task import JudgeTask, compile_judge
from scouter.evaluate.engine.trajectory import reference_of
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.responses.read import calls_of_spans
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.about import find_calls
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.trajectory import (
    CALLS,
    HISTORY,
    NO_HISTORY,
    NO_TOOLS,
    REFERENCE,
    TOOLS,
    TrajectoryTask,
    reads,
)
from scouter.evaluate.trajectory.call import Call, read_reference, read_trajectory
from scouter.model.agent_work import CallsToldBy, ToolCall
from scouter.model.genai.tool_definitions import tool_definitions

_Get: TypeAlias = Callable[[JsonValue], JsonValue]
_HISTORY: Final = Path(HISTORY)
_UNREPORTED: Final = "(not told: judge no parameter of this call)"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTrajectory(AskingTask):
    """Asks about the calls of a record once, with the question for records of its kind."""

    task: TrajectoryTask
    compares: JudgeTask | None
    """Asks about records with expected calls."""
    looks: JudgeTask | None
    """Asks about records without."""
    reference: _Get | None
    predicted: _Get | None
    """None reads the calls from spans."""
    tools: _Get

    def ask(
        self, scope: JsonValue, record_uid: str, base: JsonValue, spans: SpanTree | None
    ) -> Asking:
        """Ask about the calls until there is a score.

        Raises:
            TaskFault: There are no calls to judge, they may not be all, or there is no question
                about such a record; raised before any call.
        """
        expected = None if self.reference is None else _found(self.reference, scope)
        judge = self.looks if expected is None else self.compares
        if judge is None:
            raise TaskFault(Reason.MISSING_PATH, self._no_question(expected))
        fields = scope if isinstance(scope, dict) else {"context": scope}
        try:
            values = self._values(scope, base, spans, expected, judge.task.prompt)
        except TaskFault:
            raise
        except DataError as error:
            raise TaskFault(Reason.TYPE, str(error)) from error
        result, answer = yield from judge.ask({**fields, **values}, record_uid, base)
        if result.reason is None and expected is None and self.reference is not None:
            result = _noted(result)
        if self.predicted is None and spans is not None:
            result.span_ids = find_calls(spans)
        return result, answer

    def _no_question(self, expected: JsonValue) -> str:
        if expected is None:
            return (
                f"the record has no expected calls at {self.task.reference!r}, and the task no "
                "prompt_without_reference"
            )
        return "the record has expected calls, and the task no prompt that compares with them"

    def _values(
        self,
        scope: JsonValue,
        base: JsonValue,
        spans: SpanTree | None,
        expected: JsonValue,
        prompt: Prompt,
    ) -> dict[str, JsonValue]:
        """The meaning of the task's own variables."""
        if self.predicted is None:
            made = _shown_calls(
                _all_calls(spans, self.task.calls_told_by), with_results=expected is None
            )
        else:
            made = _shown(read_trajectory(self.predicted(base), "the calls"))
        values: dict[str, JsonValue] = {CALLS: list[JsonValue](made)}
        if expected is not None:
            wanted = _shown(read_reference(expected, "reference_trajectory"))
            values[REFERENCE] = list[JsonValue](wanted)
        if reads(prompt, TOOLS):
            values[TOOLS] = self._tools(scope, spans)
        if reads(prompt, HISTORY):
            values[HISTORY] = _found(_HISTORY.get, scope) or NO_HISTORY
        return values

    def _tools(self, scope: JsonValue, spans: SpanTree | None) -> JsonValue:
        """The agent's tools: the task's or the record's, else what spans tell."""
        found = _found(self.tools, scope)
        if not found and self.predicted is None and spans is not None:
            found = tool_definitions(spans.spans)
        return found or NO_TOOLS


def compile_judged(task: TrajectoryTask, stage: int, wire: JsonValue) -> JudgedTrajectory:
    """Prepare a trajectory task with a judge for many records.

    Args:
        task: With a prompt, or two.
        stage: Of the plan.
        wire: The parts of it that say what it looks at.

    Raises:
        ConfigError: A path, a template or a prompt can never work.
    """

    def judge_of(prompt: Prompt | None) -> JudgeTask | None:
        if prompt is None:
            return None
        judge_task = LLMJudgeTask(
            task.id,
            prompt,
            task.expected_value,
            "score",
            task.operator,
            condition=task.condition,
            max_retries=task.max_retries,
            scale=(0, 1),
            samples=task.samples,
            vote="median",
        )
        judge = compile_judge(judge_task, stage)
        return replace(judge, spec=replace(judge.spec, task_type=task.task_type, assertion=wire))

    compares, looks = judge_of(task.prompt), judge_of(task.prompt_without_reference)
    one = compares or looks
    if one is None:
        raise AssertionError("a task that asks nobody")
    tools = task.tool_schemas
    return JudgedTrajectory(
        spec=one.spec,
        task=task,
        compares=compares,
        looks=looks,
        reference=None if task.reference is None else reference_of(task),
        predicted=None if task.predicted is None else Path(task.predicted).get,
        tools=Path(tools).get if isinstance(tools, str) else lambda _: tools,
    )


def _noted(result: EvalTaskResult) -> EvalTaskResult:
    """Say that there was nothing to compare with: the path of the reference may be wrong."""
    return replace(result, given_message=f"{result.message}; the record has no expected calls")


def _found(get: _Get, scope: JsonValue) -> JsonValue:
    """The value at some place of a record; None where there is none."""
    try:
        return get(scope)
    except TaskFault as fault:
        if fault.reason is not Reason.MISSING_PATH:
            raise
        return None


def _all_calls(spans: SpanTree | None, by: CallsToldBy | None) -> Sequence[ToolCall]:
    """The calls of a trace.

    Raises:
        TaskFault: There are no spans of an agent, or there may be more than are here: nobody
            knows what a judge would say of those.
    """
    calls = calls_of_spans(spans)
    if spans is not None:
        refuse_missing(spans, by)
    return calls


def _shown_calls(calls: Sequence[ToolCall], *, with_results: bool) -> list[dict[str, JsonValue]]:
    """Show the calls of spans, with what came back where it is reported."""
    steps: dict[object, list[ToolCall]] = {}
    for at, call in enumerate(calls):
        steps.setdefault(("alone", at) if call.step is None else call.step, []).append(call)
    shown = _shown(read_trajectory(list(steps.values()), "the calls"))
    in_order = [call for step in steps.values() for call in step]
    for one, call in zip(shown, in_order, strict=True):
        if call.arguments is None:
            one["params"] = _UNREPORTED
        if with_results:
            one.update(_outcome(call))
    return shown


def _outcome(call: ToolCall) -> dict[str, JsonValue]:
    if call.error:
        return {"error": call.error}
    return {"result": call.result} if call.has_result else {}


def _shown(calls: Sequence[Call]) -> list[dict[str, JsonValue]]:
    return [{"step": call.step + 1, "name": call.name, "params": call.arguments} for call in calls]
