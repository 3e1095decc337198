"""Gauges of the live detectors: one set for each task of an active profile, of what ran last."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from collector.alerts.drift.health import HealthWatch
from collector.alerts.drift.standing import Standing
from collector.alerts.drift.watcher import DriftWatcher

WHOLE: Final = "(record)"
"""Label of the whole record."""
_LABELS: Final = ("space", "profile", "alias", "task", "kind")
_GAUGES: Final = {
    "rate": "Mean outcome of the last 500 to 1,000 conversations or single records; of the kind "
    "error, the share without an error.",
    "rate_lower": "Lower bound of that (Wilson, 95 %).",
    "rate_upper": "Upper bound of that.",
    "baseline": "Healthy mean that it is held against; absent while none is known.",
    "baseline_lower": "What the healthy mean is at least.",
    "evidence": "E-value of a fall; the alarm is at 1 / alpha.",
    "fallen": "1 while a fall is proven, else 0.",
}


class DriftMeasures(Collector):
    """See the module.

    Args:
        watcher: The detectors.
        health: Watches what keeps results from being made.
    """

    def __init__(self, watcher: DriftWatcher, health: HealthWatch) -> None:
        self._watcher, self._health = watcher, health

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Look at every series."""
        families = {
            name: GaugeMetricFamily(f"scouter_task_{name}", text, labels=_LABELS)
            for name, text in _GAUGES.items()
        }
        for each in self._watcher.standings():
            labels = [
                each.key.space, each.profile.name, each.profile.alias, each.key.task or WHOLE,
                each.key.kind.value,
            ]  # fmt: skip
            for name, value in _values(each).items():
                if value is not None:
                    families[name].add_metric(labels, value)
        yield from families.values()
        yield self._alerts()
        yield self._trouble()

    def _alerts(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "scouter_alerts_open", "Open alerts of the detectors.", labels=("space", "state")
        )
        counts = Counter((each.space, each.state.value) for each in self._watcher.all_alerts())
        for labels, count in sorted(counts.items()):
            family.add_metric(labels, count)
        return family

    def _trouble(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "scouter_trouble",
            "1 while something keeps results from being made; GET /api/v1/alerts says what.",
            labels=("space", "trouble"),
        )
        for space, trouble in sorted({each.key[:2] for each in self._health.findings()}):
            family.add_metric([space, trouble], 1)
        return family


def _values(each: Standing) -> dict[str, float | None]:
    return {
        "rate": each.rate,
        "rate_lower": each.lower,
        "rate_upper": each.upper,
        "baseline": each.healthy,
        "baseline_lower": each.healthy_lower,
        "evidence": each.evidence,
        "fallen": float(each.fall is not None),
    }
