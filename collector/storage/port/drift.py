"""Rows that the live drift detectors keep and read."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from scouter.drift.canary import Result
from scouter.drift.detect.slices import Slice
from scouter.drift.series.observed import Observed, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftState:
    """The state of one group of series, or of all of them together."""

    name: str
    """Its name; a later state of that name takes its place."""
    body: str
    """JSON; empty where the group is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftEvent:
    """An alert was opened, or changed."""

    space: str
    alert_id: str
    at_ns: int
    state: str
    """State of the alert from then on."""
    body: str
    """JSON: all of the alert as it is from then on."""


class DeliveryState(StrEnum):
    """The progress of delivering an alert's state."""

    BEGUN = "begun"
    """Durable before the first request: after a crash it is known that the far side may have it."""
    WAITING = "waiting"
    """The far side did not take it, and is asked again."""
    SENT = "sent"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftDelivery:
    """One step of telling a channel about a state of an alert."""

    space: str
    alert_id: str
    channel: str
    alert_state: str
    """The state that is told: `firing` or `resolved`."""
    changed_ns: int
    """Time at which the alert got into that state."""
    at_ns: int
    state: DeliveryState
    attempts: int
    answer: str
    """Reply of the channel, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceQuery:
    """The results that are cut into slices."""

    space: str
    profile_uid: str
    task: str
    """Empty for whole records."""
    since_ns: int
    """Results from then on are held against those before."""
    service: str | None = None
    """None for any."""
    environment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedQuery:
    """The final results that are asked for."""

    space: str
    profile: str | None = None
    """Alias, name, uid or digest."""
    since_ns: int | None = None
    """Evaluated then or later."""
    until_ns: int | None = None
    """Evaluated before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionQuery:
    """The results of two versions that take traffic side by side."""

    space: str
    profile_uid: str
    stable: str
    candidate: str
    service: str | None = None
    """None for any."""
    environment: str | None = None
    task: str
    """Empty for whole records."""
    since_ns: int | None
    """None for the first result of the candidate."""


class DriftStore(Protocol):
    """The part of `Store` that is about live detectors."""

    def decided_after(
        self, place: Place, limit: int, within: DecidedQuery | None = None
    ) -> list[Observed]:
        """First final results behind a place, in the order of completion.

        There is one for each record, and for each session that is evaluated as a whole: the first
        one without a pending task. If a judge was not asked, for its budget or its sample, the
        outcome of the whole record is left out; its tasks are not. No yardstick is known here.

        Args:
            place: Only those behind it.
            limit: So many at most.
            within: Those that are asked for; of all spaces and times if none is given.
        """
        ...

    def version_results(self, query: VersionQuery, limit: int) -> list[tuple[str, Result]]:
        """First final results of two versions, in the order of completion.

        Args:
            query: Selects the results.
            limit: Most results of each version, from the first on: a later look sees them again,
                and more.

        Returns:
            Each result with its version, also of tasks that a gate skipped. Results without an
            answer of the judge, for its budget or its sample, are left out.
        """
        ...

    def save_drift(
        self, states: Sequence[DriftState], events: Sequence[DriftEvent]
    ) -> "Future[int]":
        """Keep states and events in one commit: after a crash there are all of them, or none."""
        ...

    def drift_states(self) -> list[DriftState]:
        """The latest state under each name, in any order; those that are gone are left out."""
        ...

    def drift_alerts(self, space: str | None = None) -> list[DriftEvent]:
        """The latest event of each alert, the newest first; of all spaces if none is given."""
        ...

    def drift_history(self, space: str, alert_id: str) -> list[DriftEvent]:
        """All events of one alert, the oldest first; empty where there is no such alert."""
        ...

    def append_deliveries(self, deliveries: Sequence[DriftDelivery]) -> "Future[int]":
        """Keep steps of deliveries."""
        ...

    def last_deliveries(self, channel: str) -> list[DriftDelivery]:
        """The latest step of a channel for each alert, in any order."""
        ...

    def deliveries_of(self, space: str, alert_id: str) -> list[DriftDelivery]:
        """The latest step for each channel and state of an alert, the oldest first."""
        ...

    def whole(self, query: SliceQuery) -> Slice:
        """The same results together, under an empty name."""
        ...

    def slices(self, query: SliceQuery) -> tuple[list[Slice], int]:
        """Passes and fails before and since a moment, of those that have something in common.

        That is a tag, a tool, a model, an agent, the route through several agents, or the version
        of the service where there are several.

        Returns:
            The slices by name, and the results since the moment that were looked at: at most the
            first 5,000, and as many of the last before it.
        """
        ...
