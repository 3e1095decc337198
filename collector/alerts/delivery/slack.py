"""Alerts to a Slack webhook.

Source: Slack, "Incoming webhooks", "Block Kit: header, section" and "Escaping text".
"""

from typing import Final

from pydantic import SecretStr

from collector.alerts.alert import DriftAlertState
from collector.alerts.delivery.notice import Notice
from collector.alerts.delivery.post import Poster
from collector.alerts.delivery.words import cut, fit

_HEADER: Final = 150
_SECTION: Final = 3_000


class SlackChannel:
    """Posts each message as two blocks; see `Channel`.

    A webhook cannot change a message, so the end of an alert is a message of its own.

    Args:
        url: The secret address of the webhook.
    """

    name = "slack"
    acts: frozenset[DriftAlertState] = frozenset()
    pause_s = 1.0
    heartbeat_s: float | None = None

    def __init__(self, url: SecretStr) -> None:
        self._url = url
        self._poster = Poster(self.name, secrets=[url])

    def send(self, notice: Notice) -> str:
        """Post a message."""
        return self._poster.post(self._url.get_secret_value(), _body(notice))

    def close(self) -> None:
        """Close the connections."""
        self._poster.close()


def escaped(text: str) -> str:
    """Make a text safe: `<!channel>` in the name of a tool would call everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escaped_length(text: str) -> int:
    return len(escaped(text))


def _body(notice: Notice) -> dict[str, object]:
    title = escaped(cut(notice.title, _HEADER, _escaped_length))
    lines = notice.lines(lambda text: escaped(cut(text, _SECTION // 4, _escaped_length)), _link)
    return {
        "text": title,
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": title, "emoji": False}},
            {
                "type": "section",
                "text": {"type": "mrkdwn", "text": fit(lines, _SECTION), "verbatim": True},
            },
        ],
    }


def _link(name: str, url: str) -> str:
    return f"<{url}|{name}>"
