"""Rows of a comparison: one rate or mean in both runs each, and what the test says."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.multiplicity import holm

ALL_TASKS: Final = "(all tasks)"
"""`task_id` of the row that sums an alias up; no task has such an id."""

WHOLE_SCENARIOS: Final = "(scenarios passed)"
"""`task_id` of the row that counts attempts of scenarios of which everything passed."""

WHOLE_CONVERSATIONS: Final = "(conversations passed)"
"""`task_id` of the same row where there are no scenarios: conversations."""

WHOLE_RECORDS: Final = "(records passed)"
"""`task_id` of the same row where each record is a conversation of its own."""

WHOLE: Final = frozenset({WHOLE_SCENARIOS, WHOLE_CONVERSATIONS, WHOLE_RECORDS})
"""`task_id` of the row of what passed as a whole."""

CLEARED: Final = 0.05
"""P-value of a single row above which it gives no reason to look closer."""

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
    """Results of the baseline that belong into a rate: judged, or prevented from it by a gate."""
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
        return self.task_id in WHOLE

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


SCORE_LEVEL: Final = 0.007
"""Level of the scores of all tasks together, where they are looked at once."""

SCORE_LOOK: Final = 0.004
"""Level of each of three looks at pooled attempts, which come to `SCORE_LEVEL` together."""

MARGIN: Final = 0.02
"""Smallest fall that stops a release, as a share of the scale."""

LARGE_FALL: Final = 0.20
"""Fall that is not let go by silence: of the share of attempts that passed, or of scores as a share
of their scale."""

NEARLY: Final = 4.0
"""Evidence within this factor of its level is too much to let go."""

_EPSILON: Final = 1e-9


class ScoreChange(BaseModel):
    """One task's scores in both runs.

    A record counts as one, with the mean of its attempts; means and difference are over the
    records that have a score in both runs.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    alias: str | None = None
    """None for tasks of scenarios, and where there is one dataset only."""
    task_id: str
    records: int
    """Records, or scenarios, with a score in both runs."""
    conversations: int
    """Conversations that these records belong to."""
    baseline_count: int
    """Results of the baseline that have a score."""
    comparison_count: int
    baseline_mean: float | None
    """None where no record has a score in both runs."""
    comparison_mean: float | None
    difference: float
    """New mean minus old mean."""
    interval: Interval | None
    """95 % interval of the difference, for independent conversations; None below six of them."""
    unscored: int = 0
    """Records that were scored in one run, and whose task gave nothing but errors in the other."""
    same_questions: int = 0
    """Records with the same question to the judge in both runs, as far as that is stored."""
    direction: int = 0
    """1 where a higher score is better, -1 where a lower one is, 0 where the task does not say."""
    scale: float = 1.0
    """Upper end of the scale: 1, 5, 10 or 100, the first that no score and no bound exceeds."""
    p_value: float | None = None
    """One-sided, of a change for the worse; None where that cannot be tested."""
    attempts_p: float | None = None
    """The same for independent attempts at a scenario; None where it makes no difference."""
    adjusted_p: float | None = None
    """p-value after Holm's correction over all scores of the comparison."""
    level: float = SCORE_LEVEL
    """Level that `adjusted_p` is compared with."""
    tasks: int = 1
    """Tasks whose scores were tested together."""
    furthest: str = ""
    """The record that fell furthest, in words."""

    @property
    def label(self) -> str:
        """The row's name for people."""
        return f"score of task {self.task_id!r}" + (f" of {self.alias!r}" if self.alias else "")

    @property
    def fall(self) -> float:
        """By how much the mean got worse, as a share of the scale; negative where it got better."""
        return -self.direction * self.difference / self.scale

    @property
    def regressed(self) -> bool:
        """True if the scores fell by the margin or more, and by more than chance explains."""
        return self.falls_at(self.level)

    def falls_at(self, level: float) -> bool:
        """Tell whether the scores fell, at some level."""
        return (
            self.adjusted_p is not None
            and self.adjusted_p <= level
            and self.fall >= MARGIN - _EPSILON
        )

    @property
    def is_large(self) -> bool:
        """True if a fall of 20 % of the scale is visible."""
        return self.fall >= LARGE_FALL - _EPSILON

    @property
    def is_doubtful(self) -> bool:
        """True if a large fall is hardly chance, though not surely something else."""
        chance = self.attempts_p if self.attempts_p is not None else self.p_value
        return self.is_large and chance is not None and chance * self.tasks <= CLEARED

    @property
    def is_unseen(self) -> bool:
        """True if at least half of the records lack a score in one run, through errors."""
        return self.unscored > 0 and self.unscored >= self.records

    @property
    def is_judges(self) -> bool:
        """True if the judge got the same question about half of the records, so that it changed."""
        return self.same_questions > 0 and 2 * self.same_questions >= self.records

    @property
    def is_cleared(self) -> bool:
        """False if the row gives a reason to look closer, alone as it is."""
        is_improbable = self.p_value is not None and self.p_value <= CLEARED
        return not (is_improbable and self.fall >= MARGIN - _EPSILON)

    @property
    def word(self) -> str:
        """One word for a table: `regressed`, `not cleared`, or nothing."""
        if self.regressed:
            return "regressed"
        return "" if self.is_cleared else "not cleared"

    @property
    def reason(self) -> str:
        """The row in words."""
        parts: list[str] = []
        if self.baseline_mean is not None and self.comparison_mean is not None:
            parts.append(f"mean {self.baseline_mean:.3g} before, {self.comparison_mean:.3g} now")
        if self.interval is not None:
            low, high = (_signed(bound) for bound in self.interval)
            parts.append(f"difference {_signed(self.difference)} (95 % {low} to {high})")
        if self.adjusted_p is not None and self.conversations >= ENOUGH:
            family = f" after Holm over {self.tasks} scores" if self.tasks > 1 else ""
            parts.append(f"p {p_text(self.adjusted_p)}{family}")
        if self.same_questions:
            share = f"{self.same_questions} of {self.records} records"
            parts.append(f"the judge got the same question about {share}")
        if self.unscored:
            of = self.records + self.unscored
            parts.append(f"{self.unscored} of {of} records errored in one of the runs")
        return "; ".join(parts)


def p_text(value: float) -> str:
    """Write a p-value with two digits."""
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def _signed(value: float) -> str:
    return f"{value:+.2g}".replace("-", "\u2212") if value else "0"


def corrected(rows: Sequence[ScoreChange]) -> tuple[ScoreChange, ...]:
    """Correct the p-values for the number of tasks, by Holm's rule."""
    tested = [row for row in rows if row.p_value is not None]
    adjusted = iter(holm([row.p_value for row in tested if row.p_value is not None]))
    return tuple(
        row
        if row.p_value is None
        else row.model_copy(update={"adjusted_p": next(adjusted), "tasks": len(tested)})
        for row in rows
    )


def at_level(rows: Iterable[ScoreChange], level: float) -> tuple[ScoreChange, ...]:
    """Compare the p-values with another level."""
    return tuple(row.model_copy(update={"level": level}) for row in rows)
