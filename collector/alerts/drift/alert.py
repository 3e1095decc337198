"""Alerts of the live watch, as data: where each stands, and the evidence as it was proven."""

import json
from enum import StrEnum
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, TypeAdapter

from collector.alerts.drift.trouble import Trouble, TroubleKey
from collector.store.alerts import DriftEvent
from scouter.drift.series.series import Agent, Kind, SeriesKey
from scouter.drift.series.watch import Fall

NOBODY: Final = "nobody"
"""Channel of an alert that is listed and not delivered."""


class ConditionKey(NamedTuple):
    """The name of a profile's own alert condition."""

    space: str
    profile_uid: str


AlertKey: TypeAlias = SeriesKey | TroubleKey | ConditionKey
"""The name of what an alert is about; each has one open alert at most."""


class DriftAlertState(StrEnum):
    """The state of an alert."""

    SHADOW = "shadow"
    """Proven, and told to nobody: the watch is on trial."""
    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    """Somebody looks after it."""
    SILENCED = "silenced"
    """Told to nobody until a stated time."""
    RESOLVED = "resolved"
    """Over: by evidence of recovery, by a person, or as something else runs now."""


ATTENDED: Final = frozenset({DriftAlertState.ACKNOWLEDGED, DriftAlertState.SILENCED})
"""States of an open alert that a person has put it in, after others were told."""


class Figures(BaseModel):
    """Evidence of a fall at one moment."""

    model_config = ConfigDict(frozen=True)

    since_ns: int
    """Time at which the change most likely began."""
    records: int
    failed: int
    evidence: float
    healthy: float
    """Mean of what it is held against."""
    lower: float
    """Lower bound of that mean."""
    against: str
    """The reference, in words."""
    mean: float | None = None
    """Mean outcome since the change; None in what an earlier version kept."""
    run_length: float | None = None
    """Units between two false alarms on average, where that is the promise in place of a chance."""

    @staticmethod
    def of(fall: Fall) -> "Figures":
        """Take the figures of a proven fall."""
        known = fall.reference.baseline
        return Figures(
            since_ns=fall.since_ns, records=fall.records, failed=fall.failed,
            evidence=fall.evidence, healthy=known.mean, lower=known.lower,
            against=fall.reference.sentence(), mean=fall.mean, run_length=fall.run_length,
        )  # fmt: skip


class _AlertBase(BaseModel):
    """One alert from its opening to its end; each change makes a new one with the same id."""

    model_config = ConfigDict(frozen=True)

    alert_id: str
    space: str
    profile_uid: str = ""
    profile_name: str = ""
    alias: str
    """Alias of the profile; empty where the alert is about none."""
    profile_digest: str = ""
    task: str = ""
    """Empty for the whole record."""
    service: str = ""
    environment: str = ""
    version: str = ""
    state: DriftAlertState
    opened_ns: int
    changed_ns: int
    silenced_until_ns: int | None = None
    by: str = ""
    """Id of the token that changed it last; empty for the collector itself."""
    name: str = ""
    """Name of the person or token that changed it last."""
    note: str = ""
    """Why, in words."""
    condition: str = ""
    """The condition of a profile that holds; empty where a detector has proven a fall."""
    channel: str = ""
    """The only channel that is told; empty for all, `NOBODY` for none."""

    @property
    def is_open(self) -> bool:
        """False once it is resolved."""
        return self.state is not DriftAlertState.RESOLVED

    def event(self) -> DriftEvent:
        """The alert as the store keeps it."""
        return DriftEvent(
            space=self.space,
            alert_id=self.alert_id,
            at_ns=self.changed_ns,
            state=self.state.value,
            body=self.model_dump_json(),
        )


class DriftAlert(_AlertBase):
    """A task fails more, errs more, or has lower scores; or the condition of a profile holds."""

    kind: Kind
    opened: Figures
    """As it was proven."""
    examples: tuple[str, ...]
    """Evaluations that failed, the newest first."""

    @property
    def key(self) -> SeriesKey | ConditionKey:
        """The series, or the condition, that it is about."""
        if self.condition:
            return ConditionKey(self.space, self.profile_uid)
        agent = Agent(self.service, self.environment, self.version)
        return SeriesKey(self.space, self.profile_uid, agent, self.task, self.kind)


class TroubleAlert(_AlertBase):
    """Something keeps results from being made, or from being complete."""

    kind: Literal["trouble"] = "trouble"
    trouble: Trouble
    message: str
    """The finding as it was when the alert was opened, and the remedy."""

    @property
    def key(self) -> TroubleKey:
        """The cause that it is about."""
        return TroubleKey(self.space, self.trouble, self.alias)


Alert: TypeAlias = DriftAlert | TroubleAlert
_ALERT: Final[TypeAdapter[Alert]] = TypeAdapter(Alert)


def alert_of(event: DriftEvent) -> Alert:
    """Read what `event` of an alert wrote."""
    return read_alert(event.body)


def read_alert(body: str) -> Alert:
    """Read an alert from the JSON of its model."""
    return _ALERT.validate_json(body)


def alert_id(key: AlertKey, number: int) -> str:
    """Name the alert that a series opens with its outcome of this number, or a cause at this time.

    For a series it follows from the results alone, so that a collector which takes them again
    after a crash opens the same alert and not a second one.
    """
    identity = json.dumps([*key, number])
    return blake2b(identity.encode(), digest_size=8).hexdigest()
