"""Models of the API's answers."""

from pydantic import BaseModel, ConfigDict, Field

from scouter.client.models.alerts import Culprit, DriftExample, FallenTask, UnwatchedAlert
from scouter.client.models.drift import DriftNumber, DriftOutcome
from scouter.client.models.evaluations import TaskResult
from scouter.evaluate.outcome import Outcome


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


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


class Alert(_Answer):
    """An alert condition and the evidence for its state."""

    space: str
    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(description="Its full name, where the alias is another.")
    profile_version: str
    alias: str = Field(description="The same as `profile`.")
    state: str = Field(description="inactive, firing, acknowledged, silenced or resolved.")
    alert_id: str = Field(description="Of the open alert about it; empty while there is none.")
    since: str | None = Field(description="When the state was entered.")
    condition: str = Field(description="In words.")
    pass_rate: float | None
    lower: float
    upper: float
    passed: int
    n: int = Field(description="Records and sessions that the rate is taken over.")
    window: int
    min_samples: int


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
    name: str = Field(description="Of the person or token that changed it last, or empty.")
    note: str
    title: str = Field(description="In words: the thing that got worse, its agent, its begin.")
    condition: str = Field(
        default="",
        description="The condition of a profile that holds; empty for what a detector has proven.",
    )
    opened: DriftFigures = Field(
        description="As it was proven; of a condition, as it was when it fired."
    )
    now: DriftFigures | None = Field(description="With what came since; null once it is over.")
    fell: list[FallenTask] = Field(
        description="While it is open, what passes less in its version than in the one before, by "
        "95 % intervals that are apart: the whole record, then its tasks, the worst first."
    )
    stands: bool = Field(
        description="Stands among all open alerts of the space looked at together (e-BH)."
    )


class DriftDelivery(_Answer):
    """A message about an alert, to one channel."""

    channel: str = Field(description="log, webhook, slack, pagerduty or alertmanager.")
    told: str = Field(description="State that is told: firing or resolved.")
    state: str = Field(description="begun, waiting (asked again), sent or given_up.")
    at: str
    attempts: int
    answer: str = Field(description="Of the far side, without secrets.")


class DriftAlertLook(DriftAlert):
    """An alert with its examples and all that became of it."""

    explained_by: list[Culprit] = Field(
        description="Parts that fell, the largest share first; of the kind error empty."
    )

    examples: list[DriftExample] = Field(
        description="The newest failed records at its opening; of passes also those that errored "
        "last since it began."
    )
    history: list[DriftAlert] = Field(description="Oldest first.")
    deliveries: list[DriftDelivery] = Field(
        description="Whom it was told to: the last step for each channel and state, oldest first."
    )


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


class Trouble(_Answer):
    """Something that keeps results from being made, or from being complete."""

    trouble: str = Field(
        description="not_evaluated, judge_waits, judge_budget, errored, unknown_profile, "
        "incomplete, dead_letters, dropped, overtaken, lost or silent."
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
