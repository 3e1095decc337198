"""Rows of scores in a comparison: one task's mean in both runs, and whether it fell."""

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from scouter.evaluate.compare.rows import ENOUGH
from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.multiplicity import holm

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
_CLEARED: Final = 0.05


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
    """Records about which the judge was asked the same in both runs, as far as that is stored."""
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
        return self.is_large and chance is not None and chance * self.tasks <= _CLEARED

    @property
    def is_unseen(self) -> bool:
        """True if at least half of the records lack a score in one run, through errors."""
        return self.unscored > 0 and self.unscored >= self.records

    @property
    def is_judges(self) -> bool:
        """True if the judge was asked the same about half of the records, so that it changed."""
        return self.same_questions > 0 and 2 * self.same_questions >= self.records

    @property
    def is_cleared(self) -> bool:
        """False if the row gives a reason to look closer, alone as it is."""
        is_improbable = self.p_value is not None and self.p_value <= _CLEARED
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
            p_value = "< 0.001" if self.adjusted_p < 0.001 else f"{self.adjusted_p:.2g}"
            family = f" after Holm over {self.tasks} scores" if self.tasks > 1 else ""
            parts.append(f"p {p_value}{family}")
        if self.same_questions:
            asked = f"{self.same_questions} of {self.records} records"
            parts.append(f"the judge was asked the same about {asked}")
        if self.unscored:
            of = self.records + self.unscored
            parts.append(f"{self.unscored} of {of} records errored in one of the runs")
        return "; ".join(parts)


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
