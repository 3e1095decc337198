"""Alerts as lines of the collector's log."""

import logging
from typing import Final

from collector.alerts.alert import DriftAlertState, headline
from collector.alerts.delivery.notice import Notice

_log: Final = logging.getLogger(__name__)


class LogChannel:
    """Writes a line for each message; see `Channel`."""

    name = "log"
    acts: frozenset[DriftAlertState] = frozenset()
    pause_s = 0.0
    heartbeat_s: float | None = None

    def send(self, notice: Notice) -> str:
        """Write a line."""
        alert = notice.alert
        _log.warning(
            "alert %s %s: %s; %s",
            alert.alert_id, alert.state.value, headline(alert), notice.evidence,
        )  # fmt: skip
        return "written"

    def close(self) -> None:
        """Nothing is open."""
