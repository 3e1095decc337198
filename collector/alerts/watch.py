"""The watch over results: conditions of profiles, detectors, and the messages to people."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry

from collector.alerts.alert import Alert, AlertAction
from collector.alerts.conditions import AlertMonitor
from collector.alerts.delivery.delivery import Delivery, channels_of
from collector.alerts.health import HealthWatch
from collector.alerts.measures import DriftMeasures
from collector.alerts.watcher import DriftWatcher
from collector.prices import NO_PRICES, PriceTable
from collector.settings.model import CollectorSettings
from collector.store.store import Store
from collector.worker.profiles import ProfileRegistry
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.group import Pace

_log: Final = logging.getLogger(__name__)


class Watch:
    """The parts that watch, wired together.

    Args:
        settings: Of the process.
        store: Has the results.
        profiles: What they are about.
        registry: Shows the series.
        behind: By space in which something that is due has waited for too long, how much and why.
        refer: Has actions on alerts carried out elsewhere while nothing is watched here.
        prices: One's own, of models.
    """

    def __init__(
        self,
        settings: CollectorSettings,
        store: Store,
        profiles: ProfileRegistry,
        registry: CollectorRegistry,
        behind: Callable[[], Mapping[str, str]],
        refer: Callable[[AlertAction], Alert | None] | None = None,
        prices: PriceTable = NO_PRICES,
    ) -> None:
        self._settings, self._profiles = settings, profiles
        self._told_unwatched: frozenset[tuple[str, str]] = frozenset()
        self._watched: Sequence[tuple[str, AgentEvalProfile]] = ()
        self.monitor = AlertMonitor(store)
        self.health = HealthWatch(
            store,
            lambda: self.watcher.active(),
            int((2 * settings.deadline_s + 60) * 1e9),
            lambda: self.watcher.erring(),
            behind,
        )
        self.delivery = Delivery(
            channels_of(settings), store, registry, public_url=settings.public_url or ""
        )
        self.pace = Pace(
            int(settings.session_quiet_s * 1e9),
            int(settings.session_deadline_s * 1e9),
            int(settings.deadline_s * 1e9),
        )
        is_by_run_length = settings.drift_detector == "run-length"
        self.watcher = DriftWatcher(
            store,
            alpha=settings.drift_alpha,
            run_length=settings.drift_run_length if is_by_run_length else None,
            pace=self.pace,
            is_shadow=settings.drift == "shadow",
            on_trial=settings.drift_shadow,
            told=self.delivery.changed,
            findings=self.health.look,
            monitor=self.monitor,
            channels=self.delivery.channels,
            prices=prices,
            refer=refer,
        )
        registry.register(DriftMeasures(self.watcher, self.health, self.monitor))

    def start(self) -> None:
        """Begin to look, unless nothing is to be watched."""
        if self._settings.drift != "off":
            self.watcher.start()
            self.delivery.start()

    def stop(self) -> None:
        """Keep what was found, and end."""
        self.watcher.stop()
        self.delivery.stop()

    def load(self) -> None:
        """Read what another process has found, and show it; for one that only stands by.

        Raises:
            TransientError: The store cannot be read now.
        """
        self.watcher.load()
        self.health.load()
        self.monitor.show(self._watched)

    def follow(
        self, conditions: Callable[[Iterable[tuple[str, AgentEvalProfile]]], object] | None = None
    ) -> None:
        """Let the alerts follow the active profiles: they are about what runs, not what ran.

        Args:
            conditions: Is given the active ones, in place of the monitor.
        """
        known = self._profiles.everything()
        active = [(each.space, each.profile) for each in known if each.is_active]
        self._watched = active
        (conditions or self.monitor.follow)(active)
        self.watcher.follow((each.space, each.profile, each.is_active) for each in known)
        unwatched = {(each.space, each.uid): each for each in self._profiles.unwatched()}
        for key in unwatched.keys() - self._told_unwatched:
            _log.warning(
                "profile %r (space %r) has an alert and is not active: nothing is watched; "
                "scouter profile activate %s",
                unwatched[key].profile.alias, *key,
            )  # fmt: skip
        self._told_unwatched = frozenset(unwatched)
