"""What a comparison says of one task, and the rules that it is judged by."""

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from scouter.evaluate.intervals import Interval

ALL_TASKS: Final = "(all tasks)"
"""`task_id` of the row that sums an alias up; no task has such an id."""

WHOLE_SCENARIOS: Final = "(scenario passes)"
"""`task_id` of the row that counts whole scenarios."""


class Verdict(StrEnum):
    """What two runs say together; exactly one of four."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    NOT_ENOUGH_DATA = "not enough data"


class TaskVerdict(BaseModel):
    """One task, or one sum over tasks, in both runs: counts, difference and what to make of it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    alias: str | None
    """None for the scenarios' own tasks."""
    task_id: str
    """The task's, or `ALL_TASKS`, or `WHOLE_SCENARIOS`."""
    baseline_passed: int
    baseline_count: int
    """Results of the baseline that belong into a rate: judged, or kept from it by a gate."""
    comparison_passed: int
    comparison_count: int
    baseline_pass_rate: float
    comparison_pass_rate: float
    baseline_interval: Interval
    """Wilson's, 95 %."""
    comparison_interval: Interval
    pairs: int
    """Results of both runs that belong together; what the new run lacks counts as not passed."""
    clusters: int
    """Conversations that the pairs come from."""
    fell: int
    """Pairs that passed in the baseline and do not now."""
    rose: int
    """Pairs the other way round."""
    missing: int = 0
    """Pairs whose result the new run lacks."""
    difference: float
    """New rate minus old rate; over the pairs where there are any."""
    interval: Interval
    """Of the difference, 95 %."""
    method: str
    """Test and interval, in words."""
    p_value: float | None
    """Two-sided; None where nothing can be tested."""
    adjusted_p: float | None
    """After Holm's correction over all tasks of the comparison; for a sum over all sums."""
    smallest_difference: float | None
    """Smallest fall that this run would have reported with a power of 0.8; None if it could have
    missed any."""
    power: float
    """Chance that this run reports a fall as large as the threshold."""
    verdict: Verdict
    reason: str
    """The verdict in words."""

    @property
    def is_sum(self) -> bool:
        """True for a row that sums an alias or the scenarios up."""
        return self.task_id in {ALL_TASKS, WHOLE_SCENARIOS}
