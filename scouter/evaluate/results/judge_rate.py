"""The pass rate of one judge task beside what is known of its judge, as data that is stored."""

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from scouter.evaluate.intervals import Interval, wilson

Standing: TypeAlias = Literal["corrected", "cannot_say", "another_judge", "not_calibrated"]
"""What a calibration makes of a pass rate.

* `corrected`: it is of this judge, and the rate behind the verdicts can be told.
* `cannot_say`: it is of this judge, and says too little; or several were in force.
* `another_judge`: there is one for the task, and the judge was asked otherwise. It is not applied.
* `not_calibrated`: there is none.
"""


class JudgeKnown(BaseModel):
    """A calibration in short, for beside a pass rate."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    digest: str
    """Of the calibration's content; tells which one it was."""
    created_at: str
    """When it was made, in UTC, as RFC 3339 has it."""
    sensitivity: float | None
    """Share of what people pass that the judge passes; None without such labels."""
    sensitivity_interval: Interval
    specificity: float | None
    """Share of what people fail that the judge fails; None without such labels."""
    specificity_interval: Interval
    kappa: float | None
    good: int
    """Labelled records that people pass."""
    bad: int
    """Labelled records that people fail."""

    @property
    def labels(self) -> int:
        """Labelled records that people and the judge decided."""
        return self.good + self.bad


class JudgeRate(BaseModel):
    """How often a judge passed, and how often people would have. Intervals are of 95 %."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    alias: str
    """Of the profile; empty for tasks of scenarios."""
    task_id: str
    passed: int
    judged: int
    """Results that the judge passed or failed, labelled ones left out."""
    labelled: int = 0
    """Results on labelled records, which count through their labels."""
    standing: Standing
    rate: float | None = None
    """As people would say; None where it cannot be told."""
    interval: Interval | None = None
    why: str = ""
    """Why there is no corrected rate; empty if there is one."""
    calibration: JudgeKnown | None = None
    """What was applied; None of another judge's, which is not."""

    @property
    def judge_rate(self) -> float | None:
        """As the judge says: passed of judged; None if nothing was."""
        return self.passed / self.judged if self.judged else None

    @property
    def judge_interval(self) -> Interval:
        """Wilson's interval of `judge_rate`."""
        return wilson(self.passed, self.judged)

    @property
    def standing_text(self) -> str:
        """The standing in words: `cannot say`."""
        return {
            "corrected": "corrected",
            "cannot_say": "cannot say",
            "another_judge": "calibration of another judge",
            "not_calibrated": "no calibration",
        }[self.standing]
