"""The pass rate of one judge task beside what is known of its judge, as data and in words."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from scouter.evaluate.intervals import Interval, wilson

Standing: TypeAlias = Literal["corrected", "cannot_say", "another_judge", "not_calibrated"]
"""State of a pass rate towards a calibration of its judge.

* `corrected`: the calibration is of this judge, and tells the rate that people would find.
* `cannot_say`: it is of this judge, and says too little; or several were in force.
* `another_judge`: the task has one, but of a judge with other settings. It is not applied.
* `not_calibrated`: the task has none.
"""


class JudgeKnown(BaseModel):
    """A calibration in short, for beside a pass rate."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    digest: str
    """Digest of the calibration's content, which identifies it."""
    created_at: str
    """Time at which the calibration was made, in UTC, as RFC 3339 has it."""
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
    """Pass rate of a judge, and the rate that people would have found. Intervals are of 95 %."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    alias: str
    """Alias of the profile; empty for tasks of scenarios."""
    task_id: str
    passed: int
    judged: int
    """Results that the judge passed or failed."""
    standing: Standing
    rate: float | None = None
    """Rate that people would find, in [0, 1]; None where it cannot be determined."""
    interval: Interval | None = None
    error: Interval | None = None
    """Interval of the rate by the judge's errors alone; None where labels and results contradict
    each other, and where there is no rate."""
    why: str = ""
    """Reason why there is no corrected rate; empty if there is one."""
    calibration: JudgeKnown | None = None
    """Calibration that was applied; None if none was, also where only another judge has one."""

    @property
    def judge_rate(self) -> float | None:
        """Pass rate by the judge's word, in [0, 1]: passed of judged; None if nothing was."""
        return self.passed / self.judged if self.judged else None

    @property
    def judge_interval(self) -> Interval:
        """Wilson's interval of `judge_rate`."""
        return wilson(self.passed, self.judged)

    @property
    def standing_text(self) -> str:
        """The state in words: `cannot say`."""
        return {
            "corrected": "corrected",
            "cannot_say": "cannot say",
            "another_judge": "calibration of another judge",
            "not_calibrated": "no calibration",
        }[self.standing]


TITLE: Final = "Judge tasks: as the judge says, and as people would"
COLUMNS: Final = (
    "Task", "Judge says", "95% interval", "People would say", "95% interval", "Sensitivity",
    "Specificity", "Labels",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeText:
    """One judge task as the row of a table."""

    name: str
    says: str
    says_interval: str
    people: str
    """The corrected rate; where none can be determined, why in few words."""
    people_interval: str
    sensitivity: str
    specificity: str
    labels: str
    kinds: str
    """Number of good and of bad labels, as `12 good, 8 bad`."""
    why: str
    """Reason why there is no corrected rate, such as too few labels; empty if there is one."""

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of the row, in the order of `COLUMNS`."""
        labels = f"{self.labels} ({self.kinds})" if self.labels else ""
        return (
            self.name, self.says, self.says_interval, self.people, self.people_interval,
            self.sensitivity, self.specificity, labels,
        )  # fmt: skip

    @property
    def note(self) -> str:
        """A line of its own below a table; empty where there is nothing to say."""
        return f"{self.name}: {self.people}: {self.why}" if self.why else ""


def judge_text(found: JudgeRate) -> JudgeText:
    """Write a judge's rate."""
    known = found.calibration
    says = f"{_share(found.judge_rate)} ({found.passed}/{found.judged})" if found.judged else "–"
    is_plain = found.standing in ("corrected", "not_calibrated")
    return JudgeText(
        name=f"{found.alias} · {found.task_id}" if found.alias else found.task_id,
        says=says,
        says_interval=_between(found.judge_interval if found.judged else None),
        people=found.standing_text if found.rate is None else _share(found.rate),
        people_interval=_between(found.interval),
        sensitivity="" if known is None else _share(known.sensitivity),
        specificity="" if known is None else _share(known.specificity),
        labels="" if known is None else str(known.labels),
        kinds="" if known is None else f"{known.good} good, {known.bad} bad",
        why="" if is_plain else found.why,
    )


def _share(rate: float | None) -> str:
    return "not known" if rate is None else f"{rate:.1%}"


def _between(bounds: Interval | None) -> str:
    return "" if bounds is None else f"{bounds[0]:.1%} to {bounds[1]:.1%}"
