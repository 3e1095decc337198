"""The port to whoever is notified of alerts."""

from collections.abc import Set as AbstractSet
from typing import Protocol

from collector.alerts.alert import DriftAlertState
from collector.alerts.delivery.notice import Notice


class Channel(Protocol):
    """Takes one message at a time."""

    @property
    def name(self) -> str:
        """Under which deliveries are stored."""
        ...

    @property
    def pause_s(self) -> float:
        """Wait between two messages."""
        ...

    @property
    def heartbeat_s(self) -> float | None:
        """An alert that stands is sent again after so long; None if once is enough."""
        ...

    @property
    def acts(self) -> AbstractSet[DriftAlertState]:
        """States besides firing and resolved that it is notified of: `ATTENDED`, or none."""
        ...

    def send(self, notice: Notice) -> str:
        """Deliver a message; once it returns, the far side has it.

        Returns:
            The answer of the far side, without secrets.

        Raises:
            TransientError: Try the same again later; says when, where the far side did.
            DataError: The far side refuses this message.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
