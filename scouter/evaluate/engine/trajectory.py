"""Trajectory tasks, compiled: the calls of a trace or of a context against a reference."""

from collections.abc import Callable
from typing import Final

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.calls_motion import CallsScore
from scouter.evaluate.engine.compiled_task import CompiledTask, Subject
from scouter.evaluate.engine.metric import Measured, compile_metric
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.responses.read import work_of_spans
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.evaluate.trajectory.call import Call, read_trajectory
from scouter.evaluate.trajectory.comparison import compare, uses_tool
from scouter.evaluate.trajectory.rules import TrajectoryRules

_TOLD_LINES: Final = 5
"""Calls that differ, in the message of a result."""
_ONLY_RISE: Final = frozenset({"in_order_match", "any_order_match", "recall", "single_tool_use"})
"""Metrics that more calls cannot lower."""

_Calls = tuple[Call, ...]
_Score = Callable[[_Calls, JsonValue], tuple[float, str]]
"""Function from calls and reference to the score, and the reason for it in words."""


def compile_trajectory(task: TrajectoryTask, subject: Subject) -> CompiledTask:
    """Turn a trajectory task into a function from record to result.

    Args:
        task: The task.
        subject: Fields that its results share.

    Raises:
        ConfigError: A path or a template that can never work.
    """
    reference = None if task.metric == "single_tool_use" else reference_of(task)
    predicted = None if task.predicted is None else Path(task.predicted)
    score = _scoring(task)

    def measure(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> Measured:
        given = _of_spans(spans) if predicted is None else predicted.get(base)
        expected = None if reference is None else reference(scope)
        try:
            calls = read_trajectory(given, "the calls", is_wire=task.rules.compat == "vertex")
            found, told = score(calls, expected)
        except TaskFault:
            raise
        except DataError as error:
            raise TaskFault(Reason.TYPE, str(error)) from error
        return Measured(score=found, told=told)

    compiled = compile_metric(subject, measure)
    if predicted is not None:
        return compiled
    moves = CallsScore(
        is_flag=task.metric not in ("precision", "recall"),
        only_rises=task.metric in _ONLY_RISE,
        minds_order=task.metric == "in_order_match",
        minds_arguments=task.metric != "single_tool_use" and _minds_arguments(task.rules),
    )
    return moves.doubt(compiled, task.operator, task.calls_told_by)


def _minds_arguments(rules: TrajectoryRules) -> bool:
    """Tell whether a call may agree no longer once it has more arguments."""
    return any(
        each.keys or each.mode not in ("ignore", "superset")
        for each in (rules.arguments, *rules.tools.values())
    )


def _of_spans(spans: SpanTree | None) -> list[object]:
    """The calls in the form of plain data, but for what plain data has no word for."""
    return list(work_of_spans(spans).tool_calls)


def reference_of(task: TrajectoryTask) -> Callable[[JsonValue], JsonValue]:
    """Prepare finding the expected calls of a record; raises `TaskFault` where there are none.

    Raises:
        ConfigError: A path that can never work.
    """
    given = task.reference
    return Path(given).get if isinstance(given, str) else lambda _: given


def _scoring(task: TrajectoryTask) -> _Score:
    rules, tool = task.rules, task.tool_name
    if tool is not None:
        return lambda calls, _: (uses_tool(calls, tool, rules) or 0.0, "")
    name = f"trajectory_{task.metric}"

    def score(calls: _Calls, reference: JsonValue) -> tuple[float, str]:
        found = compare(calls, reference, rules)
        value = found.score(name) or 0.0
        return value, "" if value == 1 else found.explain(_TOLD_LINES).replace("\n", "; ")

    return score
