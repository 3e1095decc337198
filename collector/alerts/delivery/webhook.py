"""Alerts as JSON to an address of one's own.

`dedup_key` is the same for all messages about an alert. A message that comes twice has the same
`Idempotency-Key`.
"""

from collections.abc import Mapping

from pydantic import SecretStr

from collector.alerts.alert import ATTENDED, Figures, TroubleAlert, rfc3339
from collector.alerts.delivery.notice import Notice
from collector.alerts.delivery.post import Poster


class WebhookChannel:
    """Posts each message; see `Channel`.

    Args:
        url: Takes a POST and answers with 2xx.
        headers: Sent with each request.
    """

    name = "webhook"
    acts = ATTENDED
    pause_s = 0.0
    heartbeat_s: float | None = None

    def __init__(self, url: SecretStr, headers: Mapping[str, SecretStr] | None = None) -> None:
        self._url = url
        self._poster = Poster(self.name, secrets=[url], headers=headers)

    def send(self, notice: Notice) -> str:
        """Post a message."""
        headers = {"Idempotency-Key": notice.delivery_key}
        return self._poster.post(self._url.get_secret_value(), _body(notice), headers)

    def close(self) -> None:
        """Close the connections."""
        self._poster.close()


def _body(notice: Notice) -> dict[str, object]:
    alert = notice.alert
    figures, until_ns = notice.opened, alert.silenced_until_ns
    return {
        "dedup_key": notice.dedup_key,
        "event": alert.state.value,
        "severity": notice.severity,
        "title": notice.title,
        "message": notice.evidence,
        "alert_id": alert.alert_id,
        "space": alert.space,
        "profile": alert.alias,
        "profile_version": alert.profile_digest,
        "task": alert.task,
        "slice": alert.slice,
        "fell_with": notice.fell_with,
        "kind": str(alert.kind),
        "trouble": alert.trouble.value if isinstance(alert, TroubleAlert) else "",
        "service": alert.service,
        "environment": alert.environment,
        "version": alert.version,
        "since": rfc3339(alert.opened_ns if figures is None else figures.since_ns),
        "opened_at": rfc3339(alert.opened_ns),
        "changed_at": rfc3339(alert.changed_ns),
        **_figures(figures),
        "by": alert.by,
        "note": alert.note,
        "silenced_until": None if until_ns is None else rfc3339(until_ns),
        "changed": notice.changed,
        "cause": notice.cause,
        "explained_by": list(notice.explained_by),
        "examples": [
            {"name": each.name, "url": each.url, "command": each.order, "reason": each.reason}
            for each in notice.examples
        ],
        "url": notice.url,
    }


def _figures(figures: Figures | None) -> dict[str, object]:
    """The figures of a fall; nulls of trouble, so that every message has the same names."""
    return {
        name: getattr(figures, field, None)
        for name, field in (
            ("records", "records"), ("failed", "failed"), ("mean", "mean"),
            ("evidence", "evidence"), ("healthy", "healthy"), ("healthy_lower", "lower"),
            ("against", "against"), ("first_days", "first_days"),
        )
    }  # fmt: skip
