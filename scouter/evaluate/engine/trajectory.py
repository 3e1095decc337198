"""Tasks on an agent's calls, compiled: trajectories and expected tools."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.compiled_task import (
    CompiledTask,
    Measured,
    Run,
    Subject,
    compile_metric,
)
from scouter.evaluate.engine.doubt import (
    Motion,
    could_turn,
    doubted,
    doubting_motion,
    on_moving_spans,
)
from scouter.evaluate.engine.more_spans import Fixed, Numbers, Reach
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.responses.read import calls_of_spans, tells_arguments
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.about import find_calls
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.function import ReliabilityTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.evaluate.trajectory.call import Call, read_trajectory
from scouter.evaluate.trajectory.comparison import compare, uses_tool
from scouter.evaluate.trajectory.rules import ArgumentRules, TrajectoryRules
from scouter.model.agent_work import CallsToldBy, ToolCall, why_unreported

_ANY: Final = Numbers(low=0.0, high=1.0)
_EITHER: Final = Numbers(low=0, high=1, is_whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsScore:
    """Properties of a score from 0 to 1 that is computed from the tool calls of a trace."""

    is_flag: bool
    """True if the score is 0 or 1."""
    only_rises: bool
    """More calls cannot lower it."""
    minds_order: bool
    """More calls cannot turn it, but their order can."""
    minds_arguments: bool
    """A further argument of a known call can lower it."""

    def doubt(
        self, compiled: CompiledTask, operator: ComparisonOperator, by: CallsToldBy | None
    ) -> CompiledTask:
        """Let results name the spans of the calls, and be errored where more could turn them.

        Args:
            compiled: The task, which knows nothing of missing spans.
            operator: Operator of the task.
            by: Source that tells of the calls, as a person says.
        """
        named = on_moving_spans(compiled, operator, self._motion(), find_calls)
        return doubting_motion(
            named,
            operator,
            self._risen,
            lambda spans, _: why_unreported(spans.agent_work, by) if spans else "",
        )

    def _motion(self) -> Motion:
        """Say which values the score can still take while spans, or parts of spans, are missing."""
        free = _EITHER if self.is_flag else _ANY

        def by_spans(tree: SpanTree, value: JsonValue) -> Reach:
            # The execution of a call that only a message tells of may come, and tell otherwise.
            # An executed call may gain arguments from its message, or from a span inside of it.
            is_open = self.minds_arguments or not all(
                call.is_executed for call in tree.agent_work.tool_calls
            )
            # A message that comes may say that calls which overlap were requested in turn.
            is_loose = self.minds_order and (tree.has_loose_order or tree.agent_work.has_overlaps)
            return free if is_open or is_loose else self._risen(tree, value)

        return Motion(
            by_spans=by_spans,
            by_attributes=lambda _, __: free,
            by_cut=Fixed.ANYTHING,
            reads=lambda _: True,
        )

    def _risen(self, _: SpanTree, value: JsonValue) -> Reach:
        """Range of the score if the trace has more calls than are known."""
        floor = value if isinstance(value, int | float) and self.only_rises else 0.0
        return Numbers(low=floor, high=1.0, is_whole=self.is_flag)


_SHOWN_LINES: Final = 5
"""Calls that differ, in the message of a result."""
_ONLY_RISE: Final = frozenset({"in_order_match", "any_order_match", "recall", "single_tool_use"})
"""Metrics that more calls cannot lower."""

_Calls = tuple[Call, ...]
_Score = Callable[[_Calls, JsonValue], tuple[float, str]]
"""Function from calls and reference to the score, and the reason for it in words."""


def compile_trajectory(task: TrajectoryTask, subject: Subject) -> CompiledTask:
    """Turn a trajectory task into a function from record to result.

    Raises:
        ConfigError: A path or a template that can never work.
    """
    reference = None if task.metric == "single_tool_use" else reference_of(task)
    predicted = None if task.predicted is None else Path(task.predicted)
    score = _scoring(task, task.rules)

    def measure(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> Measured:
        # The calls in the form of plain data, but for what plain data has no word for.
        given = list(calls_of_spans(spans)) if predicted is None else predicted.get(base)
        expected = None if reference is None else reference(scope)
        try:
            calls = read_trajectory(given, "the calls", is_wire=task.rules.compat == "vertex")
            found, reported = score(calls, expected)
        except TaskFault:
            raise
        except DataError as error:
            raise TaskFault(Reason.TYPE, str(error)) from error
        return Measured(score=found, detail=reported)

    compiled = compile_metric(subject, measure)
    if predicted is not None:
        return compiled
    moves = CallsScore(
        is_flag=task.metric not in ("precision", "recall"),
        only_rises=task.metric in _ONLY_RISE,
        minds_order=task.metric == "in_order_match",
        minds_arguments=reference is not None and _minds_arguments(task.rules),
    )
    if reference is not None:
        compiled = _doubting_arguments(compiled, task, reference, moves.is_flag)
    return moves.doubt(compiled, task.operator, task.calls_told_by)


def _doubting_arguments(
    compiled: CompiledTask,
    task: TrajectoryTask,
    reference: Callable[[JsonValue], JsonValue],
    is_flag: bool,
) -> CompiledTask:
    """Let a task be errored where arguments that nobody tells could turn it.

    The score is at most that without a look at the arguments of the tools whose calls do not tell
    theirs. A call that tells none agrees with one that expects none.
    """
    run = compiled.run

    def run_doubting(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        result = run(scope, spans, base)
        if result.reason is not None or not spans:
            return result
        calls = spans.agent_work.tool_calls
        missing = [call for call in calls if not tells_arguments(call)]
        low = result.score
        if not missing or low is None:
            return result
        high = _most(task, missing, calls, reference(scope))
        if any(task.rules.of(call.name).mode == "subset" for call in missing):
            low = 0.0
        if could_turn(Numbers(low=low, high=high, is_whole=is_flag), task.operator, result):
            why = (
                f"is {low:g} as far as is reported; the arguments of {len(missing)} of {len(calls)}"
            )
            why += f" calls are not reported, among them one of the tool {missing[0].name!r}"
            return doubted(result, Reason.NOT_TOLD, why)
        return result

    return CompiledTask(cast(Run, run_doubting), compiled.spec, compiled.open_value)


def _most(
    task: TrajectoryTask,
    unreported: Sequence[ToolCall],
    calls: Sequence[ToolCall],
    expected: JsonValue,
) -> float:
    """The score if the arguments that are not reported are the expected ones."""
    free = {call.name: ArgumentRules(mode="ignore") for call in unreported}
    rules = task.rules.model_copy(update={"tools": {**task.rules.tools, **free}})
    made = read_trajectory(list(calls), is_wire=rules.compat == "vertex")
    return _scoring(task, rules)(made, expected)[0]


def _minds_arguments(rules: TrajectoryRules) -> bool:
    """Tell whether a call may agree no longer once it has more arguments."""
    return any(
        each.keys or each.mode not in ("ignore", "superset")
        for each in (rules.arguments, *rules.tools.values())
    )


def reference_of(task: TrajectoryTask) -> Callable[[JsonValue], JsonValue]:
    """Prepare finding the expected calls of a record; raises `TaskFault` where there are none.

    Raises:
        ConfigError: A path that can never work.
    """
    given = task.reference
    return Path(given).get if isinstance(given, str) else lambda _: given


def _scoring(task: TrajectoryTask, rules: TrajectoryRules) -> _Score:
    tool = task.tool_name
    if tool is not None:
        return lambda calls, _: (uses_tool(calls, tool, rules) or 0.0, "")
    name = f"trajectory_{task.metric}"

    def score(calls: _Calls, reference: JsonValue) -> tuple[float, str]:
        found = compare(calls, reference, rules)
        value = found.score(name) or 0.0
        return value, "" if value == 1 else found.explain(_SHOWN_LINES).replace("\n", "; ")

    return score


def compile_reliability(task: ReliabilityTask, subject: Subject) -> CompiledTask:
    """Turn a reliability task into a function from record to result.

    Raises:
        ConfigError: A path or a template that can never work.
    """
    from scouter.evaluate.accuracy.reliability import ReliabilityEvaluator  # few need it

    evaluator = ReliabilityEvaluator(task.expected_tool_calls, task.order_matters, task.exact_match)
    path = None if task.predicted is None else Path(task.predicted)

    def measure(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> Measured:
        if path is None:
            names = [call.name for call in calls_of_spans(spans)]
        else:
            names = _names_at(path, base)
        found = evaluator.check(names)
        return Measured(score=float(found.passed), detail=found.summary)

    compiled = compile_metric(subject, measure)
    if path is not None:
        return compiled
    moves = CallsScore(
        is_flag=True,
        only_rises=not task.exact_match,
        minds_order=task.order_matters,
        minds_arguments=False,
    )
    return moves.doubt(compiled, task.operator, task.calls_told_by)


def _names_at(path: Path, base: JsonValue) -> list[str]:
    try:
        return [call.name for call in read_trajectory(path.get(base), "the calls")]
    except TaskFault:
        raise
    except DataError as error:
        raise TaskFault(Reason.TYPE, str(error)) from error
