"""Alerts to Opsgenie, or to Jira Service Management, which takes the same requests.

Source: Opsgenie, "Alert API: create, acknowledge, snooze, close alert"; Jira Service Management,
"Integration events API".
"""

from typing import Final
from urllib.parse import quote

from pydantic import SecretStr

from collector.alerts.delivery.notice import Notice
from collector.alerts.delivery.post import Poster
from collector.alerts.delivery.words import cut, fit
from collector.alerts.drift.alert import ATTENDED, DriftAlertState
from collector.alerts.drift.message import rfc3339

_ACTS: Final = {
    DriftAlertState.ACKNOWLEDGED: "acknowledge",
    DriftAlertState.SILENCED: "snooze",
    DriftAlertState.RESOLVED: "close",
}
"""Verbs of the states in which there is an alert already."""
_USER: Final = 100
_MESSAGE: Final = 130
_DESCRIPTION: Final = 15_000
_TAG: Final = 50
_DETAIL: Final = 1_000
"""Eight of them fit into the 8,000 characters that all may have."""
_ENTITY: Final = 512
_PRIORITIES: Final = {"critical": "P2", "warning": "P3"}


class OpsgenieChannel:
    """Creates an alert there for each one here, acknowledges, snoozes and closes it; see `Channel`.

    Args:
        key: Of an API integration.
        base: `https://api.opsgenie.com`, or the address of its successor.
    """

    name = "opsgenie"
    acts = ATTENDED
    pause_s = 0.0
    heartbeat_s: float | None = None

    def __init__(self, key: SecretStr, base: str) -> None:
        self._url = f"{base}/v2/alerts"
        header = SecretStr(f"GenieKey {key.get_secret_value()}")
        self._poster = Poster(self.name, secrets=[key], headers={"Authorization": header})

    def send(self, notice: Notice) -> str:
        """Create or act on it; its answer says that it was taken, not that it was done."""
        alert = notice.alert
        act = _ACTS.get(alert.state)
        if act is None:
            return self._poster.post(self._url, _body(notice))
        alias = quote(notice.dedup_key, safe="")
        body = {"source": "Scouter", "note": cut(notice.evidence, _DESCRIPTION)}
        if alert.by:
            body["user"] = cut(alert.by, _USER)
        if alert.silenced_until_ns is not None:
            body["endTime"] = rfc3339(alert.silenced_until_ns)
        return self._poster.post(f"{self._url}/{alias}/{act}?identifierType=alias", body)

    def close(self) -> None:
        """Close the connections."""
        self._poster.close()


def _body(notice: Notice) -> dict[str, object]:
    alert = notice.alert
    lines = (cut(line, _DESCRIPTION // 4) for line in notice.lines())
    details = {
        "profile": alert.alias,
        "task": alert.task,
        "kind": str(alert.kind),
        "service": alert.service,
        "environment": alert.environment,
        "version": alert.version,
        "alert_id": alert.alert_id,
    }
    return {
        "message": cut(notice.title, _MESSAGE),
        "alias": notice.dedup_key,
        "description": fit(lines, _DESCRIPTION),
        "tags": [cut(tag, _TAG) for tag in ("scouter", alert.space, alert.alias) if tag],
        "details": {name: cut(value, _DETAIL) for name, value in details.items() if value},
        "entity": cut(alert.service or alert.alias, _ENTITY),
        "source": "Scouter",
        "priority": _PRIORITIES[notice.severity],
    }
