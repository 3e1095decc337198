"""Records, sessions and the calls that tasks expect."""

import datetime

from pydantic import Field, JsonValue

from scouter.client.models.answer import Answer
from scouter.client.models.evaluations import Evaluation
from scouter.client.models.text_match import TextMatch
from scouter.evaluate.outcome import Outcome


class RecordItem(Answer):
    """A record without its context."""

    uid: str
    record_id: str
    """The user's name for the record; may be empty."""
    session_id: str
    trace_id: str | None
    profile: str
    """Alias of the profile, or what the sender called it."""
    profile_name: str = ""
    """Its full name; empty while it is not known."""
    state: str
    """One of `waiting evaluated skipped expired dead_lettered erased`."""
    outcome: Outcome | None = None
    """Outcome of the latest evaluation; None without an evaluation."""
    created_at: datetime.datetime
    received_at: datetime.datetime
    tags: dict[str, str] = Field(default_factory=dict)
    context_bytes: int | None = None
    """Size of the context as JSON."""
    match: TextMatch | None = None
    """The place of the text that was searched; None without one, or where contexts are too long."""


class LetterReason(Answer):
    """Why a record is dead-lettered."""

    letter_id: str
    reason: str
    message: str


class Record(RecordItem):
    """A record with all that is stored of it."""

    context: JsonValue
    evaluations: tuple[Evaluation, ...]
    """Every revision of its evaluation, newest first."""
    dead_letter: LetterReason | None = None
    waits_for: str = ""
    """Why it is not evaluated, in words; empty where it is."""


class SessionItem(Answer):
    """A session and its records, counted by the outcome of the latest evaluation on each."""

    session_id: str
    """Or the uid of a record that has none."""
    records: int
    traces: int
    first_at: datetime.datetime
    """Time at which its first record was made."""
    last_at: datetime.datetime
    passed: int
    failed: int
    errored: int
    skipped: int
    undecided: int
    """Records without an evaluation: waiting or dead-lettered."""
    duration_ms: float | None = None
    """From the start of the first span of its traces to the end of the last."""
    input_tokens: int | None = None
    """Of the model calls of its traces."""
    output_tokens: int | None = None
    match: TextMatch | None = None
    """The place of the text that was searched; None without one, or where contexts are too long."""


class Session(SessionItem):
    """A session with what belongs to it, up to a thousand of each."""

    items: tuple[RecordItem, ...]
    evaluations: tuple[Evaluation, ...]
    trace_ids: tuple[str, ...]


class ToolCall(Answer):
    """A tool call on one side of a change."""

    name: str
    arguments: JsonValue = Field(default=None, description="Null where any will do.")
    result: JsonValue = Field(default=None, description="Null where none is known.")
    error: str = Field(default="", description="Of a call that failed.")
    duration_ms: float | None = Field(
        default=None, description="Of its execution; null where no span tells of it."
    )


class TaskTrajectory(Answer):
    """The calls that a task expects, and those that were made."""

    task_id: str
    expected: tuple[ToolCall, ...] = Field(description="Arguments are None where any will do.")
    actual: tuple[ToolCall, ...]


class TaskTrajectories(Answer):
    """Of the tasks that expect calls, in the profile's order."""

    items: tuple[TaskTrajectory, ...]
