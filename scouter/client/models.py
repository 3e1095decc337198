"""Models of the collector's answers, as a client reads them.

Unknown fields are ignored, so a client may be older than the collector. Times are UTC, to the
microsecond.
"""

import datetime
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown, Standing
from scouter.evaluate.show.trace_view import TraceView


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


Item = TypeVar("Item", bound=BaseModel)


class Page(Answer, Generic[Item]):
    """Part of a list."""

    items: tuple[Item, ...]
    next_cursor: str | None = None
    """Place at which the next page begins; None at the end of the list."""


class Bin(Answer):
    """Values from `low` to below `high`; the last bin holds its `high`, too."""

    low: float
    high: float
    before: int
    since: int


class Distribution(Answer):
    """How the values of one measure spread."""

    measure: str
    """`score`, or `duration_ms` of the trace."""
    bins: tuple[Bin, ...]
    before: int
    since: int
    median_before: float | None = None
    median_since: float | None = None


class Distributions(Answer):
    """Distributions of a task; a measure that no result has is left out."""

    items: tuple[Distribution, ...]
    looked_at: int
    is_partial: bool


class FacetValue(Answer):
    """A value and how many items a list has with it as a further filter."""

    value: str
    count: int


class Facet(Answer):
    """The most frequent values of one parameter of a list."""

    name: str
    values: tuple[FacetValue, ...]
    others: int
    """Further values."""


class FacetList(Answer):
    """Counts beside a list."""

    items: tuple[Facet, ...]
    is_partial: bool
    """The time was up before everything was counted."""
    looked_until: datetime.datetime | None
    """Only what came since about then is counted; None where everything is."""


# --- spans and traces ---


class SpanItem(Answer):
    """A span without its attributes; the promoted ones are None where the span has none."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str
    kind: str
    status: str
    start: datetime.datetime
    duration_ms: float
    service_name: str | None = None
    service_version: str | None = None
    environment: str | None = None
    operation: str | None = None
    provider: str | None = None
    request_model: str | None = None
    response_model: str | None = None
    agent_name: str | None = None
    tool_name: str | None = None
    conversation_id: str | None = None
    error_type: str | None = None
    session_id: str | None = None


class TraceItem(Answer):
    """A trace in one line."""

    trace_id: str
    name: str | None = None
    """Name of the root span, where that span is stored."""
    service_name: str | None = None
    start: datetime.datetime
    duration_ms: float
    spans: int
    errors: int
    input_tokens: int | None = None
    output_tokens: int | None = None


class GenAIUsage(Answer):
    """Calls, errors, tokens, cost and times of one group: a model, a tool or another key."""

    key: str | None = None
    start: datetime.datetime | None = None
    """Start of the bucket of time; None without buckets."""
    calls: int
    errors: int
    error_rate: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """The part of the input that was read from a cache."""
    reasoning_tokens: int | None = None
    """The part of the output that nobody gets to read."""
    cost: float | None = None
    """USD by the collector's price file; None without a price."""
    unpriced_calls: int = 0
    mean_ms: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    quantiles: str | None = None
    """`exact` or `estimated`."""


# --- results ---


class TaskUsage(Answer):
    """Questions to a judge, with their tokens and cost; a sum is None if no answer tells it."""

    calls: int
    cached: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    unpriced_calls: int = 0
    """Calls whose cost is not known, and which `cost_usd` leaves out."""


class JudgeAnswer(Answer):
    """Answer of a judge that a collector keeps."""

    response: str
    """Written as JSON."""
    model: str = ""


class GoldAgreement(Answer):
    """Share of gold items that a judge decided as people did, with a 95 % interval."""

    items: int
    agreed: int
    rate: float | None
    lower: float
    upper: float


class GoldWindow(Answer):
    """Gold items that were held together against a calibration."""

    start: datetime.datetime
    end: datetime.datetime
    is_complete: bool
    """Its time is over; only then it is tested."""
    sensitivity: GoldAgreement
    """Agreement on items that people pass."""
    specificity: GoldAgreement
    """Agreement on items that people fail."""
    undecided: int
    has_drifted: bool | None = None
    """None where there is no calibration, or too little to test."""
    sensitivity_p: float | None = None
    specificity_p: float | None = None


class GoldJudge(Answer):
    """A judge task of an active profile, and how its judge decides gold items."""

    profile: str
    profile_version: str
    task_id: str
    provider: str
    model: str
    items: int
    per_day: float
    window: int
    windows: tuple[GoldWindow, ...]
    """By time; the last one mostly goes on."""


class GoldJudges(Answer):
    """All of them; none where the collector has no gold items."""

    items: tuple[GoldJudge, ...]


class KeptJudgeAnswer(Answer):
    """Reply to a judge answer that was sent in; `kept` is False if the collector keeps none."""

    kept: bool


class TaskResult(Answer):
    """Outcome of one task; it is pending while a judge has yet to answer."""

    task_id: str
    task_type: str
    outcome: Outcome
    reason: str | None = None
    """Why, where it errored or was skipped."""
    score: float | None = None
    """The number beside the outcome; None where the task was not decided, which is not 0."""
    expected: JsonValue = None
    actual: JsonValue = None
    message: str
    operator: str = ""
    condition: bool = False
    """True for a gate."""
    stage: int = 0
    usage: TaskUsage | None = None
    """Calls, tokens and cost of the answers of the task's judge."""
    question: str = ""
    """Digest of all that a judge task's outcome follows from but the answer."""
    answer: JsonValue = None
    """A judge's whole answer."""
    span_ids: tuple[str, ...] = ()
    """The first 20 of the spans that it is about, by start time; a session's are of its traces."""
    calibration: JudgeKnown | None = None
    """Calibration of the judge that decided the task, the one in force at that time."""


class Evaluation(Answer):
    """The evaluation of one record, or of one session."""

    evaluation_id: str
    scope: str
    """`record` or `session`."""
    record_id: str
    """The user's name for the record; may be empty."""
    uid: str
    """The record's key, or one made for the session."""
    session_id: str = ""
    trace_id: str | None = None
    """None for a session, which may have many."""
    profile: str
    """Alias of the profile."""
    profile_name: str = ""
    """Its full name, where the alias is another."""
    profile_version: str
    """Digest of the profile's tasks."""
    revision: int
    outcome: Outcome
    completeness: str
    missing_parents: int = 0
    service_name: str = ""
    service_version: str = ""
    environment: str = ""
    tags: dict[str, str] = Field(default_factory=dict)
    created_at: datetime.datetime
    evaluated_at: datetime.datetime
    tasks: tuple[TaskResult, ...]


class ForeignResultItem(Answer):
    """Another evaluator's result for a span."""

    span_id: str
    time: datetime.datetime
    name: str
    score: float | None = None
    label: str = ""
    explanation: str = ""
    response_id: str = ""
    error: str = ""


class Trace(Answer):
    """One trace."""

    trace_id: str
    spans: tuple[dict[str, JsonValue], ...]
    """With OTLP-JSON field names, by start time; `scouter.model.otlp_json` reads them."""
    spanless_events: tuple[dict[str, JsonValue], ...] = ()
    """Log events whose span is not stored, each as a span below it."""
    evaluations: tuple[Evaluation, ...] = ()
    foreign_results: tuple[ForeignResultItem, ...] = ()


class TraceTree(Answer):
    """One trace as people read it; see `scouter.evaluate.show.trace_view`."""

    trace_id: str
    view: TraceView
    evaluations: tuple[Evaluation, ...] = ()


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


class Alert(Answer):
    """An alert condition and the evidence for its state."""

    space: str
    profile: str
    profile_name: str = ""
    """Its full name, where the alias is another."""
    profile_version: str
    alias: str
    state: str
    """`inactive`, `firing` or `resolved`."""
    since: datetime.datetime | None
    condition: str
    pass_rate: float | None
    lower: float
    upper: float
    passed: int
    n: int
    """Records and sessions that the rate is taken over."""
    window: int
    min_samples: int


class UnwatchedAlert(Answer):
    """The alert of a profile that is registered and not active, so that it watches nothing."""

    space: str
    profile: str
    profile_name: str = ""
    profile_version: str
    uid: str
    condition: str


class DriftFigures(Answer):
    """Evidence of a fall at one moment."""

    since: datetime.datetime
    """Most likely start of the change."""
    records: int
    failed: int
    evidence: float
    """E-value of the fall."""
    mean: float | None = None
    """Mean outcome of the units since then."""
    healthy: float | None
    """None of trouble."""
    healthy_lower: float | None
    """Lower bound of the healthy mean."""
    against: str
    """The reference, in words; empty of trouble."""
    message: str
    """The evidence in one line."""


class DriftExample(Answer):
    """A record that failed since the fall began."""

    evaluation_id: str
    record_id: str
    uid: str
    trace_id: str | None
    link: str


class DriftAlert(Answer):
    """An alert of the detectors that watch every active profile."""

    alert_id: str
    space: str
    profile: str
    profile_name: str
    profile_version: str
    task: str
    """Empty for the whole record."""
    kind: str
    """`pass`, `error`, `score`, or `trouble`: something keeps results from being made."""
    trouble: str = ""
    """Cause of trouble, for alerts of the kind `trouble`; see `Trouble`."""
    service: str
    environment: str
    version: str
    """Version of the agent."""
    state: str
    """`shadow`, `firing`, `acknowledged`, `silenced` or `resolved`."""
    opened_at: datetime.datetime
    changed_at: datetime.datetime
    silenced_until: datetime.datetime | None = None
    by: str = ""
    note: str = ""
    title: str
    """One sentence: the task, the version and the time of the fall."""
    condition: str = ""
    """Condition of a profile that holds at a scheduled time; empty for what a detector proved."""
    opened: DriftFigures
    """As it was proven."""
    now: DriftFigures | None = None
    """With what came since; None once it is over."""
    stands: bool = False
    """Stands among all open alerts of the space looked at together (e-BH)."""


class Culprit(Answer):
    """A tag, tool, model, agent, route or version whose results fell."""

    name: str
    """Such as `tool search`, `model m`, `agent a`, `route a > b` or `tag tier=free`."""
    rate_before: float
    """Its own; where it is new, that of all results."""
    new: bool = False
    """It had fewer than 30 results before the fall."""
    rate: float
    """Since the fall."""
    records: int
    weight: float
    """Its own fall times its share of the results since."""
    evidence: float


class DriftDelivery(Answer):
    """A message about an alert, to one channel."""

    channel: str
    told: str
    """State that is told: `firing` or `resolved`."""
    state: str
    """`begun`, `waiting` (asked again), `sent` or `given_up`."""
    at: datetime.datetime
    attempts: int
    answer: str
    """Reply of the channel to the message."""


class TriedChannel(Answer):
    """A test message."""

    channel: str
    sent: bool
    answer: str
    """Reply of the channel to the message."""


class TriedChannels(Answer):
    """Test messages, one for each channel."""

    items: tuple[TriedChannel, ...]


class DriftAlertLook(DriftAlert):
    """An alert with its examples and all that became of it."""

    explained_by: tuple[Culprit, ...] = ()
    """Tags, tools and models that fell, the one that makes the most of it first."""

    examples: tuple[DriftExample, ...] = ()
    history: tuple[DriftAlert, ...] = ()
    """Oldest first."""
    deliveries: tuple[DriftDelivery, ...] = ()
    """The last step for each channel and state, oldest first."""


class DriftSeries(Answer):
    """The standing of one task of an active profile, of the version that ran last."""

    profile: str
    profile_version: str
    task: str
    kind: str
    service: str
    environment: str
    version: str
    units: int
    """Conversations, and records without one."""
    records: int
    failed: int
    rate: float
    """Rate of the last 500 to 1,000 units."""
    lower: float
    upper: float
    evidence: float
    state: str = ""
    """`learning`, `never_passed` (nothing can be worse), `watched` or `fallen`: looked at alone."""
    stands: bool = False
    """A fall is proven among all series of the space looked at together (e-BH)."""
    healthy: float | None
    healthy_lower: float | None
    against: str
    """The reference, or the reason why there is none yet."""


class DriftSeriesList(Answer):
    """All of a space, by alias and task."""

    items: tuple[DriftSeries, ...]


class DriftOutcome(Answer):
    """The outcome of one task, or of a whole record."""

    task: str
    """Empty for the whole record."""
    outcome: Outcome


class DriftNumber(Answer):
    """The score of a task, or the measure that it compared."""

    task: str
    number: float


class DriftResult(Answer):
    """The first final result of one record, or of one session that is judged as a whole."""

    seq: int
    """Its commit; with `ordinal`, its place in the order of completion."""
    ordinal: int
    profile_uid: str
    service: str
    environment: str
    version: str
    session_id: str
    """Empty where the result stands for itself."""
    at: datetime.datetime
    evaluation_id: str
    outcomes: tuple[DriftOutcome, ...]
    numbers: tuple[DriftNumber, ...] = ()


class DriftSlice(Answer):
    """Results that have a tag, a tool or a model in common, before a moment and since."""

    name: str
    passed_before: int
    failed_before: int
    passed: int
    failed: int


class DriftSlices(Answer):
    """All slices that have a result since the moment."""

    total: int
    """Results since the moment that were looked at."""
    items: tuple[DriftSlice, ...]


class CanaryVersion(Answer):
    """The results of one version since the canary began."""

    version: str
    conversations: int
    """Begun; a record without a session is one by itself."""
    records: int
    pass_rate: float | None
    """Mean of the complete conversations."""
    error_rate: float | None
    result_rate: float | None
    """Share of records that no gate skipped."""


class Difference(Answer):
    """Candidate minus stable, with an interval that holds at all looks together."""

    lower: float
    upper: float


class Canary(Answer):
    """The decision on a candidate, and its grounds."""

    decision: str
    """`promote`, `hold` or `roll_back`."""
    reason: str
    profile: str
    profile_version: str
    task: str
    """Empty for the whole record."""
    stable: CanaryVersion
    candidate: CanaryVersion
    pass_rate: Difference
    decided_rate: Difference
    """Difference of the shares without an error."""
    result_rate: Difference
    """Difference of the shares of records with a result."""
    is_cut: bool
    """Later results of a version are not read: nothing is promoted."""
    margin: float
    alpha: float
    split_chance: float | None
    """That traffic is split as planned, at most; None without a plan, or where results are cut."""


class Trouble(Answer):
    """Something that keeps results from being made, or from being complete."""

    trouble: str
    """`not_evaluated`, `judge_waits`, `judge_budget`, `dead_letters`, `dropped`, `lost` or
    `silent`."""
    alert_id: str = ""
    """Of the alert about it."""
    state: str = ""
    """Of that alert: `firing`, `acknowledged` or `silenced`."""
    profile: str = ""
    """Alias of the profile, where it is about one."""
    message: str
    """The finding, and the remedy."""
    since: datetime.datetime


class Alerts(Answer):
    """All alerts."""

    items: tuple[Alert, ...]
    drift: tuple[DriftAlert, ...] = ()
    """Alerts of the drift detectors: the open ones, then those that were resolved last."""
    trouble: tuple[Trouble, ...] = ()
    """Obstacles to results; looked for each minute."""
    unwatched: tuple[UnwatchedAlert, ...] = ()


# --- records and sessions ---


class RecordItem(Answer):
    """A record without its context."""

    uid: str
    record_id: str
    """The user's name for the record; may be empty."""
    session_id: str
    trace_id: str | None
    profile: str
    """Alias of the profile, or what the sender called it."""
    profile_name: str = ""
    """Its full name; empty while it is not known."""
    state: str
    """One of `waiting evaluated skipped expired dead_lettered erased`."""
    outcome: Outcome | None = None
    """Outcome of the latest evaluation; None without an evaluation."""
    created_at: datetime.datetime
    received_at: datetime.datetime
    tags: dict[str, str] = Field(default_factory=dict)
    context_bytes: int | None = None
    """Size of the context as JSON."""


class LetterReason(Answer):
    """Why a record is dead-lettered."""

    letter_id: str
    reason: str
    message: str


class Record(RecordItem):
    """A record with all that is stored of it."""

    context: JsonValue
    evaluations: tuple[Evaluation, ...]
    """Every revision of its evaluation, newest first."""
    dead_letter: LetterReason | None = None
    waits_for: str = ""
    """Why it is not evaluated, in words; empty where it is."""


class SessionItem(Answer):
    """A session and its records, counted by the outcome of the latest evaluation on each."""

    session_id: str
    """Or the uid of a record that has none."""
    records: int
    traces: int
    first_at: datetime.datetime
    """Time at which its first record was made."""
    last_at: datetime.datetime
    passed: int
    failed: int
    errored: int
    skipped: int
    undecided: int
    """Records without an evaluation: waiting or dead-lettered."""


class Session(SessionItem):
    """A session with what belongs to it, up to a thousand of each."""

    items: tuple[RecordItem, ...]
    evaluations: tuple[Evaluation, ...]
    trace_ids: tuple[str, ...]


# --- profiles ---


class ProfileItem(Answer):
    """A registered profile."""

    space: str
    name: str
    alias: str
    uid: str
    profile_version: str
    """Digest of the tasks."""
    version: str
    """The profile's own label."""
    is_active: bool
    reads_spans: bool
    registered_at: datetime.datetime
    tasks: tuple[str, ...]
    """Ids of the tasks."""
    watch: dict[str, JsonValue] | None = None
    """Filter of the traces that the profile judges without records; None if it judges none."""
    alert: str | None = None
    """Its alert's condition in words; it watches nothing while the profile is not active."""
    unusable: str = ""
    """Why the collector cannot use it, though an earlier version took it; it judges nothing."""


class Profile(ProfileItem):
    """A registered profile with its content."""

    body: dict[str, JsonValue] = Field(default_factory=dict)
    """The profile as `AgentEvalProfile.save_to_json` writes it."""


# --- operation ---


class RecordStates(Answer):
    """Every accepted record in exactly one state; sessions have none."""

    accepted: int
    waiting: int
    evaluated: int
    skipped: int
    expired: int
    dead_lettered: int
    erased: int
    lost: int = 0
    """Gone or damaged at a start that accepted that."""
    duplicates: int
    """Re-deliveries, beside the sum."""
    derived: int = 0
    """Part of `accepted`: records made from traces that a profile watches; no state of its own."""
    superseded: int = 0
    """Part of `erased`: derived records that a sender's record replaced; no state of its own."""


class SpanStates(Answer):
    """Counts of spans by what became of them."""

    accepted: int
    stored: int
    expired: int
    erased: int
    lost: int = 0
    """Gone or damaged at a start that accepted that."""
    duplicates: int
    late: int
    dead_lettered: int


class EventStates(Answer):
    """Counts of the GenAI events that came as log records."""

    accepted: int
    stored: int
    spanless: int
    """Part of `stored`: events whose span is not stored."""
    expired: int
    erased: int
    lost: int
    duplicates: int
    dead_lettered: int


class ConservationSheet(Answer):
    """Shows that nothing vanished."""

    records: RecordStates
    spans: SpanStates
    events: EventStates
    dead_letters: dict[str, int]
    """Everything put aside, by reason."""
    has_uncounted_losses: bool = False
    """True once something was lost and nobody knows how much: `lost` is the least."""


class DeadLetter(Answer):
    """Something that could not be used."""

    letter_id: str
    kind: str
    reason: str
    message: str
    source: str
    uid: str
    received_at: datetime.datetime
    was_accepted: bool
    size_bytes: int
    payload: str
    payload_base64: str | None = None
    """The payload in base64, if it is not text."""


class ReplayedLetter(Answer):
    """One letter and what became of it."""

    letter_id: str
    result: str
    """`accepted`, `waiting` or `refused`."""
    message: str


class ReplayedLetters(Answer):
    """Outcome of each dead letter that a filter named and that was tried again."""

    items: tuple[ReplayedLetter, ...]
    accepted: int
    waiting: int
    refused: int
    next_cursor: str | None = None


class Backup(Answer):
    """A copy of the collector's data, on the collector's machine."""

    name: str
    """Name of its folder."""
    path: str | None = None
    """Path of its folder; None for tokens of other spaces than the collector's own."""
    made_at: datetime.datetime


class RunItem(Answer):
    """Results of an offline run, kept in a collector."""

    run_id: str
    name: str
    added_at: datetime.datetime
    added_by: str = ""
    """Id of the token that brought it."""
    is_replay: bool = True
    """False of results of records without scenarios."""
    profiles: dict[str, str]
    """Digest of the profile by alias; empty where the results do not tell."""
    records: int
    pass_rate: float
    scenarios: int
    scenarios_passed: int
    agent: str = ""
    agent_version: str = ""
    ended_at: datetime.datetime | None = None


class RemovedRun(Answer):
    """A run that was taken out."""

    run_id: str


class VersionItem(Answer):
    """A version of the service behind a profile's records."""

    version: str
    first_at: datetime.datetime
    """Time at which the first of its records was evaluated."""
    last_at: datetime.datetime
    records: int


class Versions(Answer):
    """All of them, the one that began last first."""

    items: tuple[VersionItem, ...]


class ComparedSide(Answer):
    """One side of a comparison."""

    label: str
    records: int
    scenarios: int | None = None
    """Number of scenarios, of a run that has some."""
    is_cut: bool = False
    """There are more records, which are older."""
    run_id: str | None = None


class ComparedRate(Answer):
    """One rate on both sides, and what the test says of it."""

    label: str
    profile: str | None = None
    task_id: str | None = None
    """None for whole records and sums."""
    before_passed: int
    before_count: int
    after_passed: int
    after_count: int
    before_rate: float
    after_rate: float
    difference: float
    """After minus before."""
    lower: float | None = None
    """Interval of the difference, 95 %; None where it has too few conversations."""
    upper: float | None = None
    fell: int
    rose: int
    p_value: float | None = None
    """One-sided, of a fall."""
    adjusted_p: float | None = None
    word: str
    """`regressed`, `not cleared`, or empty."""
    reason: str


class LookedCall(Answer):
    """A tool call on one side of a change."""

    name: str
    arguments: JsonValue = None


class LookedTask(Answer):
    """Result of a task on one side of a change."""

    task_id: str
    outcome: Outcome
    message: str


class Look(Answer):
    """A record, or an attempt of a scenario, on one side of a comparison."""

    uid: str = ""
    """Key of a live record."""
    trace_id: str | None = None
    outcome: Outcome
    tasks: tuple[LookedTask, ...]
    calls: tuple[LookedCall, ...] | None = None
    """Of tools; None where no span is stored."""
    shown: dict[str, JsonValue]


class ComparedChange(Answer):
    """A record or scenario that passed on one side only."""

    name: str
    is_worse: bool
    before: Look
    after: Look


class Comparison(Answer):
    """Two sides held against each other."""

    word: str
    """`regressed`, `no regression seen` or `inconclusive`."""
    headline: str
    reasons: tuple[str, ...]
    exit_code: int
    ruled_out: float | None = None
    """A fall of more points than this is ruled out."""
    pairing: str
    """`scenarios`, `ids`, or `apart`: two samples."""
    before: ComparedSide
    after: ComparedSide
    rates: tuple[ComparedRate, ...]
    changes: tuple[ComparedChange, ...]
    more_changes: int
    notes: tuple[str, ...]


class TaskTrajectory(Answer):
    """The calls that a task expects, and those that were made."""

    task_id: str
    expected: tuple[LookedCall, ...]
    """Arguments are None where any will do."""
    actual: tuple[LookedCall, ...]


class TaskTrajectories(Answer):
    """Of the tasks that expect calls, in the profile's order."""

    items: tuple[TaskTrajectory, ...]


class LabelItem(Answer):
    """Label that a person gave a record, for one task."""

    uid: str
    record_id: str = ""
    profile: str
    task_id: str
    label: bool | None
    """True if the record is good; None where an earlier label was taken back."""
    rater: str
    notes: str = ""
    at: datetime.datetime
    by: str = ""
    """Id of the token that it came with."""


class QueueResult(Answer):
    """Result of the task, for those who asked to see it."""

    outcome: Outcome
    reason: str | None = None
    score: float | None = None
    message: str = ""
    answer: JsonValue = None


class QueueItem(Answer):
    """A record to be labelled."""

    uid: str
    record_id: str = ""
    session_id: str = ""
    trace_id: str | None = None
    created_at: datetime.datetime
    context: JsonValue = None
    asks: str = ""
    """The question with the record's values in it."""
    result: QueueResult | None = None
    labels: tuple[LabelItem, ...] = ()
    """Labels of other people, where they were asked for."""


class LabelQueue(Answer):
    """Records to ask a person about, in order."""

    profile: str
    task_id: str
    asks: str
    """The judge's prompt, or the assertion."""
    is_judge: bool
    labelled: int
    waiting: int
    items: tuple[QueueItem, ...]


class AgreementKappa(Answer):
    """Agreement beyond chance: 1 perfect, 0 by chance alone; None where it cannot be said."""

    value: float | None
    lower: float
    upper: float


class RaterPair(Answer):
    """Two people on the records that both labelled."""

    first: str
    second: str
    records: int
    agreed: int
    kappa: AgreementKappa


class JudgeAgreement(Answer):
    """A judge beside what most people say."""

    good_passed: int
    good_failed: int
    bad_passed: int
    bad_failed: int
    sensitivity: float | None
    sensitivity_interval: tuple[float, float]
    specificity: float | None
    specificity_interval: tuple[float, float]
    kappa: AgreementKappa


class LabelAgreement(Answer):
    """Labels on one task, summed up."""

    profile: str
    task_id: str
    raters: dict[str, int]
    records: int
    good: int
    tied: int
    pairs: tuple[RaterPair, ...]
    """Those of the 20 busiest people."""
    left_out: int
    """People who are in no pair, as 20 labelled more."""
    everybody: AgreementKappa
    """Fleiss' kappa."""
    judge: JudgeAgreement
    contested: tuple[str, ...]


class Erased(Answer):
    """Counts of what an erasure removed, and the backups that still hold it."""

    records: int
    spans: int
    evaluations: int
    dead_letters: int
    runs: int = 0
    """Results of runs that spoke of it; each as a whole."""
    is_gone: bool = True
    """False while the collector still writes the files anew that held it."""
    backups: tuple[Backup, ...] = ()
    """Known backups that were made before and still hold it."""


class TaskChange(Answer):
    """A task of both versions that ends differently under each."""

    task_id: str
    before: str
    after: str


class TaskCount(Answer):
    """A task that one of two versions has."""

    task_id: str
    outcomes: dict[str, int]
    """Evaluations by its outcome in them."""


class Flip(Answer):
    """A record or session in which a task of both versions has another outcome now."""

    scope: str
    """`record` or `session`."""
    uid: str
    record_id: str
    trace_id: str | None = None
    session_id: str = ""
    before: Outcome
    after: Outcome
    before_version: str
    """Digest of the profile that judged it before."""
    revision: int
    is_stored: bool
    tasks: tuple[TaskChange, ...]


class Reevaluation(Answer):
    """Verdict of another version of a profile on one page of evaluations."""

    profile: str
    profile_version: str
    dry_run: bool
    checked: int
    flipped: int
    stored: int
    gone: int
    """Evaluations of which neither the record, nor any of the session, is stored."""
    moved: int = 0
    """Evaluations with another outcome for new and removed tasks alone; no flips."""
    new_tasks: tuple[TaskCount, ...] = ()
    removed_tasks: tuple[TaskCount, ...] = ()
    """Tasks that the later version lacks, with what they were."""
    items: tuple[Flip, ...]
    next_cursor: str | None = None
