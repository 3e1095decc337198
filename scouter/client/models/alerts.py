"""Alerts of conditions and of detectors, the series behind them, and decisions on candidates."""

from pydantic import Field

from scouter.client.models.answer import Answer, Time
from scouter.client.models.comparison import Explanation
from scouter.evaluate.outcome import Outcome


class Alert(Answer):
    """An alert condition and the evidence for its state."""

    space: str
    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(description="Its full name, where the alias is another.")
    profile_version: str
    alias: str = Field(description="The same as `profile`.")
    state: str = Field(description="inactive, firing, acknowledged, silenced or resolved.")
    alert_id: str = Field(description="Of the open alert about it; empty while there is none.")
    since: Time | None = Field(description="When the state was entered.")
    condition: str = Field(description="In words.")
    pass_rate: float | None
    lower: float
    upper: float
    passed: int
    n: int = Field(description="Records and sessions that the rate is taken over.")
    window: int
    min_samples: int


class UnwatchedAlert(Answer):
    """The alert of a profile that is registered and not active, so that it watches nothing."""

    space: str
    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(description="Its full name, where the alias is another.")
    profile_version: str
    uid: str = Field(description="Key of the version, for POST /api/v1/profiles/{uid}/activate.")
    condition: str = Field(description="In words.")


class DriftFigures(Answer):
    """Evidence of a fall at one moment."""

    since: Time = Field(description="When the change most likely began.")
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
    first_days: bool = Field(
        description="It may be the time of day, as two days are not known yet: it ends once these "
        "show that it is usual, and otherwise it goes on without this."
    )
    message: str = Field(description="The evidence in one line.")


class DriftExample(Answer):
    """A record that failed since the fall began."""

    evaluation_id: str
    record_id: str
    uid: str
    trace_id: str | None
    link: str = Field(description="Path of the trace, or of the record where it has none.")
    reason: str = Field(
        description="Why its task erred, such as `missing_path`; empty if it failed."
    )


class VersionTally(Answer):
    """Results of one task, or of the whole record, since a version of the agent began."""

    version: str
    passed: int
    failed: int
    errored: int
    pass_rate: float = Field(description="Passed ones among all three.")


class FallenTask(Answer):
    """A task that passes less in a version than in the one before."""

    task: str = Field(description="Empty for the whole record.")
    now: VersionTally
    before: VersionTally


class DriftPart(Answer):
    """The fall of one series, as a part of an alert."""

    task: str = Field(description="Empty for the whole record.")
    kind: str = Field(description="pass, error, score or amount.")
    slice: str = Field(description="Part of the records, such as `tool search`; empty for all.")
    title: str = Field(description="In a few words.")
    message: str = Field(description="The evidence as it was proven, in one line.")
    proven_at: Time
    ended_at: Time | None = Field(description="Null while it goes on.")


class SetupChange(Answer):
    """A value that more records ran with from the beginning of a fall on than before."""

    kind: str = Field(
        description="prompt (name and version), prompt_digest, tools_digest, response_model, "
        "fingerprint, or version (name and version of a service)."
    )
    name: str
    before: float = Field(
        description="Share of the records whose spans tell this kind, in the hour (or 100 results, "
        "if they take longer) that ended an hour before the fall."
    )
    share: float = Field(description="The same in the hour from the beginning of the fall on.")
    first_at: Time = Field(description="When the first record near the fall has it.")


class DriftAlert(Answer):
    """An alert of the detectors that watch every active profile."""

    alert_id: str
    space: str
    profile: str = Field(description="Alias of the profile.")
    profile_name: str
    profile_version: str
    task: str = Field(
        description="Of the headline, the most specific one of `together` that goes on; empty for "
        "the whole record."
    )
    slice: str = Field(description="Likewise; empty where it is about all records.")
    kind: str = Field(
        description="pass: passes among passed and failed; error: errors; score: scores from 0 to"
        " 1; amount: records within a limit on cost or latency; trouble: "
        "something keeps results from being made, and there are no "
        "counts."
    )
    trouble: str = Field(description="Of the kind trouble: which one, as in the list `trouble`.")
    service: str
    environment: str
    version: str = Field(description="Of the agent; empty where no span says it.")
    state: str = Field(description="shadow, firing, acknowledged, silenced or resolved.")
    opened_at: Time
    changed_at: Time
    silenced_until: Time | None
    by: str = Field(description="Id of the token that changed it last, or empty.")
    name: str = Field(description="Of the person or token that changed it last, or empty.")
    note: str
    title: str = Field(description="In words: the thing that got worse, its agent, its begin.")
    condition: str = Field(
        description="The condition of a profile that holds; empty for what a detector has proven."
    )
    opened: DriftFigures = Field(
        description="As it was proven; of a condition, as it was when it fired."
    )
    now: DriftFigures | None = Field(description="With what came since; null once it is over.")
    together: tuple[DriftPart, ...] = Field(
        description="All that fell together, as one cause is one alert: the headline of the first "
        "message, then the others as they were proven. Empty of a condition and of trouble."
    )
    fell: tuple[FallenTask, ...] = Field(
        description="While it is open, what passes less in its version than in the one before, by"
        " 95 % intervals that are apart: the whole record, then its tasks, the worst "
        "first."
    )
    changed: tuple[SetupChange, ...] = Field(
        description="What the records ran with that changed just before the fall, the largest rise "
        "first; 5 at most."
    )
    stands: bool = Field(
        description="Stands among all open alerts of the space looked at together (e-BH)."
    )


class DriftDelivery(Answer):
    """A message about an alert, to one channel."""

    channel: str = Field(description="log, webhook, slack, pagerduty or alertmanager.")
    told: str = Field(description="State that was sent: firing or resolved.")
    state: str = Field(description="begun, waiting (sent again), sent or given_up.")
    at: Time
    attempts: int
    answer: str = Field(description="Of the far side, without secrets.")


class TriedChannel(Answer):
    """A test message."""

    channel: str
    sent: bool
    answer: str = Field(description="Of the far side, without secrets.")


class TriedChannels(Answer):
    """Test messages, one for each channel."""

    items: tuple[TriedChannel, ...]


class DriftAlertLook(DriftAlert):
    """An alert with its examples and all that became of it."""

    explanation: Explanation | None = Field(
        description="Traffic or behaviour: what the fall comes from. While the alert is open the "
        "intervals hold at every look; null where too little is known, and of the kinds error and "
        "amount."
    )
    examples: tuple[DriftExample, ...] = Field(
        description="The newest failed records at its opening; of passes also those that errored "
        "last since it began."
    )
    history: tuple[DriftAlert, ...] = Field(description="Oldest first.")
    deliveries: tuple[DriftDelivery, ...] = Field(
        description="Whom it was sent to: the last step for each channel and state, oldest first."
    )


class Trouble(Answer):
    """Something that keeps results from being made, or from being complete."""

    trouble: str = Field(
        description="not_evaluated, judge_waits, judge_budget, errored, unknown_profile, "
        "incomplete, dead_letters, dropped, overtaken, lost or silent."
    )
    alert_id: str = Field(description="Of the alert about it; empty until that is stored.")
    state: str = Field(description="Of that alert: firing, acknowledged or silenced.")
    profile: str = Field(description="Alias of the profile, where it is about one.")
    message: str = Field(description="The fault, and the way to mend it.")
    since: Time = Field(description="Time at which it was found first.")


class Alerts(Answer):
    """All alerts, by alias."""

    items: tuple[Alert, ...]
    drift: tuple[DriftAlert, ...] = Field(
        description="Of the detectors that watch every active profile: those that are open, then "
        "those that were resolved last."
    )
    trouble: tuple[Trouble, ...] = Field(description="Looked for each minute.")
    unwatched: tuple[UnwatchedAlert, ...] = Field(
        description="Those of profiles that are not active, without versions that a later one "
        "took the place of."
    )


class DriftSeries(Answer):
    """The state of one task, or a slice, of an active profile in the version that ran last."""

    profile: str = Field(description="Alias of the profile.")
    profile_version: str
    task: str = Field(description="Empty for the whole record.")
    kind: str
    slice: str = Field(description="Part of the records, such as `tool search`; empty for all.")
    service: str
    environment: str
    version: str
    units: int = Field(description="Conversations, and records without one.")
    records: int
    failed: int
    errored: int = Field(
        description="Results that erred beside `records`; other kinds than pass: 0."
    )
    version_before: VersionTally | None = Field(
        description="The version before, where there is one; other kinds than pass: null."
    )
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
    summary: str = Field(
        description="The state in about eight words, such as `a fall below 95 % would be seen`: "
        "within 2,000 conversations or single records, for the most part."
    )


class DriftSeriesList(Answer):
    """All of a space, by alias and task."""

    items: tuple[DriftSeries, ...]
    promise: str = Field(
        description="False alerts that are to be expected of all series and slices of the space."
    )
    left_out: tuple[str, ...] = Field(
        description="Slices with enough traffic and no series, as a version has 50 at most."
    )


class DriftOutcome(Answer):
    """The outcome of one task, or of a whole record."""

    task: str = Field(description="Empty for the whole record.")
    outcome: Outcome


class DriftNumber(Answer):
    """The score of a task, or the measure that it compared."""

    task: str
    number: float


class DriftAmount(Answer):
    """Duration or cost of the trace of a record."""

    name: str = Field(description="`cost` in US dollars, or `latency` in seconds.")
    value: float | None = Field(description="Null for a cost that is unknown.")


class DriftResult(Answer):
    """The first final result of one record, or of one session that is evaluated as a whole."""

    seq: int = Field(description="Its commit; with `ordinal`, its place in the order.")
    ordinal: int
    profile_uid: str
    service: str
    environment: str
    version: str
    session_id: str = Field(description="Empty where the result stands for itself.")
    at: Time
    created_at: Time = Field(description="When the record was made.")
    evaluation_id: str
    is_backfill: bool = Field(description="Part of a reference, and never evidence.")
    outcomes: tuple[DriftOutcome, ...]
    numbers: tuple[DriftNumber, ...]
    amounts: tuple[DriftAmount, ...] = ()
    traits: tuple[str, ...] = Field(
        description="Tags of the record, and tools, models and the attributes that a profile names "
        "as slices: `tool search`."
    )


class DriftExplanation(Answer):
    """Origin of a series' change at a moment."""

    explanation: Explanation | None = Field(description="Null where too little is known.")


class CanaryVersion(Answer):
    """The results of one version since the canary began."""

    version: str
    conversations: int = Field(description="Begun; a record without a session is one by itself.")
    records: int
    pass_rate: float | None = Field(description="Mean of the complete conversations.")
    error_rate: float | None
    result_rate: float | None = Field(description="Share of records that no gate skipped.")


class Difference(Answer):
    """Candidate minus stable, with an interval that holds at all looks together."""

    lower: float
    upper: float


class Canary(Answer):
    """The decision on a candidate, and its grounds."""

    decision: str = Field(description="promote, hold or roll_back.")
    reason: str
    profile: str
    profile_version: str
    task: str = Field(description="Empty for the whole record.")
    stable: CanaryVersion
    candidate: CanaryVersion
    pass_rate: Difference
    decided_rate: Difference = Field(description="Of the shares without an error.")
    result_rate: Difference = Field(description="Of the shares of records with a result.")
    is_cut: bool = Field(description="Later results of a version are not read: never promoted.")
    margin: float
    alpha: float
    split_chance: float | None = Field(
        description="That traffic is split as planned, at most; null without a plan, or if cut."
    )
