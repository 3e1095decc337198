"""The calls that tasks of a record expect, and those that were made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import DataError
from scouter.evaluate.engine.trajectory import reference_of
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.responses.read import work_of_spans
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import (
    AgentAssertion,
    AgentAssertionTask,
    ToolCalledAssertion,
    ToolCallSequenceAssertion,
)
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.evaluate.trajectory.call import Call, read_trajectory
from scouter.model.span import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One task's calls."""

    task_id: str
    expected: Sequence[Call]
    """Expected calls; a sequence of names has None for arguments, which any meet."""
    actual: Sequence[Call]


def trajectories_of(
    profile: AgentEvalProfile, context: JsonValue, spans: Sequence[Span]
) -> list[Trajectory]:
    """Read the trajectories of a record's tasks; of tasks whose calls cannot be read, none.

    Args:
        profile: The profile that evaluated the record.
        context: Of the record.
        spans: Of its trace.
    """
    tree = SpanTree(spans)
    found: list[Trajectory] = []
    for task_id, expected, given in _wanted(profile, context, tree):
        try:
            actual = read_trajectory(given, "the calls")
        except DataError:
            continue  # the task's own result says so
        found.append(Trajectory(task_id=task_id, expected=expected, actual=actual))
    return found


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
