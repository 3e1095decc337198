"""The conditions of profiles in a fleet: its workers store results, and the api looks at them."""

import threading
from collections.abc import Iterable

from collector.alerts.conditions import AlertMonitor
from collector.fleet.store import FleetStore
from scouter.drift.profile import AgentEvalProfile


class FleetConditions:
    """Has every result count once, whenever a profile is watched and whoever had the duties before.

    Args:
        store: Where results are read.
        monitor: Looks at the conditions.
    """

    def __init__(self, store: FleetStore, monitor: AlertMonitor) -> None:
        self._store, self._monitor = store, monitor
        self._lock = threading.Lock()
        self._place: int | None = None
        """The last commit whose results were told."""

    def follow(self, active: Iterable[tuple[str, AgentEvalProfile]]) -> None:
        """Watch these profiles and no others.

        Args:
            active: Spaces and profiles.

        Raises:
            TransientError: The store gives nothing now; call it again.

        Cost: commits wait for the last outcomes of profiles that were not watched.
        """
        # No result is stored between those that are told and those that are read for a profile.
        with self._lock, self._store.alone():
            if self._place is None:
                self._monitor.load()  # another process has had the duties since the start
            self._tell()
            self._monitor.follow(active)

    def look(self) -> None:
        """Tell of what was stored since the last time.

        Raises:
            TransientError: The store gives nothing now.
        """
        with self._lock:
            self._tell()

    def _tell(self) -> None:
        seq = self._store.last_seq()
        if self._place is not None:
            rows = self._store.evaluations_between(self._place, seq)
            self._monitor.observe([row for row in rows if row.is_first_decided])
        self._place = seq
