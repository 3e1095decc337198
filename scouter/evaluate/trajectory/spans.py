"""Trajectories from captured spans."""

from collections.abc import Iterable

from pydantic import JsonValue

from scouter.evaluate.trajectory.call import read_trajectory
from scouter.evaluate.trajectory.matching import steps_of
from scouter.model.genai.work import agent_work
from scouter.model.span import Span


def trajectory_from_spans(spans: Iterable[Span]) -> list[JsonValue]:
    """Read the calls that an agent made from the spans of its trace.

    A call that a model's message asks for and the span that executed it are one call.

    Args:
        spans: Of one trace, in any order.

    Returns:
        The calls as plain data, in the order in which they were made; one whose arguments nobody
        told has none. Calls that one message asked for, or that ran at the same time under one
        parent where no message did, stand in a list of their own, as a step.

    Raises:
        DataError: More than 10,000 calls.

    Cost: linear in the spans and the size of their messages, after sorting.
    """
    ordered = sorted(spans, key=lambda span: (span.start_ns, span.end_ns))
    calls = read_trajectory(agent_work(ordered).tool_calls, "the spans' calls")
    steps = [[calls[at].plain() for at in step] for step in steps_of(calls)]
    return [step[0] if len(step) == 1 else [*step] for step in steps]
