"""Times of the join: how long records wait."""

from dataclasses import dataclass


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
