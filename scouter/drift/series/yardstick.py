"""Yardsticks: numbers beside an outcome, brought to a scale from 0 to 1 on which less is worse.

A detector needs bounded outcomes. Scores have a scale. Durations, tokens and cost have none, but an
objective: within it nothing is lost, and twice as much counts half.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.results.score import as_score
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.trace import TraceAssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask

if TYPE_CHECKING:
    from scouter.evaluate.tasks.task import Task

_AT_MOST: Final = frozenset({ComparisonOperator.LessThan, ComparisonOperator.LessThanOrEqual})
_AT_LEAST: Final = frozenset(
    {ComparisonOperator.GreaterThan, ComparisonOperator.GreaterThanOrEqual}
)
_MEASURED: Final = frozenset({"TraceDuration", "SpanDuration", "SpanAggregation"})
"""Kinds of assertions whose number is a duration, or a sum such as of tokens or cost."""
_ALL_OR_NOTHING: Final = frozenset(
    {"exact_match", "in_order_match", "any_order_match", "single_tool_use"}
)
"""Metrics whose score is the outcome again."""


class Yardstick(NamedTuple):
    """A scale, or an objective.

    Args:
        least: Lower end of the scale; of an objective 0.
        most: Upper end, or the objective; above `least`.
        is_objective: More than `most` is bad, and less is as good as `most`.
        is_falling: Less is better, on a scale.
    """

    least: float
    most: float
    is_objective: bool = False
    is_falling: bool = False

    def outcome(self, value: float) -> float:
        """Bring a number to the scale.

        Args:
            value: Any; beyond an end of the scale it counts as that end.

        Returns:
            In [0, 1]; 1 is best.
        """
        if self.is_objective:
            return 1.0 if value <= self.most else self.most / value
        share = min(1.0, max(0.0, (value - self.least) / (self.most - self.least)))
        return 1.0 - share if self.is_falling else share


def yardsticks(tasks: "Iterable[Task]") -> Mapping[str, Yardstick]:
    """Find the tasks whose numbers are watched.

    Args:
        tasks: Of a profile.

    Returns:
        By task: of judges with a `scale`, or that compare a score with a bound in (0, 1]; of
        trajectories whose score is more than all or nothing; and of trace assertions with an
        upper bound on a duration or an aggregate, which is its objective.
    """
    found = ((task.id, _yardstick(task)) for task in tasks)
    return {name: each for name, each in found if each is not None}


def _yardstick(task: "Task") -> Yardstick | None:
    bound = as_score(task.expected_value)
    if isinstance(task, TrajectoryTask):
        is_graded = task.metric is None or task.metric not in _ALL_OR_NOTHING
        return Yardstick(0.0, 1.0) if is_graded else None
    if isinstance(task, LLMJudgeTask):
        if task.scale is not None:
            return Yardstick(*task.scale, is_falling=task.operator in _AT_MOST)
        is_unit = bound is not None and 0 < bound <= 1
        if is_unit and task.operator in _AT_LEAST | _AT_MOST:
            return Yardstick(0.0, 1.0, is_falling=task.operator in _AT_MOST)
        return None
    is_measured = isinstance(task, TraceAssertionTask) and task.assertion.kind in _MEASURED
    if is_measured and bound is not None and bound > 0 and task.operator in _AT_MOST:
        return Yardstick(0.0, bound, is_objective=True)
    return None
