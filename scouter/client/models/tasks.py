"""Rates and scores of tasks."""

import datetime

from scouter.client.models.answer import Answer
from scouter.evaluate.results.judge_rate import JudgeKnown, Standing


class JudgeStanding(Answer):
    """The pass rate that people would give, as far as a calibration of this very judge can tell."""

    standing: Standing
    why: str = ""
    """Why there is no such rate; empty if there is one."""
    pass_rate: float | None
    lower: float | None
    """Lower bound of the 95 % interval of the rate."""
    upper: float | None
    judged: int
    """Records that the judge passed or failed, labelled ones left out."""
    labelled: int
    calibration: JudgeKnown | None = None
    """The applied one; of several the last, as each is applied to the evaluations of its time."""
    calibrations: int = 0
    """Number of calibrations that were applied."""


class TaskScores(Answer):
    """The scores of one task in a few numbers."""

    mean: float | None = None
    """None where no result has a score."""
    sd: float | None = None
    """Standard deviation, with n - 1; None of fewer than two."""
    n: int = 0
    """Results with a score: those that passed or failed."""
    n_error: int = 0
    """Results that errored, and so have none."""


class TaskRate(Answer):
    """Outcomes of one task, and its pass rate with a 95 % Wilson interval."""

    profile: str
    profile_name: str = ""
    """Its full name, where the alias is another."""
    profile_version: str
    alias: str
    task_id: str
    passed: int
    failed: int
    errored: int
    skipped: int
    total: int
    """Number of results that the rate counts: all but skips without a gate."""
    pass_rate: float | None
    lower: float
    upper: float
    score: TaskScores = TaskScores()
    """Mean and standard deviation of its scores."""
    judge: JudgeStanding | None = None
    """Knowledge about the quality of the task's judge; None for a task that asks none."""


class TaskRates(Answer):
    """Rates of all tasks."""

    items: tuple[TaskRate, ...]


class TaskBucket(TaskRate):
    """The same, of one span of time."""

    start: datetime.datetime


class TaskSeries(Answer):
    """Rates over time."""

    items: tuple[TaskBucket, ...]
