"""Alerts of conditions and of detectors, and obstacles to results."""

import datetime

from pydantic import Field

from scouter.client.models.answer import Answer


class Alert(Answer):
    """An alert condition and the evidence for its state."""

    space: str
    profile: str
    profile_name: str = ""
    """Its full name, where the alias is another."""
    profile_version: str
    alias: str
    state: str
    """`inactive`, `firing`, `acknowledged`, `silenced` or `resolved`."""
    alert_id: str = ""
    """Of the open alert about it; empty while there is none."""
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
    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(default="", description="Its full name, where the alias is another.")
    profile_version: str
    uid: str = Field(description="Key of the version, for POST /api/v1/profiles/{uid}/activate.")
    condition: str = Field(description="In words.")


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
    link: str = Field(description="Path of the trace, or of the record where it has none.")
    reason: str = Field(
        default="", description="Why its task erred, such as `missing_path`; empty if it failed."
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
    name: str = ""
    """Name of the person or token that changed it last."""
    note: str = ""
    title: str
    """One sentence: the task, the version and the time of the fall."""
    condition: str = ""
    """Condition of a profile that holds; empty for what a detector proved."""
    opened: DriftFigures
    """As it was proven; of a condition, as it was when it fired."""
    now: DriftFigures | None = None
    """With what came since; None once it is over."""
    fell: tuple[FallenTask, ...] = ()
    """Parts that pass less than in the version before, while it is open: the whole record, then
    its tasks, the worst first."""
    stands: bool = False
    """Stands among all open alerts of the space looked at together (e-BH)."""


class Culprit(Answer):
    """A tag, tool, model, agent, route or version whose results fell."""

    name: str = Field(
        description="Such as `tool search`, `model m`, `agent a`, `route a > b`, `version 2` or"
        " `tag tier=free`.",
    )
    rate_before: float = Field(description="Its own; where it is new, that of all results.")
    new: bool = Field(default=False, description="It had fewer than 30 results before the fall.")
    rate: float = Field(description="Since the fall.")
    records: int = Field(description="Since the fall.")
    weight: float = Field(description="Its own fall times its share of the results since.")
    evidence: float = Field(description="E-value; it stands among all slices (e-BH).")


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
    answer: str = Field(description="Of the far side, without secrets.")


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


class Trouble(Answer):
    """Something that keeps results from being made, or from being complete."""

    trouble: str
    """`not_evaluated`, `judge_waits`, `judge_budget`, `errored`, `unknown_profile`, `incomplete`,
    `dead_letters`, `dropped`, `lost` or `silent`."""
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
