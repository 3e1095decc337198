"""Rates and scores of tasks."""

import datetime

from pydantic import Field

from scouter.client.models.answer import Answer
from scouter.evaluate.results.judge_rate import JudgeKnown, Standing


class JudgeStanding(Answer):
    """The pass rate that people would give, as far as a calibration of this very judge can tell."""

    standing: Standing = Field(
        description="corrected; cannot_say: the labels are too few; another_judge: the "
        "calibrated judge was asked otherwise, and nothing of it is applied; "
        "not_calibrated.",
    )
    why: str = Field(
        default="", description="Why there is no corrected rate; empty if there is one."
    )
    pass_rate: float | None = Field(description="As people would say.")
    lower: float | None = Field(description="Of its 95 % interval.")
    upper: float | None
    judged: int = Field(description="Records that the judge passed or failed.")
    is_by_record: bool = Field(
        default=True,
        description="True: each of these records counts by itself, also turns of one "
        "conversation, so that the interval is too short where conversations have several. "
        "`scouter judge correct` counts by conversation.",
    )
    calibration: JudgeKnown | None = Field(
        default=None,
        description="The applied calibration; of several the last one, as each is applied to "
        "the evaluations of its time.",
    )
    calibrations: int = Field(default=0, description="How many were applied to any evaluation.")


class TaskScores(Answer):
    """The scores of one task in a few numbers."""

    mean: float | None = Field(default=None, description="Null where no result has a score.")
    sd: float | None = Field(
        default=None, description="Standard deviation, with n - 1; null of fewer than two."
    )
    n: int = Field(default=0, description="Results with a score: those that passed or failed.")
    n_error: int = Field(default=0, description="Results that errored, and so have none.")


class RateLine(Answer):
    """Pass rate of one task over time, in columns; a bucket without a rate has no place in them."""

    start_s: tuple[int, ...] = Field(
        description="Start of each bucket, in order, in seconds since 1970."
    )
    pass_rate: tuple[float, ...]
    total: tuple[int, ...] = Field(description="Results that each rate counts.")


class TaskRate(Answer):
    """Outcomes of one task, and its pass rate with a 95 % Wilson interval."""

    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(default="", description="Its full name, where the alias is another.")
    profile_version: str
    alias: str = Field(description="The same as `profile`.")
    task_id: str
    passed: int
    failed: int
    errored: int
    skipped: int
    total: int = Field(description="Results that the rate counts: all but skips without a gate.")
    pass_rate: float | None
    lower: float
    upper: float
    score: TaskScores = Field(
        default=TaskScores(), description="Mean and standard deviation of its scores."
    )
    judge: JudgeStanding | None = Field(
        default=None, description="Calibration of the judge; null of tasks that ask none."
    )


class RatedTask(TaskRate):
    """The same, with the rate over time where it is asked for."""

    line: RateLine | None = Field(default=None, description="Null without `bucket`.")


class TaskRates(Answer):
    """Rates of all tasks."""

    items: tuple[RatedTask, ...]
    bucket_s: int | None = Field(
        default=None, description="Seconds of a bucket of the lines; null without them."
    )


class TaskBucket(TaskRate):
    """The same, of one span of time."""

    start: datetime.datetime


class TaskSeries(Answer):
    """Rates over time."""

    items: tuple[TaskBucket, ...]
    bucket_s: int = Field(default=0, description="Seconds of a bucket.")


class Bin(Answer):
    """Values from `low` to below `high`; the last bin holds its `high`, too."""

    low: float
    high: float
    before: int
    since: int


class Distribution(Answer):
    """Spread of the values of one measure."""

    measure: str = Field(description="`score`, or `duration_ms` of the trace.")
    bins: tuple[Bin, ...]
    before: int = Field(description="Values before `split`.")
    since: int = Field(description="Values from `split` on; all, where there is none.")
    median_before: float | None = None
    median_since: float | None = None


class Distributions(Answer):
    """Distributions of a task; a measure that no result has is left out."""

    items: tuple[Distribution, ...]
    looked_at: int = Field(description="Number of results, the newest 2,000 at most.")
    is_partial: bool = Field(description="There are more results than were looked at.")
