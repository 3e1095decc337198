"""Questions about evaluations and results of tasks, and the rows that answer them."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from collector.store.rows import EvaluationRow, TaskRow
from scouter.evaluate.outcome import Outcome
from scouter.model.struct import struct

NOT_PASSED: Final = "not_passed"
AskedOutcome: TypeAlias = Outcome | Literal["not_passed"]
"""One outcome, or those of what failed or errored."""


def outcomes_of(asked: AskedOutcome | None) -> list[str] | None:
    """The outcomes that a filter names; None for any."""
    if asked == NOT_PASSED:
        return [Outcome.FAILED.value, Outcome.ERRORED.value]
    return None if asked is None else [asked]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationQuery:
    """Filter of the evaluations to list; None means any."""

    space: str
    profile: str | None = None
    """Alias, name, uid or digest."""
    record_id: str | None = None
    """Or its uid."""
    session_id: str | None = None
    """Or the uid of a record without one, which is a session of its own."""
    trace_id: str | None = None
    outcome: AskedOutcome | None = None
    task_id: str | None = None
    """Only evaluations with such a task; with `task_outcome`, with that outcome of it."""
    task_outcome: AskedOutcome | None = None
    service_name: str | None = None
    """Service of the evaluation; if it looked at no spans, of a span of its trace.

    The next two fields work alike.
    """
    service_version: str | None = None
    environment: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    """Keys and values that are all among the evaluation's tags."""
    since_ns: int | None = None
    until_ns: int | None = None
    as_of: int | None = None
    """As it was after this commit, so that pages read over a long time hold each record once."""
    limit: int = 100
    before: tuple[int, int] | None = None
    """Continue below this position: (commit, ordinal in it)."""
    text_bytes: int | None = None
    """The page ends early where the texts of its evaluations are about so long; for exports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPage:
    """Evaluations, newest first, and where the next page begins."""

    items: tuple[EvaluationRow, ...]
    next_before: tuple[int, int] | None
    as_of: int
    """Last commit that the listing includes; the query for the next page needs it."""


class TaskOutcome(NamedTuple):
    """The outcome of a task for one record."""

    task_id: str
    task_type: str
    outcome: Outcome
    reason: str | None
    score: float | None
    """As `TaskRow.score`."""


@struct
class OutcomeRow:
    """The outcome of an evaluation and of its tasks."""

    record_uid: str
    record_id: str
    session_id: str
    trace_id: str | None
    outcome: Outcome
    created_ns: int
    duration_ns: int
    tasks: tuple[TaskOutcome, ...]
    """In the order of the profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """A version of the service behind a profile's records."""

    version: str
    first_ns: int
    """Time at which the first of its records was evaluated."""
    last_ns: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestResultsQuery:
    """Results to read."""

    space: str
    alias: str
    task_id: str
    outcome: Outcome | None = None
    """None means any but `pending` and `skipped`."""
    limit: int
    has_values: bool = False
    """True reads the expected and the actual value, too, where they are numbers or flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestResult:
    """The latest result of a task on a record."""

    uid: str
    """Uid of the record."""
    task: TaskRow
    """Without texts: no message, no answer."""


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
