"""Live drift detectors in the store."""

from collections.abc import Sequence
from typing import Protocol

from collector.store.alerts import DriftDelivery, DriftEvent, DriftState
from collector.store.decided import DecidedQuery, VersionQuery
from collector.store.slices import SliceQuery
from scouter.drift.canary import Result
from scouter.drift.detect.slices import Slice
from scouter.drift.series.observed import Observed, Place


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

    def save_drift(self, states: Sequence[DriftState], events: Sequence[DriftEvent]) -> int:
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

    def append_deliveries(self, deliveries: Sequence[DriftDelivery]) -> int:
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
