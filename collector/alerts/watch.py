"""The watch over results: conditions of profiles, detectors with gauges, messages to people."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeGuard

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from collector.alerts.alert import Alert, AlertAction, DriftAlert, DriftAlertState, TroubleAlert
from collector.alerts.conditions import AlertMonitor
from collector.alerts.delivery.delivery import Delivery, channels_of
from collector.alerts.evidence import CurrentSeries
from collector.alerts.health import HealthWatch
from collector.alerts.watcher import DriftWatcher
from collector.prices import NO_PRICES, PriceTable
from collector.settings.model import CollectorSettings
from collector.store.rows import AlertState
from collector.store.store import Store
from collector.worker.profiles import ProfileRegistry
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.group import Pace

WHOLE: Final = "(record)"
"""Label of the whole record."""
_LABELS: Final = ("space", "profile", "alias", "task", "kind", "service", "environment")
_GAUGES: Final = {
    "rate": "Mean outcome of the last 500 to 1,000 conversations or single records; of the kind "
    "error, the share without an error.",
    "rate_lower": "Lower bound of that (Wilson, 95 %).",
    "rate_upper": "Upper bound of that.",
    "baseline": "Healthy mean that it is compared with; absent while none is known.",
    "baseline_lower": "What the healthy mean is at least.",
    "evidence": "E-value of a fall; the alarm is at 1 / alpha.",
    "fallen": "1 while a fall is proven, else 0.",
    "firing": "1 while the alert about this task, in any version, fires; 0 while it is "
    "on trial, acknowledged or silenced, and without one.",
}


class DriftMeasures(Collector):
    """Gauges of the live detectors: one set for each task that an agent has by an active profile.

    They are about the version of the agent that ran last.

    Args:
        watcher: The detectors.
        health: Watches what keeps results from being made.
        monitor: Looks at the conditions of profiles.
    """

    def __init__(self, watcher: DriftWatcher, health: HealthWatch, monitor: AlertMonitor) -> None:
        self._watcher, self._health, self._monitor = watcher, health, monitor

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Look at every series."""
        families = {
            name: GaugeMetricFamily(f"scouter_task_{name}", text, labels=_LABELS)
            for name, text in _GAUGES.items()
        }
        alerts = self._watcher.all_alerts()
        firing: dict[tuple[str, ...], float] = {}
        for each in self._watcher.current_series():
            if each.key.slice:
                continue  # they are many, and their alert is that of the record
            labels = [
                each.key.space, each.profile.name, each.profile.alias, each.key.task or WHOLE,
                each.key.kind.value, each.key.agent.service, each.key.agent.environment,
            ]  # fmt: skip
            firing[tuple(labels)] = 0.0
            for name, value in _values(each).items():
                if value is not None:
                    families[name].add_metric(labels, value)
        firing |= {_labels(each): 1.0 for each in alerts if _is_loud(each)}
        for labels, value in firing.items():
            families["firing"].add_metric(labels, value)
        yield from families.values()
        yield _counted(alerts)
        yield self._conditions(alerts)
        yield from self._trouble(alerts)
        yield self._last_look()

    def _last_look(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "scouter_watch_last_look_timestamp_seconds",
            "When the collector looked last for what keeps results from being made, which it does "
            "each minute, since 1970; absent with --drift off.",
        )
        if self._health.looked_ns is not None:
            family.add_metric([], self._health.looked_ns / 1e9)
        return family

    def _conditions(self, alerts: Iterable[Alert]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "scouter_alert_firing",
            "1 while the alert about the condition of a profile fires; 0 while it is acknowledged "
            "or silenced, and without one.",
            labels=("space", "profile", "alias"),
        )
        quiet = {
            (each.space, each.profile_uid)
            for each in alerts
            if isinstance(each, DriftAlert)
            and each.condition
            and each.state is not DriftAlertState.FIRING
        }
        for each in self._monitor.statuses():
            is_quiet = (each.space, each.profile.uid) in quiet
            family.add_metric(
                [each.space, each.profile.name, each.profile.alias],
                float(each.state is AlertState.FIRING and not is_quiet),
            )
        return family

    def _trouble(self, alerts: Iterable[Alert]) -> Iterable[GaugeMetricFamily]:
        names = ("space", "trouble")
        found = GaugeMetricFamily(
            "scouter_trouble",
            "1 while something keeps results from being made; GET /api/v1/alerts says what.",
            labels=names,
        )
        firing = GaugeMetricFamily(
            "scouter_trouble_firing",
            "1 while an alert about it fires, 0 while all are acknowledged or silenced.",
            labels=names,
        )
        quiet = {
            each.key
            for each in alerts
            if isinstance(each, TroubleAlert) and each.state is not DriftAlertState.FIRING
        }
        keys = {each.key for each in self._health.findings()}
        loud = {key[:2] for key in keys - quiet}
        for key in sorted({key[:2] for key in keys}):
            found.add_metric(key, 1)
            firing.add_metric(key, float(key in loud))
        yield from (found, firing)


def _is_loud(alert: Alert) -> TypeGuard[DriftAlert]:
    """Tell whether an alert of the detectors fires."""
    is_proven = isinstance(alert, DriftAlert) and not alert.condition
    return is_proven and alert.state is DriftAlertState.FIRING


def _labels(alert: DriftAlert) -> tuple[str, ...]:
    """The task in the first message of an alert, in any version: it stays as the alert stands."""
    first = alert.parts[0]
    return (
        alert.space, alert.profile_name, alert.alias, first.task or WHOLE, first.kind.value,
        alert.service, alert.environment,
    )  # fmt: skip


def _counted(alerts: Iterable[Alert]) -> GaugeMetricFamily:
    family = GaugeMetricFamily("scouter_alerts_open", "Open alerts.", labels=("space", "state"))
    counts = Counter((each.space, each.state.value) for each in alerts)
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    return family


def _values(each: CurrentSeries) -> dict[str, float | None]:
    return {
        "rate": each.rate,
        "rate_lower": each.lower,
        "rate_upper": each.upper,
        "baseline": each.healthy,
        "baseline_lower": each.healthy_lower,
        "evidence": each.evidence,
        "fallen": float(each.fall is not None),
    }


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
        self._reported_unwatched: frozenset[tuple[str, str]] = frozenset()
        self._watched: Sequence[tuple[str, AgentEvalProfile]] = ()
        self.monitor = AlertMonitor(store)
        self.health = HealthWatch(
            store,
            lambda: self.watcher.active(),
            int((2 * settings.deadline_s + 60) * 1e9),
            lambda: self.watcher.errored_profiles(),
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
            notify=self.delivery.changed,
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
        for key in unwatched.keys() - self._reported_unwatched:
            _log.warning(
                "profile %r (space %r) has an alert and is not active: nothing is watched; "
                "scouter profile activate %s",
                unwatched[key].profile.alias, *key,
            )  # fmt: skip
        self._reported_unwatched = frozenset(unwatched)
