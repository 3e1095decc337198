"""Two sides held against each other."""

import datetime

from pydantic import JsonValue

from scouter.client.models.answer import Answer
from scouter.client.models.records import ToolCall
from scouter.evaluate.outcome import Outcome


class VersionItem(Answer):
    """A version of the service behind a profile's records."""

    version: str
    first_at: datetime.datetime
    """Time at which the first of its records was evaluated."""
    last_at: datetime.datetime
    records: int


class Versions(Answer):
    """All of them, the one that began last first."""

    items: tuple[VersionItem, ...]


class ComparedSide(Answer):
    """One side of a comparison."""

    label: str
    records: int
    scenarios: int | None = None
    """Number of scenarios, of a run that has some."""
    is_cut: bool = False
    """There are more records, which are older."""
    run_id: str | None = None


class ComparedRate(Answer):
    """One rate on both sides, and what the test says of it."""

    label: str
    profile: str | None = None
    task_id: str | None = None
    """None for whole records and sums."""
    before_passed: int
    before_count: int
    after_passed: int
    after_count: int
    before_rate: float
    after_rate: float
    difference: float
    """After minus before."""
    lower: float | None = None
    """Interval of the difference, 95 %; None where it has too few conversations."""
    upper: float | None = None
    fell: int
    rose: int
    p_value: float | None = None
    """One-sided, of a fall."""
    adjusted_p: float | None = None
    word: str
    """`regressed`, `not cleared`, or empty."""
    reason: str


class LookedTask(Answer):
    """Result of a task on one side of a change."""

    task_id: str
    outcome: Outcome
    message: str


class Look(Answer):
    """A record, or an attempt of a scenario, on one side of a comparison."""

    uid: str = ""
    """Key of a live record."""
    trace_id: str | None = None
    outcome: Outcome
    tasks: tuple[LookedTask, ...]
    calls: tuple[ToolCall, ...] | None = None
    """Of tools; None where no span is stored."""
    shown: dict[str, JsonValue]


class ComparedChange(Answer):
    """A record or scenario that passed on one side only."""

    name: str
    is_worse: bool
    before: Look
    after: Look


class Comparison(Answer):
    """Two sides held against each other."""

    word: str
    """`regressed`, `no regression seen` or `inconclusive`."""
    headline: str
    reasons: tuple[str, ...]
    exit_code: int
    ruled_out: float | None = None
    """A fall of more points than this is ruled out."""
    pairing: str
    """`scenarios`, `ids`, or `apart`: two samples."""
    before: ComparedSide
    after: ComparedSide
    rates: tuple[ComparedRate, ...]
    changes: tuple[ComparedChange, ...]
    more_changes: int
    notes: tuple[str, ...]
