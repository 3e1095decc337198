"""Alerts to Opsgenie, or to Jira Service Management, which takes the same requests.

Source: Opsgenie, "Alert API: create alert, close alert"; Jira Service Management, "Integration
events API".
"""

from typing import Final
from urllib.parse import quote

from pydantic import SecretStr

from collector.alerts.delivery.notice import Notice
from collector.alerts.delivery.post import Poster
from collector.alerts.delivery.words import cut, fit

_MESSAGE: Final = 130
_DESCRIPTION: Final = 15_000
_TAG: Final = 50
_DETAIL: Final = 1_000
"""Eight of them fit into the 8,000 characters that all may have."""
_ENTITY: Final = 512
_PRIORITIES: Final = {"critical": "P2", "warning": "P3"}


class OpsgenieChannel:
    """Creates an alert there for each one here, and closes it; see `Channel`.

    Args:
        key: Of an API integration.
        base: `https://api.opsgenie.com`, or the address of its successor.
    """

    name = "opsgenie"
    pause_s = 0.0
    heartbeat_s: float | None = None

    def __init__(self, key: SecretStr, base: str) -> None:
        self._url = f"{base}/v2/alerts"
        header = SecretStr(f"GenieKey {key.get_secret_value()}")
        self._poster = Poster(self.name, secrets=[key], headers={"Authorization": header})

    def send(self, notice: Notice) -> str:
        """Create or close; its answer says that it was taken, not that it was done."""
        if notice.is_resolved:
            alias = quote(notice.dedup_key, safe="")
            url = f"{self._url}/{alias}/close?identifierType=alias"
            note = cut(notice.evidence, _DESCRIPTION)
            return self._poster.post(url, {"source": "Scouter", "note": note})
        return self._poster.post(self._url, _body(notice))

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
