"""Alerts of the live detectors, as data: where each stands, and the evidence as it was proven."""

import json
from enum import StrEnum
from hashlib import blake2b

from pydantic import BaseModel, ConfigDict

from collector.storage.port.drift import DriftEvent
from scouter.drift.series.series import Kind, SeriesKey
from scouter.drift.series.watch import Fall


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


class Figures(BaseModel):
    """Evidence of a fall at one moment."""

    model_config = ConfigDict(frozen=True)

    since_ns: int
    """When the change most likely began."""
    records: int
    failed: int
    evidence: float
    healthy: float
    """Mean of what it is held against."""
    lower: float
    """Lower bound of that mean."""
    against: str
    """The reference, in words."""

    @staticmethod
    def of(fall: Fall) -> "Figures":
        """Take the figures of a proven fall."""
        known = fall.reference.baseline
        return Figures(
            since_ns=fall.since_ns, records=fall.records, failed=fall.failed,
            evidence=fall.evidence, healthy=known.mean, lower=known.lower,
            against=fall.reference.sentence(),
        )  # fmt: skip


class DriftAlert(BaseModel):
    """One alert from its opening to its end; each change makes a new one with the same id."""

    model_config = ConfigDict(frozen=True)

    alert_id: str
    space: str
    profile_uid: str
    profile_name: str
    alias: str
    profile_digest: str
    task: str
    """Empty for the whole record."""
    kind: Kind
    service: str
    environment: str
    version: str
    state: DriftAlertState
    opened_ns: int
    changed_ns: int
    opened: Figures
    """As it was proven."""
    examples: tuple[str, ...]
    """Evaluations that failed, the newest first."""
    silenced_until_ns: int | None = None
    by: str = ""
    """Id of the token that changed it last; empty for the collector itself."""
    note: str = ""
    """Why, in words."""
    condition: str = ""
    """The condition of a profile that holds; empty where a detector has proven a fall."""
    channel: str = ""
    """The only channel that is told; empty for all."""

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

    @staticmethod
    def of_event(event: DriftEvent) -> "DriftAlert":
        """Read what `event` wrote."""
        return DriftAlert.model_validate_json(event.body)


def alert_id(key: SeriesKey, unit: int) -> str:
    """Name the alert that a series opens with its outcome of this number.

    It follows from the results alone, so that a collector which takes them again after a crash
    opens the same alert and not a second one.
    """
    identity = json.dumps([*key, unit])
    return blake2b(identity.encode(), digest_size=8).hexdigest()
