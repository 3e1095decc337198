"""Trajectories: the calls that an agent made, compared with those that were expected."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.evaluate.trajectory.comparison import (
        DiffLine,
        EmptyTrajectoryError,
        TrajectoryComparison,
        TrajectoryMetric,
        compare_trajectories,
    )
    from scouter.evaluate.trajectory.matching import trajectory_from_spans
    from scouter.evaluate.trajectory.rules import ArgumentRules, KeyRule, TrajectoryRules
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = (
    "ArgumentRules",
    "DiffLine",
    "EmptyTrajectoryError",
    "KeyRule",
    "TrajectoryComparison",
    "TrajectoryMetric",
    "TrajectoryRules",
    "compare_trajectories",
    "trajectory_from_spans",
)
