"""Alerts: changes of their states, the detectors behind them, and what was sent to channels."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from collector.store.reads import Connection, Reads
from collector.store.rows import AlertEvent, AlertState


class DriftState(NamedTuple):
    """The state of one group of series, or of all of them together."""

    name: str
    """Its name; a later state of that name takes its place."""
    body: str
    """JSON; empty where the group is gone."""


class DriftEvent(NamedTuple):
    """An alert was opened, or changed."""

    space: str
    alert_id: str
    at_ns: int
    state: str
    """State of the alert from then on."""
    body: str
    """JSON: all of the alert as it is from then on."""


class DeliveryState(StrEnum):
    """The progress of delivering an alert's state."""

    BEGUN = "begun"
    """Durable before the first request: after a crash it is known that the far side may have it."""
    WAITING = "waiting"
    """The far side did not take it, and gets it again."""
    SENT = "sent"
    GIVEN_UP = "given_up"


class DriftDelivery(NamedTuple):
    """One step of telling a channel about a state of an alert."""

    space: str
    alert_id: str
    channel: str
    alert_state: str
    """The state that is reported: `firing` or `resolved`."""
    changed_ns: int
    """Time at which the alert got into that state."""
    at_ns: int
    state: DeliveryState
    attempts: int
    answer: str
    """Reply of the channel, in words."""


_EVENT: Final = ", ".join(DriftEvent._fields)
_DELIVERY: Final = ", ".join(DriftDelivery._fields)
_LAST_ALERTS: Final = """
    SELECT DISTINCT ON (space, profile_uid) space, profile_uid, state, at_ns, passed, total
    FROM alert_events ORDER BY space, profile_uid, seq DESC, ordinal DESC
"""
_LAST_EVENTS: Final = f"""
    SELECT {_EVENT} FROM (
        SELECT DISTINCT ON (space, alert_id) {_EVENT} FROM drift_events
        WHERE $1::TEXT IS NULL OR space = $1::TEXT
        ORDER BY space, alert_id, seq DESC, ordinal DESC
    ) e ORDER BY at_ns DESC, alert_id
"""
_HISTORY: Final = f"""
    SELECT {_EVENT} FROM drift_events WHERE space = $1 AND alert_id = $2 ORDER BY seq, ordinal
"""
_LAST_DELIVERIES: Final = f"""
    SELECT DISTINCT ON (space, alert_id) {_DELIVERY} FROM drift_deliveries WHERE channel = $1
    ORDER BY space, alert_id, seq DESC, ordinal DESC
"""
_DELIVERIES_OF: Final = f"""
    SELECT {_DELIVERY} FROM (
        SELECT DISTINCT ON (channel, alert_state, changed_ns) {_DELIVERY}, seq, ordinal
        FROM drift_deliveries WHERE space = $1 AND alert_id = $2
        ORDER BY channel, alert_state, changed_ns, seq DESC, ordinal DESC
    ) d ORDER BY seq, ordinal
"""
_REPLACED: Final = "DELETE FROM drift_states WHERE name = ANY($1::TEXT[]) AND seq <= $2"


class Alerts(Reads):
    """Alerts on rates and on drift."""

    def append_alert_events(self, events: Sequence[AlertEvent]) -> int:
        """Store changes of alert states; returns the commit's number."""
        return self.write({"alert_events": [(at, *each) for at, each in enumerate(events)]})

    def last_alert_events(self) -> list[AlertEvent]:
        """The latest event of every alert, by space and profile."""
        rows = self.read(_LAST_ALERTS)
        return [AlertEvent(*row)._replace(state=AlertState(row[2])) for row in rows]

    def save_drift(self, states: Sequence[DriftState], events: Sequence[DriftEvent]) -> int:
        """Store states and events in one commit: after a crash there are all of them, or none.

        A state takes the place of the one with its name. Returns the commit's number.
        """
        latest = {each.name: each.body for each in states}
        rows = [(at, *each) for at, each in enumerate(events)]
        with self.alone():
            last = self.last_seq()

            def replaced(connection: Connection) -> None:
                connection.execute(_REPLACED, [list(latest), last])

            stored = [state for state in latest.items() if state[1]]
            return self.write(
                {"drift_states": stored, "drift_events": rows}, [replaced] if latest else []
            )

    def drift_states(self) -> list[DriftState]:
        """The latest state under each name, in any order; those that are gone are left out."""
        return [DriftState(*row) for row in self.read("SELECT name, body FROM drift_states")]

    def drift_alerts(self, space: str | None = None) -> list[DriftEvent]:
        """The latest event of each alert, the newest first; of all spaces if none is given."""
        return [DriftEvent(*row) for row in self.read(_LAST_EVENTS, [space])]

    def drift_history(self, space: str, alert_id: str) -> list[DriftEvent]:
        """All events of one alert, the oldest first; empty where there is no such alert."""
        return [DriftEvent(*row) for row in self.read(_HISTORY, [space, alert_id])]

    def append_deliveries(self, deliveries: Sequence[DriftDelivery]) -> int:
        """Store steps of deliveries; returns the commit's number."""
        rows = [(at, *each) for at, each in enumerate(deliveries)]
        return self.write({"drift_deliveries": rows})

    def last_deliveries(self, channel: str) -> list[DriftDelivery]:
        """The latest step of a channel for each alert, in any order."""
        return [_delivery(row) for row in self.read(_LAST_DELIVERIES, [channel])]

    def deliveries_of(self, space: str, alert_id: str) -> list[DriftDelivery]:
        """The latest step for each channel and state of an alert, the oldest first."""
        return [_delivery(row) for row in self.read(_DELIVERIES_OF, [space, alert_id])]


def _delivery(row: Sequence[Any]) -> DriftDelivery:
    made = DriftDelivery(*row)
    return made._replace(state=DeliveryState(made.state))
