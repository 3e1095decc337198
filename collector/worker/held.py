"""The time for which the join stands still, as spans that exist may lie unread at a broker."""

from enum import Enum
from typing import NamedTuple


class Via(Enum):
    """The way that spans of a trace come, and so whether its records wait for brokers."""

    DIRECT = "direct"
    """HTTP, gRPC, the same process: what exists and is not here, its sender still has."""
    BROKER = "broker"
    UNKNOWN = "unknown"
    """Nothing of the trace is here that would tell."""


class Held(NamedTuple):
    """Seconds for which time has stood still since the worker began. They never become fewer."""

    broker_s: float = 0.0
    """For what comes by a broker."""
    unknown_s: float = 0.0
    """For traces of which nothing tells how they come."""

    def of(self, via: Via) -> float:
        """The seconds for one way."""
        match via:
            case Via.DIRECT:
                return 0.0
            case Via.BROKER:
                return self.broker_s
            case Via.UNKNOWN:
                return self.unknown_s
