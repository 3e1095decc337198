"""The six metrics of trajectories, as functions on plain data.

Each takes `predicted`, the calls that an agent made, and `reference`, those that were expected: a
list of `{"tool_name": str, "tool_input": dict}`, or its JSON text. `**options` are the fields of
`TrajectoryRules`. Two calls are the same if name and arguments are, as JSON; each call stands for
one other at most.

Source of the definitions: Google Cloud, Gen AI evaluation service, "Evaluate Gen AI agents".
"""

import math
from typing import Unpack

from scouter.evaluate.trajectory.comparison import (
    TrajectoryMetric,
    compare_trajectories,
    uses_tool,
)
from scouter.evaluate.trajectory.rules import Compat, Empty, TrajectoryOptions, rules_of


def trajectory_exact_match(
    predicted: object, reference: object, **options: Unpack[TrajectoryOptions]
) -> float:
    """Tell whether the calls are those that were expected, all of them, in their order.

    Returns:
        1.0 or 0.0; 1.0 for two empty trajectories. NaN for an empty one with `empty="skip"`.

    Raises:
        DataError: Not a trajectory, too many calls, or an empty one with `empty="error"`.
    """
    return _score(TrajectoryMetric.EXACT_MATCH, predicted, reference, options)


def trajectory_in_order_match(
    predicted: object, reference: object, **options: Unpack[TrajectoryOptions]
) -> float:
    """Tell whether all expected calls were made in their order; others may stand between them.

    Returns:
        1.0 or 0.0; 1.0 where nothing is expected. NaN for an empty one with `empty="skip"`.

    Raises:
        DataError: As `trajectory_exact_match`.
    """
    return _score(TrajectoryMetric.IN_ORDER_MATCH, predicted, reference, options)


def trajectory_any_order_match(
    predicted: object, reference: object, **options: Unpack[TrajectoryOptions]
) -> float:
    """Tell whether all expected calls were made, in any order, and perhaps others.

    Returns:
        1.0 or 0.0; 1.0 where nothing is expected. NaN for an empty one with `empty="skip"`.

    Raises:
        DataError: As `trajectory_exact_match`.
    """
    return _score(TrajectoryMetric.ANY_ORDER_MATCH, predicted, reference, options)


def trajectory_precision(
    predicted: object, reference: object, **options: Unpack[TrajectoryOptions]
) -> float:
    """Measure the part of the calls that were expected.

    Returns:
        Matched calls by calls made, in [0, 1]; with no call made, 1.0 if none was expected, else
        0.0. NaN for an empty one with `empty="skip"`.

    Raises:
        DataError: As `trajectory_exact_match`.
    """
    return _score(TrajectoryMetric.PRECISION, predicted, reference, options)


def trajectory_recall(
    predicted: object, reference: object, **options: Unpack[TrajectoryOptions]
) -> float:
    """Measure the part of the expected calls that were made.

    Returns:
        Matched calls by calls expected, in [0, 1]; 1.0 where nothing is expected. NaN for an
        empty one with `empty="skip"`.

    Raises:
        DataError: As `trajectory_exact_match`.
    """
    return _score(TrajectoryMetric.RECALL, predicted, reference, options)


def trajectory_single_tool_use(
    predicted: object, tool_name: str, *, empty: Empty = "score", compat: Compat = "sound"
) -> float:
    """Tell whether a tool was called; how often, when and with which arguments is of no matter.

    Args:
        predicted: The calls that the agent made.
        tool_name: The tool's name, as a whole.
        empty: As in `TrajectoryRules`.
        compat: As in `TrajectoryRules`.

    Returns:
        1.0 or 0.0. NaN for an empty trajectory with `empty="skip"`.

    Raises:
        DataError: Not a trajectory, too many calls, or an empty one with `empty="error"`.
    """
    options: TrajectoryOptions = {"compat": compat}
    if empty != "score":
        options["empty"] = empty
    return _number(uses_tool(predicted, tool_name, rules_of(options)))


def _score(
    metric: TrajectoryMetric, predicted: object, reference: object, options: TrajectoryOptions
) -> float:
    return _number(compare_trajectories(predicted, reference, **options).score(metric))


def _number(score: float | None) -> float:
    return math.nan if score is None else score
