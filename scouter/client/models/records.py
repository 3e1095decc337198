"""Records, sessions, profiles and the calls that tasks expect."""

from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from scouter.client.models.answer import Answer, Costed, MoreMatches, TextMatch, Time
from scouter.client.models.evaluations import Evaluation
from scouter.evaluate.outcome import Outcome

RecordState: TypeAlias = Literal[
    "waiting", "evaluated", "skipped", "expired", "dead_lettered", "erased"
]


class _Accepted(Answer):
    """An accepted record."""

    uid: str
    record_id: str = Field(description="The user's name for the record; may be empty.")
    session_id: str
    trace_id: str | None
    profile: str = Field(description="Alias of the profile, or what the sender called it.")
    profile_name: str = Field(description="Its full name; empty while it is not known.")
    state: RecordState
    created_at: Time
    received_at: Time
    tags: dict[str, str]


class _OfTrace(Costed, _Accepted):
    """A record, and what its trace took and cost."""

    duration_ms: float | None = Field(
        description="From its trace's first start to the last end; null without a trace."
    )


class RecordItem(_OfTrace):
    """An accepted record, without its context."""

    outcome: Outcome | None = Field(description="Of the latest evaluation, where there is one.")
    context_bytes: int = Field(description="Size of the context as JSON.")
    match: TextMatch | None = Field(
        description="The place of the text that was searched; null without one, or where contexts"
        " are too long to look into."
    )
    more_matches: MoreMatches = ()


class LetterReason(Answer):
    """Why a record is dead-lettered."""

    letter_id: str
    reason: str
    message: str


class Record(_OfTrace):
    """A record with its context, and every evaluation on it."""

    context: JsonValue
    evaluations: tuple[Evaluation, ...] = Field(
        description="Every revision of its evaluation, newest first."
    )
    dead_letter: LetterReason | None
    waits_for: str = Field(description="Why it is not evaluated, in words; empty where it is.")


class Questions(Answer):
    """Questions of users, by uid of the record."""

    items: dict[str, str] = Field(
        description="The first 200 characters; of a context that does not tell, none."
    )


class SessionItem(Costed):
    """A session and its records, counted by the outcome of the latest evaluation on each."""

    session_id: str = Field(description="Or the uid of a record that has none.")
    records: int
    traces: int
    first_at: Time = Field(description="When its first record was made.")
    last_at: Time
    passed: int
    failed: int
    errored: int
    skipped: int
    undecided: int = Field(
        description="Records without an evaluation: waiting, pending or dead-lettered."
    )
    duration_ms: float | None = Field(
        description="From the start of the first span of its traces to the end of the last."
    )
    input_tokens: int | None = Field(description="Of the model calls of its traces.")
    output_tokens: int | None
    match: TextMatch | None = Field(
        description="The place of the text that was searched; null without one, or where contexts"
        " are too long to look into."
    )
    more_matches: MoreMatches = ()


class Session(SessionItem):
    """A session with what it consists of."""

    items: tuple[RecordItem, ...] = Field(
        description="The newest records; `/records?session_id=` has all."
    )
    evaluations: tuple[Evaluation, ...] = Field(
        description="The newest evaluations, on its records and on itself."
    )
    trace_ids: tuple[str, ...] = Field(description="The first ones, in order of acceptance.")


class ToolCall(Answer):
    """A tool call on one side of a change."""

    name: str
    arguments: JsonValue = Field(description="Null where any will do.")
    result: JsonValue = Field(description="Null where none is known.")
    error: str = Field(description="Of a call that failed.")
    duration_ms: float | None = Field(
        description="Of its execution; null where no span reports it."
    )


class TaskTrajectory(Answer):
    """The calls that a task expects, and those that were made."""

    task_id: str
    expected: tuple[ToolCall, ...] = Field(description="Arguments are None where any will do.")
    actual: tuple[ToolCall, ...]


class TaskTrajectories(Answer):
    """Of the tasks that expect calls, in the profile's order."""

    items: tuple[TaskTrajectory, ...]


class ProfileItem(Answer):
    """A registered profile."""

    space: str
    name: str
    alias: str
    uid: str
    profile_version: str = Field(description="Digest of the tasks.")
    version: str = Field(description="The profile's own label.")
    is_active: bool
    reads_spans: bool
    registered_at: Time
    tasks: tuple[str, ...] = Field(description="Ids of the tasks.")
    watch: dict[str, JsonValue] | None = Field(
        description="Selects traces that it evaluates without records; null for none."
    )
    alert: str | None = Field(
        description="Its alert's condition in words; it watches nothing while this is not active."
    )
    unusable: str = Field(
        description="Why this version of the collector cannot use it, though an earlier one took "
        "it; it judges nothing, and has no tasks here."
    )


class Profile(ProfileItem):
    """A registered profile with all that it says."""

    body: dict[str, JsonValue] = Field(description="As `AgentEvalProfile.save_to_json` writes it.")
