"""Alerts to a Prometheus Alertmanager.

It forgets an alert that is not sent again, so what stands is sent on a heartbeat. Its identity are
the labels: they have no number that changes while the alert stands.

Source: Prometheus, "Alertmanager API v2 (openapi.yaml)" and "Sending alerts".
"""

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import SecretStr

from collector.alerts.alert import Alert, DriftAlertState, TroubleAlert, rfc3339
from collector.alerts.delivery.notice import Notice
from collector.alerts.delivery.post import Poster
from scouter.drift.series.series import Kind

_NS: Final = 10**9
_BEATS: Final = 4
"""An alert ends by itself after so many heartbeats that did not come, as with Prometheus."""
_SHORTEST_S: Final = 300.0
"""And not before that: a collector that starts again needs a moment."""


_NAMES: Final = {
    Kind.PASS: "ScouterResultsFell",
    Kind.ERROR: "ScouterErrorsRose",
    Kind.SCORE: "ScouterScoresFell",
    Kind.AMOUNT: "ScouterLimitExceeded",
    "trouble": "ScouterTrouble",
}


class AlertmanagerChannel:
    """Posts each alert, again and again while it stands; see `Channel`.

    Args:
        base: Its address, with the path of `--web.route-prefix` if it has one.
        headers: Sent with each request.
        heartbeat_s: Between two tellings of an alert that stands.
        now_ns: Wall clock.
    """

    name = "alertmanager"
    acts: frozenset[DriftAlertState] = frozenset()
    pause_s = 0.0

    def __init__(
        self,
        base: str,
        headers: Mapping[str, SecretStr] | None,
        heartbeat_s: float,
        now_ns: Callable[[], int],
    ) -> None:
        self._url, self._now_ns = f"{base}/api/v2/alerts", now_ns
        self.heartbeat_s = heartbeat_s
        self._poster = Poster(self.name, headers=headers)

    def send(self, notice: Notice) -> str:
        """Post one alert, as a faulty one would spoil the answer about others."""
        alert = notice.alert
        if notice.is_resolved:
            ends_ns = max(min(alert.changed_ns, self._now_ns()), alert.opened_ns)
        else:
            ends_ns = self._now_ns() + int(max(_SHORTEST_S, _BEATS * self.heartbeat_s) * _NS)
        body = {
            "labels": labels_of(alert, notice.severity),
            "annotations": _annotations(notice),
            "startsAt": rfc3339(alert.opened_ns),
            "endsAt": rfc3339(ends_ns),
            **({"generatorURL": notice.url} if notice.url else {}),
        }
        return self._poster.post(self._url, [body])

    def close(self) -> None:
        """Close the connections."""
        self._poster.close()


def labels_of(alert: Alert, severity: str) -> dict[str, str]:
    """The identity of an alert's cause, as labels; empty ones are left out.

    Of falls that are one alert it is the one in its first message: the headline may change.
    """
    is_trouble = isinstance(alert, TroubleAlert)
    first = alert if is_trouble or not alert.parts else alert.parts[0]
    found = {
        "alertname": _NAMES[first.kind],
        "severity": severity,
        "space": alert.space,
        "profile": alert.profile_name,
        "alias": alert.alias,
        "profile_uid": alert.profile_uid,
        "task": "" if is_trouble else first.task or "(record)",
        "slice": "" if is_trouble else first.slice,
        "trouble": alert.trouble.value if is_trouble else "",
        "service": alert.service,
        "environment": alert.environment,
        "version": alert.version,
    }
    return {name: value for name, value in found.items() if value}


def _annotations(notice: Notice) -> dict[str, str]:
    return {
        "summary": notice.title,
        "description": "\n".join(notice.lines()),
        "alert_id": notice.alert.alert_id,
    }
