"""Control: profiles, alerts and judges, beside all telemetry."""

from collections.abc import Sequence
from typing import Protocol

from collector.store.judges import CalibrationRow, GoldOutcome, GoldQuery
from collector.store.rows import AlertEvent, ProfileChange, ProfileRow
from scouter.evaluate.outcome import Outcome


class ControlStore(Protocol):
    """Small tables that are read whole; appends return the number of their commit."""

    def append_profile(self, profile: ProfileRow) -> int:
        """Register a profile, or its newer body.

        `is_active` makes it its alias' active one; without, it is not, and others stay as they are.
        """
        ...

    def profiles(self) -> list[ProfileRow]:
        """All registered profiles with their latest body, in order of registration."""
        ...

    def profile_changes(self) -> list[ProfileChange]:
        """Everything that became of profiles, in order."""
        ...

    def append_alert_events(self, events: Sequence[AlertEvent]) -> int:
        """Keep changes of alert states."""
        ...

    def last_alert_events(self) -> list[AlertEvent]:
        """The latest event of every alert."""
        ...

    def last_outcomes(
        self, space: str, profile_uid: str, count: int, since_ns: int = 0
    ) -> list[Outcome]:
        """Outcomes of a profile's last `count` first evaluations since a time, oldest first.

        The first evaluation on a record is its first one that is not pending. It is left out if a
        judge was not asked, for its budget or its sample.
        """
        ...

    def append_calibrations(self, calibrations: Sequence[CalibrationRow]) -> int:
        """Keep what is known of judges; the same digest again changes nothing."""
        ...

    def calibrations(self) -> list[CalibrationRow]:
        """All calibrations, each digest once, in the order in which they came."""
        ...

    def append_gold_outcomes(self, outcomes: Sequence[GoldOutcome]) -> int:
        """Keep outcomes of gold items; they are about no record, and no count has them."""
        ...

    def gold_outcomes(self, query: GoldQuery) -> list[GoldOutcome]:
        """Outcomes of gold items by one judge, by slot; of two on one slot the first."""
        ...
