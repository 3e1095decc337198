"""Evaluations by another version of a profile."""

from scouter.client.models.answer import Answer
from scouter.evaluate.outcome import Outcome


class TaskChange(Answer):
    """A task of both versions that ends differently under each."""

    task_id: str
    before: str
    after: str


class TaskCount(Answer):
    """A task that one of two versions has."""

    task_id: str
    outcomes: dict[str, int]
    """Evaluations by its outcome in them."""


class Flip(Answer):
    """A record or session in which a task of both versions has another outcome now."""

    scope: str
    """`record` or `session`."""
    uid: str
    record_id: str
    trace_id: str | None = None
    session_id: str = ""
    before: Outcome
    after: Outcome
    before_version: str
    """Digest of the profile that judged it before."""
    revision: int
    is_stored: bool
    tasks: tuple[TaskChange, ...]


class Reevaluation(Answer):
    """Verdict of another version of a profile on one page of evaluations."""

    profile: str
    profile_version: str
    dry_run: bool
    checked: int
    flipped: int
    stored: int
    gone: int
    """Evaluations of which neither the record, nor any of the session, is stored."""
    moved: int = 0
    """Evaluations with another outcome for new and removed tasks alone; no flips."""
    new_tasks: tuple[TaskCount, ...] = ()
    removed_tasks: tuple[TaskCount, ...] = ()
    """Tasks that the later version lacks, with what they were."""
    items: tuple[Flip, ...]
    next_cursor: str | None = None
