"""Alerts as events of PagerDuty.

Source: PagerDuty, "Events API v2: send an alert event".
"""

from collections.abc import Mapping
from typing import Final

from pydantic import SecretStr

from collector.alerts.alert import ATTENDED, Alert, DriftAlertState, TroubleAlert, rfc3339
from collector.alerts.delivery.notice import Notice
from collector.alerts.delivery.post import Poster, to_bytes
from collector.alerts.delivery.words import cut

_ACTIONS: Final = {
    DriftAlertState.FIRING: "trigger",
    DriftAlertState.ACKNOWLEDGED: "acknowledge",
    # There is no event for a silence. As another trigger opens a new incident then, people are
    # notified again once it is over; of an acknowledged incident they would not be.
    DriftAlertState.SILENCED: "resolve",
    DriftAlertState.RESOLVED: "resolve",
}
_SUMMARY: Final = 1_024
_EVENT_BYTES: Final = 512_000


class PagerDutyChannel:
    """Triggers an incident for each alert, acknowledges and resolves it; see `Channel`.

    A silence resolves it, too, and its end triggers another one.

    Args:
        key: Integration key of a service, 32 characters.
        base: `https://events.pagerduty.com`, or that of its EU region.
    """

    name = "pagerduty"
    acts = ATTENDED
    pause_s = 0.0
    heartbeat_s: float | None = None

    def __init__(self, key: SecretStr, base: str) -> None:
        self._key, self._url = key, f"{base}/v2/enqueue"
        self._poster = Poster(self.name, secrets=[key])

    def send(self, notice: Notice) -> str:
        """Send an event."""
        body = self._body(notice, _details(notice))
        if len(to_bytes(body)) > _EVENT_BYTES:
            body = self._body(notice, {})
        return self._poster.post(self._url, body)

    def close(self) -> None:
        """Close the connections."""
        self._poster.close()

    def _body(self, notice: Notice, details: Mapping[str, object]) -> dict[str, object]:
        alert = notice.alert
        payload = {
            "summary": cut(f"{notice.title}; {notice.evidence}", _SUMMARY),
            "source": cut(alert.service or alert.alias or "scouter", _SUMMARY),
            "severity": notice.severity,
            "timestamp": rfc3339(alert.opened_ns),
            "component": cut(_part(alert), _SUMMARY),
            "group": cut(alert.alias, _SUMMARY),
            "class": str(alert.kind),
            "custom_details": details,
        }
        link = {"client_url": notice.url} if notice.url else {}
        return {
            "routing_key": self._key.get_secret_value(),
            "event_action": _ACTIONS[alert.state],
            "dedup_key": notice.dedup_key,
            "client": "Scouter",
            **link,
            "payload": payload,
            "links": [
                {"href": each.url, "text": cut(each.name, _SUMMARY)}
                for each in notice.examples
                if each.url
            ],
        }


def _part(alert: Alert) -> str:
    if isinstance(alert, TroubleAlert):
        return alert.trouble
    return alert.slice or alert.task or "(record)"


def _details(notice: Notice) -> dict[str, object]:
    alert, opened = notice.alert, notice.opened
    figures = {} if opened is None else opened.model_dump(exclude={"since_ns", "healthy", "lower"})
    return {
        "space": alert.space,
        "version": alert.version,
        "environment": alert.environment,
        **figures,
        "changed": notice.changed,
        "explained_by": list(notice.explained_by),
        "examples": [each.order for each in notice.examples],
        "more": f"scouter alerts show {alert.alert_id}",
    }
