"""Times of the join: how long records wait, and what stands still meanwhile."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Self

from collector.settings.model import CollectorSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTimes:
    """Waiting times of the join, in seconds; see the settings of the same names."""

    settle_s: float = 0.5
    foreign_settle_s: float = 7.0
    quiet_s: float = 30.0
    deadline_s: float = 300.0
    late_window_s: float = 86_400.0
    session_quiet_s: float = 60.0
    session_deadline_s: float = 3600.0

    @classmethod
    def of(cls, settings: CollectorSettings) -> Self:
        """Take the times of a collector's settings."""
        return cls(**{name: getattr(settings, name) for name in cls.__dataclass_fields__})


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
    """For traces of which nothing says how they come."""

    def of(self, via: Via) -> float:
        """The seconds for one way."""
        match via:
            case Via.DIRECT:
                return 0.0
            case Via.BROKER:
                return self.broker_s
            case Via.UNKNOWN:
                return self.unknown_s
