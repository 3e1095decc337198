"""Models of the API's answers."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from collector.api.judge_standing import JudgeStanding
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class TaskUsage(_Answer):
    """Questions to a judge, with their tokens and cost; a sum is null if no answer tells it."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    calls: int
    cached: int = Field(description="Questions that a cache answered; they take nothing.")
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    unpriced_calls: int = Field(description="Calls that the cost leaves out, as it is not known.")


class TaskResult(_Answer):
    """Outcome of one task; it is pending while a judge has yet to answer."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

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
        default="",
        description="Digest of all that a judge task's outcome follows from but the answer.",
    )
    answer: JsonValue = Field(default=None, description="A judge's whole answer.")
    span_ids: list[str] = Field(
        default=[], description="The first 20 of the spans that it is about, by start time."
    )
    calibration: JudgeKnown | None = Field(
        default=None,
        description="Of a judge that passed or failed it: its calibration in force at that time; "
        "null where there is none of this very judge.",
    )


class Evaluation(_Answer):
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
    created_at: str
    evaluated_at: str
    tasks: list[TaskResult]


class EvaluationPage(_Answer):
    """Evaluations, newest first."""

    items: list[Evaluation]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page.")


class RecordStates(_Answer):
    """Every accepted record in exactly one state; sessions have none."""

    accepted: int
    waiting: int
    evaluated: int
    skipped: int
    expired: int = Field(description="Taken out by retention.")
    dead_lettered: int
    erased: int = Field(description="Taken out because somebody wanted it so.")
    lost: int = Field(description="Gone or damaged at a start with --accept-loss.")
    duplicates: int = Field(description="Re-deliveries, beside the sum.")
    derived: int = Field(
        description="Of the accepted: made of traces that a profile watches; beside the sum."
    )
    superseded: int = Field(
        description="Of the erased: derived records in whose place a sender's came; beside the sum."
    )


class SpanStates(_Answer):
    """Counts of spans by what became of them."""

    accepted: int
    stored: int
    expired: int = Field(description="Stored once, taken out since by retention.")
    erased: int = Field(description="Stored once, taken out since because somebody wanted it so.")
    lost: int = Field(description="Gone or damaged at a start with --accept-loss.")
    duplicates: int
    late: int = Field(description="Of the stored: came after their trace had been judged.")
    dead_lettered: int = Field(description="Refused and put aside; never accepted.")


class EventStates(_Answer):
    """Counts of the GenAI events that came as log records."""

    accepted: int
    stored: int
    spanless: int = Field(description="Of the stored: the span that they belong to is not stored.")
    expired: int = Field(description="Stored once, taken out since by retention.")
    erased: int = Field(description="Stored once, taken out since because somebody wanted it so.")
    lost: int = Field(description="Gone or damaged at a start with --accept-loss.")
    duplicates: int
    dead_lettered: int = Field(description="Refused and put aside; never accepted.")


class ConservationSheet(_Answer):
    """Shows that nothing vanished."""

    records: RecordStates
    spans: SpanStates
    events: EventStates
    dead_letters: dict[str, int] = Field(description="Everything put aside, by reason.")
    has_uncounted_losses: bool = Field(
        description="True once something was lost and nobody knows how much: `lost` is the least."
    )


class TaskScores(_Answer):
    """The scores of one task in a few numbers."""

    mean: float | None = Field(description="Null where no result has a score.")
    sd: float | None = Field(description="Standard deviation, with n - 1; null of fewer than two.")
    n: int = Field(description="Results with a score: those that passed or failed.")
    n_error: int = Field(description="Results that errored, and so have none.")


class TaskRate(_Answer):
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
    score: TaskScores
    judge: JudgeStanding | None = Field(
        default=None, description="Calibration of the judge; null of tasks that ask none."
    )


class TaskRates(_Answer):
    """Task rates by alias, tasks in the profile's order."""

    items: list[TaskRate]


class Alert(_Answer):
    """An alert condition and the evidence for its state."""

    space: str
    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(description="Its full name, where the alias is another.")
    profile_version: str
    alias: str = Field(description="The same as `profile`.")
    state: str = Field(description="inactive, firing or resolved.")
    since: str | None = Field(description="When the state was entered.")
    condition: str = Field(description="In words.")
    pass_rate: float | None
    lower: float
    upper: float
    passed: int
    n: int = Field(description="Records and sessions that the rate is taken over.")
    window: int
    min_samples: int


class UnwatchedAlert(_Answer):
    """The alert of a profile that is registered and not active, so that it watches nothing."""

    space: str
    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(description="Its full name, where the alias is another.")
    profile_version: str
    uid: str = Field(description="Key of the version, for POST /api/v1/profiles/{uid}/activate.")
    condition: str = Field(description="In words.")


class DriftFigures(_Answer):
    """Evidence of a fall at one moment."""

    since: str = Field(description="When the change most likely began.")
    records: int = Field(description="Records since then.")
    failed: int = Field(description="Of them the ones that failed; of an error series, erred.")
    evidence: float = Field(description="E-value of the fall.")
    mean: float | None = Field(
        description="Mean outcome of the conversations or single records since then; of trouble, "
        "and of alerts of earlier versions, null."
    )
    healthy: float | None = Field(description="Mean of the reference; of trouble null.")
    healthy_lower: float | None = Field(description="Lower bound of that mean.")
    against: str = Field(description="The reference, in words; of trouble empty.")
    message: str = Field(description="The evidence in one line.")


class DriftExample(_Answer):
    """A record that failed since the fall began."""

    evaluation_id: str
    record_id: str
    uid: str
    trace_id: str | None
    link: str = Field(description="Path of the trace, or of the record where it has none.")


class DriftAlert(_Answer):
    """An alert of the detectors that watch every active profile."""

    alert_id: str
    space: str
    profile: str = Field(description="Alias of the profile.")
    profile_name: str
    profile_version: str
    task: str = Field(description="Empty for the whole record.")
    kind: str = Field(
        description="pass: passes among passed and failed; error: errors; score: scores from 0 to "
        "1; trouble: something keeps results from being made, and there are no counts."
    )
    trouble: str = Field(description="Of the kind trouble: which one, as in the list `trouble`.")
    service: str
    environment: str
    version: str = Field(description="Of the agent; empty where no span tells it.")
    state: str = Field(description="shadow, firing, acknowledged, silenced or resolved.")
    opened_at: str
    changed_at: str
    silenced_until: str | None
    by: str = Field(description="Id of the token that changed it last, or empty.")
    note: str
    title: str = Field(description="In words: the thing that got worse, its agent, its begin.")
    condition: str = Field(
        default="",
        description="The condition of a profile that holds at a scheduled time. It ends by itself; "
        "empty for what a detector has proven.",
    )
    opened: DriftFigures = Field(description="As it was proven.")
    now: DriftFigures | None = Field(description="With what came since; null once it is over.")
    stands: bool = Field(
        description="Stands among all open alerts of the space looked at together (e-BH)."
    )


class Culprit(_Answer):
    """A tag, tool, model, agent, route or version whose results fell."""

    name: str = Field(
        description="Such as `tool search`, `model m`, `agent a`, `route a > b`, `version 2` or "
        "`tag tier=free`."
    )
    rate_before: float = Field(description="Its own; where it is new, that of all results.")
    new: bool = Field(description="It had fewer than 30 results before the fall.")
    rate: float = Field(description="Since the fall.")
    records: int = Field(description="Since the fall.")
    weight: float = Field(description="Its own fall times its share of the results since.")
    evidence: float = Field(description="E-value; it stands among all slices (e-BH).")


class DriftDelivery(_Answer):
    """A message about an alert, to one channel."""

    channel: str = Field(description="log, webhook, slack, pagerduty, alertmanager or opsgenie.")
    told: str = Field(description="State that is told: firing or resolved.")
    state: str = Field(description="begun, waiting (asked again), sent or given_up.")
    at: str
    attempts: int
    answer: str = Field(description="Of the far side, without secrets.")


class TriedChannel(_Answer):
    """A test message."""

    channel: str
    sent: bool
    answer: str = Field(description="Of the far side, without secrets.")


class TriedChannels(_Answer):
    """Test messages, one for each channel."""

    items: list[TriedChannel]


class DriftAlertLook(DriftAlert):
    """An alert with its examples and all that became of it."""

    explained_by: list[Culprit] = Field(
        description="Parts that fell, the largest share first; of the kind error empty."
    )

    examples: list[DriftExample] = Field(description="The newest failed records at its opening.")
    history: list[DriftAlert] = Field(description="Oldest first.")
    deliveries: list[DriftDelivery] = Field(
        description="Whom it was told to: the last step for each channel and state, oldest first."
    )


class DriftSeries(_Answer):
    """The standing of one task of an active profile, of the version that ran last."""

    profile: str = Field(description="Alias of the profile.")
    profile_version: str
    task: str = Field(description="Empty for the whole record.")
    kind: str
    service: str
    environment: str
    version: str
    units: int = Field(description="Conversations, and records without one.")
    records: int
    failed: int
    rate: float = Field(description="Of the last 500 to 1,000 units.")
    lower: float
    upper: float
    evidence: float
    state: str = Field(
        description="learning, never_passed (nothing can be worse), watched or fallen: looked at "
        "alone."
    )
    stands: bool = Field(
        description="A fall is proven among all series of the space looked at together (e-BH)."
    )
    healthy: float | None
    healthy_lower: float | None
    against: str = Field(description="The reference, or the data that it waits for.")


class DriftSeriesList(_Answer):
    """All of a space, by alias and task."""

    items: list[DriftSeries]


class DriftOutcome(_Answer):
    """The outcome of one task, or of a whole record."""

    task: str = Field(description="Empty for the whole record.")
    outcome: str


class DriftNumber(_Answer):
    """The score of a task, or the measure that it compared."""

    task: str
    number: float


class DriftResult(_Answer):
    """The first final result of one record, or of one session that is evaluated as a whole."""

    seq: int = Field(description="Its commit; with `ordinal`, its place in the order.")
    ordinal: int
    profile_uid: str
    service: str
    environment: str
    version: str
    session_id: str = Field(description="Empty where the result stands for itself.")
    at: str
    evaluation_id: str
    outcomes: list[DriftOutcome]
    numbers: list[DriftNumber]


class DriftResultPage(_Answer):
    """Results in the order of completion."""

    items: list[DriftResult]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page.")


class DriftSlice(_Answer):
    """Results that have a tag, a tool or a model in common, before a moment and since."""

    name: str
    passed_before: int
    failed_before: int
    passed: int
    failed: int


class DriftSlices(_Answer):
    """All slices that have a result since the moment."""

    total: int = Field(description="Results since the moment that were looked at.")
    items: list[DriftSlice]


class Trouble(_Answer):
    """Something that keeps results from being made, or from being complete."""

    trouble: str = Field(
        description="not_evaluated, judge_waits, judge_budget, dead_letters, dropped, lost or "
        "silent."
    )
    alert_id: str = Field(description="Of the alert about it; empty until that is stored.")
    state: str = Field(description="Of that alert: firing, acknowledged or silenced.")
    profile: str = Field(description="Alias of the profile, where it is about one.")
    message: str = Field(description="The fault, and the way to mend it.")
    since: str = Field(description="Time at which it was found first.")


class Alerts(_Answer):
    """All alerts, by alias."""

    items: list[Alert]
    drift: list[DriftAlert] = Field(
        description="Of the detectors that watch every active profile: those that are open, then "
        "those that were resolved last."
    )
    trouble: list[Trouble] = Field(description="Looked for each minute.")
    unwatched: list[UnwatchedAlert] = Field(
        description="Those of profiles that are not active, without versions that a later one "
        "took the place of."
    )


class Health(_Answer):
    """Health of the service."""

    status: str
    detail: str = ""
