"""Questions that list evaluations, and the pages that answer them."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from collector.store.rows import EvaluationRow
from scouter.evaluate.outcome import Outcome

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
