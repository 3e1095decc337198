"""Evaluations and their tasks: results, rates, distributions, failures, other versions."""

import datetime

from pydantic import ConfigDict, Field, JsonValue

from scouter.client.models.answer import Answer, Time
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown, Standing


class TaskUsage(Answer):
    """Questions to a judge, with their tokens and cost; a sum is None if no answer reports it."""

    model_config = ConfigDict(from_attributes=True)

    calls: int
    cached: int = Field(description="Questions that a cache answered; they take nothing.")
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    unpriced_calls: int = Field(description="Calls that the cost leaves out, as it is not known.")


class TaskResult(Answer):
    """Outcome of one task; it is pending while a judge has yet to answer."""

    model_config = ConfigDict(from_attributes=True)

    task_id: str
    task_type: str
    outcome: Outcome
    reason: str | None = Field(description="Why, where it errored or was skipped.")
    score: float | None = Field(
        description="The value of its judge or metric; of an assertion 1 if it passed, 0 if it "
        "failed. Null where it was not decided, which is not 0."
    )
    expected: JsonValue
    actual: JsonValue
    message: str
    operator: str
    condition: bool = Field(description="True for a gate.")
    stage: int
    usage: TaskUsage | None = Field(description="Tokens and cost of a judge's answers.")
    question: str = Field(
        description="Digest of all that a judge task's outcome follows from but the answer."
    )
    answer: JsonValue = Field(description="A judge's whole answer.")
    span_ids: tuple[str, ...] = Field(
        description="The first 20 of the spans that it is about, by start time."
    )
    calibration: JudgeKnown | None = Field(
        default=None,
        description="Of a judge that passed or failed it: its calibration in force at that time; "
        "null where there is none of this very judge.",
    )


class Evaluation(Answer):
    """The evaluation of one record, or of one session."""

    evaluation_id: str
    scope: str = Field(description="record or session.")
    record_id: str = Field(description="The user's name for the record; may be empty.")
    uid: str = Field(description="The record's key, or one made for the session.")
    session_id: str
    trace_id: str | None = Field(description="None for a session, which may have many.")
    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(description="Its full name, where the alias is another.")
    profile_version: str = Field(description="Digest of the profile's tasks.")
    revision: int
    outcome: Outcome
    completeness: str = Field(description="complete, quiet or deadline.")
    missing_parents: int
    service_name: str
    service_version: str
    environment: str
    tags: dict[str, str]
    created_at: Time
    evaluated_at: Time = Field(description="Of a backfill the time of its record.")
    is_backfill: bool = Field(
        description="Made long after its time: a reference for what comes, and no news."
    )
    tasks: tuple[TaskResult, ...]


class FailureExample(Answer):
    """A result of a group."""

    evaluation_id: str
    uid: str = Field(description="Of the record; of a session, its made-up uid.")
    record_id: str
    trace_id: str | None


class FailureGroup(Answer):
    """Results that did not pass for the same reason, as far as one can see from outside."""

    outcome: Outcome = Field(description="`failed` or `errored`.")
    reason: str | None = Field(description="Of errored ones.")
    operator: str
    message: str = Field(description="Of the newest; those of the others differ in values only.")
    tools: tuple[str, ...] = Field(
        description="Tools that were called up to the first call that failed, or all; a repeated "
        "call counts once. Of a long way the last 12, after `…`."
    )
    failed_tool: bool = Field(description="The last of `tools` failed.")
    error_type: str = Field(description="Of the trace's first error; empty without any.")
    before: int = Field(description="Results looked at of the time before `split`.")
    since: int = Field(description="From `split` on; all, where there is none.")
    share_before: float | None = Field(
        description="Share of all results of that time, from 0 to 1; null without results or split."
    )
    share_since: float | None
    first_seen: datetime.datetime = Field(description="Of those looked at.")
    last_seen: datetime.datetime
    examples: tuple[FailureExample, ...] = Field(description="The newest, three at most.")


class Failures(Answer):
    """Groups, the one with the largest share since `split` first."""

    items: tuple[FailureGroup, ...]
    looked_at: int = Field(
        description="Results looked at: the newest that failed and the newest that errored, at "
        "most 200 each before `split` and since."
    )
    is_partial: bool = Field(description="There are more; the shares are estimates then.")


class JudgeStanding(Answer):
    """The pass rate that people would give, as far as a calibration of this very judge can tell."""

    standing: Standing = Field(
        description="corrected; cannot_say: the labels are too few; another_judge: the calibrated"
        " judge was called otherwise, and nothing of it is applied; not_calibrated."
    )
    why: str = Field(description="Why there is no corrected rate; empty if there is one.")
    pass_rate: float | None = Field(description="As people would say.")
    lower: float | None = Field(description="Of its 95 % interval.")
    upper: float | None
    judged: int = Field(description="Records that the judge passed or failed.")
    is_by_record: bool = Field(
        description="True: each of these records counts by itself, also turns of one "
        "conversation, so that the interval is too short where conversations have "
        "several. `scouter judge correct` counts by conversation."
    )
    calibration: JudgeKnown | None = Field(
        description="The applied calibration; of several the last one, as each is applied to the "
        "evaluations of its time."
    )
    calibrations: int = Field(description="How many were applied to any evaluation.")


class TaskScores(Answer):
    """The scores of one task in a few numbers."""

    mean: float | None = Field(description="Null where no result has a score.")
    sd: float | None = Field(description="Standard deviation, with n - 1; null of fewer than two.")
    n: int = Field(description="Results with a score: those that passed or failed.")
    n_error: int = Field(description="Results that errored, and so have none.")


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
    profile_name: str = Field(description="Its full name, where the alias is another.")
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
    score: TaskScores = Field(description="Mean and standard deviation of its scores.")
    judge: JudgeStanding | None = Field(
        description="Calibration of the judge; null of tasks that ask none."
    )


class RatedTask(TaskRate):
    """The same, with the rate over time where it is requested."""

    line: RateLine | None = Field(description="Null without `bucket`.")
    usage: TaskUsage | None = Field(
        description="What judges took for the latest result of each record or session; null "
        "without `usage=true`, or where no judge was called."
    )


class TaskRates(Answer):
    """Rates of all tasks."""

    items: tuple[RatedTask, ...]
    bucket_s: int | None = Field(description="Seconds of a bucket of the lines; null without them.")


class TaskBucket(TaskRate):
    """Outcomes of one task in one bucket, and its pass rate with a 95 % Wilson interval."""

    start: Time = Field(
        description="Start of the bucket; buckets are multiples of their length since 1970, in UTC."
    )


class TaskSeries(Answer):
    """Points by time, alias and task; a bucket without results has none."""

    items: tuple[TaskBucket, ...]
    bucket_s: int = Field(description="Length of a bucket in seconds.")


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
    median_before: float | None
    median_since: float | None


class Distributions(Answer):
    """Distributions of a task; a measure that no result has is left out."""

    items: tuple[Distribution, ...]
    looked_at: int = Field(description="Number of results, the newest 2,000 at most.")
    is_partial: bool = Field(description="There are more results than were looked at.")


class TaskChange(Answer):
    """A task of both versions that ends differently under each."""

    task_id: str
    before: str = Field(description="Its outcome.")
    after: str


class TaskCount(Answer):
    """A task that one of two versions has."""

    task_id: str
    outcomes: dict[str, int] = Field(description="Evaluations by its outcome in them.")


class Flip(Answer):
    """A record or session in which a task of both versions has another outcome now."""

    scope: str = Field(description="record or session.")
    uid: str = Field(description="Of the record, or what stands for the session.")
    record_id: str
    trace_id: str | None
    session_id: str
    before: Outcome
    after: Outcome
    before_version: str = Field(description="Digest of the profile that judged it before.")
    revision: int = Field(description="Of the new evaluation.")
    is_stored: bool = Field(description="False in a dry run, or if it got another one meanwhile.")
    tasks: tuple[TaskChange, ...]


class Reevaluation(Answer):
    """Outcomes of another version of a profile on one page of evaluations."""

    profile: str
    profile_version: str
    dry_run: bool
    checked: int = Field(description="Records and sessions that were evaluated.")
    flipped: int = Field(
        description="Of these, those in which a task of both versions has another outcome now."
    )
    stored: int = Field(description="Revisions that were stored.")
    gone: int = Field(
        description="Evaluations of which neither the record, nor any of the session, is stored."
    )
    moved: int = Field(
        description="Evaluations with another outcome for new and removed tasks alone; no flips."
    )
    still_open: int = Field(
        description="With `missing`: traces and sessions that may go on, and were left out."
    )
    new_tasks: tuple[TaskCount, ...] = Field(
        description="Tasks that the earlier evaluations of this page lack."
    )
    removed_tasks: tuple[TaskCount, ...] = Field(
        description="Tasks that this version lacks, with what they were."
    )
    items: tuple[Flip, ...]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page.")
