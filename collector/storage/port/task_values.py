"""Single numbers behind the rates of a task: its newest scores, and how long each trace took."""

from dataclasses import dataclass

from scouter.evaluate.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskValuesQuery:
    """Filter of the results of one task; None means any."""

    space: str
    profile: str
    task_id: str
    service_version: str | None = None
    environment: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    limit: int = 2_000
    """Results that are looked at: the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskValue:
    """One result of a task."""

    at_ns: int
    """Time of evaluation."""
    outcome: Outcome
    score: float | None
    """None where it has none of its own."""
    duration_ns: int | None
    """From the first span of its trace to the end of the last; None without spans."""
