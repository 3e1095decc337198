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
        said = [notice.evidence, *([f"with it: {notice.fell_with}"] if notice.fell_with else [])]
        _log.warning(
            "alert %s %s: %s; %s",
            alert.alert_id, alert.state.value, headline(alert), "; ".join(said),
        )  # fmt: skip
        return "written"

    def close(self) -> None:
        """Nothing is open."""
