"""Rows of a comparison: one rate in both runs each, and what the test says of it."""

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from scouter.evaluate.intervals import Interval

ALL_TASKS: Final = "(all tasks)"
"""`task_id` of the row that sums an alias up; no task has such an id."""

WHOLE_SCENARIOS: Final = "(scenarios passed)"
"""`task_id` of the row that counts attempts of scenarios of which everything passed."""

WHOLE_CONVERSATIONS: Final = "(conversations passed)"
"""`task_id` of the same row where there are no scenarios: conversations."""

WHOLE_RECORDS: Final = "(records passed)"
"""`task_id` of the same row where each record is a conversation of its own."""

_WHOLE: Final = frozenset({WHOLE_SCENARIOS, WHOLE_CONVERSATIONS, WHOLE_RECORDS})

ENOUGH: Final = 6
"""Conversations from which an interval and a p-value are worth showing."""


class ComparisonDecision(StrEnum):
    """The decision on two runs; exactly one of three."""

    REGRESSED = "regressed"
    NO_REGRESSION = "no regression seen"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_code(self) -> int:
        """The exit code of a release check: 1, 0 and 3, in the order above."""
        return {"regressed": 1, "no regression seen": 0, "inconclusive": 3}[self.value]


class RateComparison(BaseModel):
    """One rate in both runs: counts, difference and what the test says of it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    alias: str | None
    """None for the scenarios' own tasks."""
    task_id: str
    """The task's, or `ALL_TASKS`, or the name of whole scenarios, conversations or records."""
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
    """Conversations that the test compares."""
    fell: int
    """Pairs that passed in the baseline and do not now."""
    rose: int
    """Pairs the other way round."""
    missing: int = 0
    """Pairs whose result the new run lacks."""
    difference: float
    """New rate minus old rate; over the pairs where there are any."""
    interval: Interval
    """95 % interval of the difference, two-sided."""
    method: str
    """Test and interval, in words."""
    p_value: float | None
    """One-sided, of a fall: the chance of a sum of new values as low as this one, if nothing
    changed; None where nothing can be tested."""
    adjusted_p: float | None
    """p-value of whole scenarios; of the other rates after Holm's correction over them all."""
    level: float
    """Level that `adjusted_p` is compared with."""
    fall_limit: float
    """Largest fall that is not ruled out, a share: the one-sided 95 % limit over conversations."""
    regressed: bool
    """True if `adjusted_p` is at most `level`."""
    is_cleared: bool
    """True if the row's own p-value is above 0.05, so that it gives no reason to look closer."""
    reason: str
    """The row in words."""

    @property
    def is_whole(self) -> bool:
        """True for the row of whole scenarios, conversations or records."""
        return self.task_id in _WHOLE

    @property
    def is_sum(self) -> bool:
        """True for a row that is about no single task."""
        return self.task_id == ALL_TASKS or self.is_whole

    @property
    def has_interval(self) -> bool:
        """True if enough conversations stand behind the interval and the p-value to show them."""
        return self.p_value is not None and self.clusters >= ENOUGH

    @property
    def label(self) -> str:
        """The row's name for people."""
        if self.is_whole:
            return self.task_id.strip("()")
        if self.task_id == ALL_TASKS:
            return "all tasks" if not self.alias else f"alias {self.alias!r}, all tasks"
        return f"task {self.task_id!r}" + (f" of {self.alias!r}" if self.alias else "")

    @property
    def word(self) -> str:
        """One word for a table: `regressed`, `not cleared`, or nothing."""
        if self.regressed:
            return "regressed"
        return "not cleared" if self.p_value is not None and not self.is_cleared else ""
