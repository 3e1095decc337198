"""Results as the series take them: outcomes, and numbers on a scale on which less is worse.

A detector needs bounded outcomes. Scores have a scale. Durations, tokens and cost have none, but an
objective: within it nothing is lost, and twice as much counts half.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from scouter.drift.series.series import Agent, Kind
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.task_result import as_score
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.score import FEEDBACK, SCORE, ScoreTask
from scouter.evaluate.tasks.trace import TraceAssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask

if TYPE_CHECKING:
    from scouter.evaluate.tasks.task import Task

_AT_MOST: Final = frozenset({ComparisonOperator.LessThan, ComparisonOperator.LessThanOrEqual})
_AT_LEAST: Final = frozenset(
    {ComparisonOperator.GreaterThan, ComparisonOperator.GreaterThanOrEqual}
)
_MEASURED: Final = frozenset(
    {"TraceDuration", "SpanDuration", "SpanAggregation", "ModelTokens", "ModelCost"}
)
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
    is_alone: bool = False
    """The numbers count in place of passes: nothing says which of them pass."""

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


def waits(tasks: "Iterable[Task]") -> Mapping[tuple[str, str], int]:
    """Find how long series wait for scores from outside, in ns.

    Args:
        tasks: Of a profile.

    Returns:
        By task and type of the result.
    """
    return {
        (task.id, kind): int(task.waits_s(kind) * 1e9)
        for task in tasks
        if isinstance(task, ScoreTask)
        for kind in (SCORE, FEEDBACK)
    }


def _yardstick(task: "Task") -> Yardstick | None:
    bound = as_score(task.expected_value)
    if isinstance(task, ScoreTask):
        is_inside = bound is None or task.scale[0] < bound <= task.scale[1]
        if task.passed or not is_inside:
            return None
        is_falling = task.operator in _AT_MOST
        return Yardstick(*task.scale, is_falling=is_falling, is_alone=not task.has_rule)
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


RECORD: Final = ""
"""Stands for the whole record where a task is named."""


class Place(NamedTuple):
    """The place of a result in the order of completion."""

    seq: int
    ordinal: int


BEFORE_ALL: Final = Place(0, -1)


class Name(NamedTuple):
    """The name of a series inside its group."""

    task: str
    kind: Kind
    slice: str = ""


class Counted(NamedTuple):
    """One result in one series."""

    task: str
    kind: Kind
    outcome: float
    """In [0, 1]; 1 is best."""
    is_failed: bool
    """Counts among the ones that failed, or erred."""
    slice: str = ""
    """Part of the records; empty for all of them."""

    @property
    def name(self) -> "Name":
        """The series inside its group."""
        return Name(self.task, self.kind, self.slice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The first final result of one record, or of one session that is judged as a whole."""

    place: Place
    space: str
    profile_uid: str
    agent: Agent
    session: str
    """Empty where the result stands for itself."""
    at_ns: int
    created_ns: int
    """When the record was made, in ns since 1970; of a session its first one."""
    is_backfill: bool = False
    """It was judged long after its time: part of a reference, and never evidence."""
    evaluation_id: str
    outcomes: tuple[tuple[str, Outcome], ...]
    """By task; `RECORD` for the whole."""
    numbers: tuple[tuple[str, float], ...] = ()
    """Numbers beside decided outcomes, by task: scores, and what trace assertions measured."""
    yardsticks: Mapping[str, Yardstick] = field(default_factory=dict[str, Yardstick])
    """Measures of the tasks whose numbers count; the other tasks are in no series."""
    amounts: tuple[tuple[str, float | None], ...] = ()
    """Its cost and its duration, see `Limits`; None for one that is unknown."""
    traits: tuple[str, ...] = ()
    """Tags of the record, and tools, models and attributes that its spans name: `tool search`."""
    score_type: str = ""
    """Type of the result of a score from outside; empty for others."""
    waits: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """See `waits`."""

    @property
    def wait_ns(self) -> int | None:
        """Time after its creation at which a score is taken; None for what is no score."""
        if not self.score_type or not self.outcomes:
            return None
        return self.waits.get((self.outcomes[0][0], self.score_type), 0)

    @property
    def is_record(self) -> bool:
        """True if it is decided whether a whole record passed."""
        decided = (Outcome.PASSED, Outcome.FAILED)
        return any(task == RECORD and each in decided for task, each in self.outcomes)

    def counted(self, slices: Iterable[str] = ()) -> "Iterator[Counted]":
        """Each series that the result belongs to, with its outcome there.

        An error is no failure of the agent: it is in a series of its own, and a task that was
        skipped or awaits its judge is in none.

        Args:
            slices: Those that the whole record is in.
        """
        failed: set[str] = set()
        for task, outcome in self.outcomes:
            if outcome is Outcome.FAILED:
                failed.add(task)
            is_decided = outcome in (Outcome.PASSED, Outcome.FAILED)
            own = self.yardsticks.get(task)
            if is_decided and not (own is not None and own.is_alone):
                is_good = outcome is Outcome.PASSED
                yield Counted(task, Kind.PASS, float(is_good), not is_good)
                for each in slices if task == RECORD else ():
                    yield Counted(task, Kind.PASS, float(is_good), not is_good, each)
            if is_decided or outcome is Outcome.ERRORED:
                yield Counted(task, Kind.ERROR, float(is_decided), not is_decided)
        for task, number in self.numbers:
            yardstick = self.yardsticks.get(task)
            if yardstick is not None and not math.isnan(number):  # one would end all evidence
                yield Counted(task, Kind.SCORE, yardstick.outcome(number), task in failed)
