"""Evaluations by another version of a profile."""

from pydantic import Field

from scouter.client.models.answer import Answer
from scouter.evaluate.outcome import Outcome


class TaskChange(Answer):
    """A task of both versions that ends differently under each."""

    task_id: str
    before: str = Field(description="Its outcome.")
    after: str


class TaskCount(Answer):
    """A task that one of two versions has."""

    task_id: str
    outcomes: dict[str, int] = Field(description="Evaluations by its outcome in them.")


class Flip(Answer):
    """A record or session in which a task of both versions has another outcome now."""

    scope: str = Field(description="record or session.")
    uid: str = Field(description="Of the record, or what stands for the session.")
    record_id: str
    trace_id: str | None = None
    session_id: str = ""
    before: Outcome
    after: Outcome
    before_version: str = Field(description="Digest of the profile that judged it before.")
    revision: int = Field(description="Of the new evaluation.")
    is_stored: bool = Field(description="False in a dry run, or if it got another one meanwhile.")
    tasks: tuple[TaskChange, ...]


class Reevaluation(Answer):
    """Outcomes of another version of a profile on one page of evaluations."""

    profile: str
    profile_version: str
    dry_run: bool
    checked: int = Field(description="Records and sessions that were evaluated.")
    flipped: int = Field(
        description="Of these, those in which a task of both versions has another outcome now."
    )
    stored: int = Field(description="Revisions that were stored.")
    gone: int = Field(
        description="Evaluations of which neither the record, nor any of the session, is stored."
    )
    moved: int = Field(
        default=0,
        description="Evaluations with another outcome for new and removed tasks alone; no flips.",
    )
    new_tasks: tuple[TaskCount, ...] = Field(
        default=(), description="Tasks that the earlier evaluations of this page lack."
    )
    removed_tasks: tuple[TaskCount, ...] = Field(
        default=(), description="Tasks that this version lacks, with what they were."
    )
    items: tuple[Flip, ...]
    next_cursor: str | None = Field(
        default=None, description="Pass it as `cursor` for the next page."
    )
