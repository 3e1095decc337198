"""Conservation of data, dead letters, backups, erasures, and the state of a collector."""

import datetime
from typing import Literal, TypeAlias

from pydantic import Field

from scouter.client.models.answer import Answer, Time


class RecordStates(Answer):
    """Every accepted record in exactly one state; sessions have none."""

    accepted: int
    waiting: int
    evaluated: int
    skipped: int
    expired: int = Field(description="Taken out by retention.")
    dead_lettered: int
    erased: int = Field(description="Taken out because somebody wanted it so.")
    lost: int = Field(description="Gone or damaged at a start with --accept-loss.")
    duplicates: int = Field(description="Re-deliveries, beside the sum.")
    derived: int = Field(
        description="Of the accepted: made of traces that a profile watches; beside the sum."
    )
    superseded: int = Field(
        description="Of the erased: derived records in whose place a sender's came; beside the sum."
    )


class SpanStates(Answer):
    """Counts of spans by what became of them."""

    accepted: int
    stored: int
    expired: int = Field(description="Stored once, taken out since by retention.")
    erased: int = Field(description="Stored once, taken out since because somebody wanted it so.")
    lost: int = Field(description="Gone or damaged at a start with --accept-loss.")
    duplicates: int
    late: int = Field(description="Of the stored: came after their trace had been judged.")
    dead_lettered: int = Field(description="Refused and put aside; never accepted.")


class EventStates(Answer):
    """Counts of the GenAI events that came as log records."""

    accepted: int
    stored: int
    spanless: int = Field(description="Of the stored: the span that they belong to is not stored.")
    expired: int = Field(description="Stored once, taken out since by retention.")
    erased: int = Field(description="Stored once, taken out since because somebody wanted it so.")
    lost: int = Field(description="Gone or damaged at a start with --accept-loss.")
    duplicates: int
    dead_lettered: int = Field(description="Refused and put aside; never accepted.")


class ConservationSheet(Answer):
    """Sheet that shows that nothing vanished."""

    records: RecordStates
    spans: SpanStates
    events: EventStates
    dead_letters: dict[str, int] = Field(description="Everything put aside, by reason.")
    has_uncounted_losses: bool = Field(
        description="True once something was lost and nobody knows how much: `lost` is the least."
    )


LetterKind: TypeAlias = Literal["span", "record", "log", "spans_message", "records_message"]


class DeadLetter(Answer):
    """Something that could not be used."""

    letter_id: str
    kind: LetterKind
    reason: str
    message: str
    source: str = Field(description="Where it came in.")
    uid: str = Field(description="Key of the record, where there is one.")
    received_at: Time
    was_accepted: bool = Field(description="True for a record whose state is dead_lettered.")
    size_bytes: int
    payload: str = Field(description="The first 65536 bytes, as text.")
    payload_base64: str | None = Field(description="The same bytes, where they are no text.")


class ReplayedLetter(Answer):
    """One letter and what became of it."""

    letter_id: str
    result: str = Field(description="`accepted`, `waiting` or `refused`.")
    message: str


class ReplayedLetters(Answer):
    """Outcome of each dead letter that a filter named and that was tried again."""

    items: tuple[ReplayedLetter, ...]
    accepted: int
    waiting: int
    refused: int
    next_cursor: str | None = Field(description="Pass it as `cursor` to go on.")


class Backup(Answer):
    """A backup that was made of this collector's data."""

    name: str = Field(description="Of its folder.")
    path: str | None = Field(
        description="Of its folder, on the collector's machine; null for tokens of other spaces "
        "than the collector's own."
    )
    made_at: Time


class Erased(Answer):
    """Counts of what was erased; all are 0 if nothing was found, as for a repeated request."""

    records: int
    spans: int
    evaluations: int = Field(description="Evaluations, every revision of each.")
    dead_letters: int
    runs: int = Field(description="Results of runs that spoke of it; each as a whole.")
    is_gone: bool = Field(
        description="False while files of the data folder may still hold bytes of it; the next "
        "round of housekeeping, within ten minutes, writes them anew. In a fleet "
        "always false: bytes go as Kafka drops its messages, and PostgreSQL writes "
        "over deleted rows."
    )
    backups: tuple[Backup, ...] = Field(
        description="Backups that were made before and may hold some of it: it is for you to "
        "remove them. One that is older than all of it holds nothing."
    )


class StoreStatus(Answer):
    """The files of the store."""

    size_bytes: int = Field(description="On disk, the span log included.")
    limit_bytes: int | None = Field(description="Above it the oldest data go; null for no limit.")
    retention_s: float | None = Field(description="Age at which data go; null for never.")
    oldest_at: datetime.datetime | None = Field(description="Arrival of the oldest; null of none.")
    last_commit_s: float = Field(description="Seconds since the last commit, or the start.")


class LagStatus(Answer):
    """Work that is left to do."""

    records_waiting: int = Field(description="For their trace or their profile.")
    sessions_waiting: int = Field(description="For their end.")
    log_bytes: int = Field(description="Size of what was accepted and is not in the store yet.")
    stalled_s: float = Field(
        description="Seconds since anything was evaluated while something is due; 0 while not."
    )
    due: int = Field(
        description="Records, traces and sessions that wait for nothing but their evaluation."
    )
    due_oldest_s: float = Field(description="Seconds for which the oldest of them has been due.")
    is_behind: bool = Field(
        description="True from the time on at which something has been due, or accepted and not "
        "stored, for a minute, until both take less than ten seconds."
    )
    is_catching_up: bool = Field(
        description="True while more is evaluated than becomes due, and more is stored than comes, "
        "within a minute."
    )
    brokers_s: dict[str, float] = Field(
        description="By broker: all that it had so many seconds ago is stored."
    )


class ReceiverStatus(Answer):
    """Requests of one kind since the collector started."""

    receiver: str = Field(description="`http`, `grpc` or the name of a broker.")
    signal: str = Field(description="`traces`, `logs`, `metrics` or `records`.")
    requests: int
    size_bytes: int = Field(description="Of the bodies, decompressed.")
    refused: dict[str, int] = Field(description="Requests that were refused as a whole, by reason.")


class TokenStatus(Answer):
    """A token that is valid; never its secret."""

    token_id: str
    name: str
    scopes: tuple[str, ...]
    space: str
    expires_at: datetime.datetime | None


class Status(Answer):
    """State of a collector, as far as the caller's token shows it."""

    space: str = Field(description="The caller's.")
    scopes: tuple[str, ...] = Field(description="The caller's.")
    token_id: str = Field(description="The caller's; empty where no token was required.")
    store: StoreStatus | None = Field(
        description="Null for tokens of other spaces than the collector's own, as are lag and "
        "receivers: these are about all spaces."
    )
    lag: LagStatus | None
    receivers: tuple[ReceiverStatus, ...] | None
    remarks: str = Field(
        description="Profiles of the caller's space that cannot be used, and bounds that are near; "
        "empty if all is well."
    )
    tokens: tuple[TokenStatus, ...] | None = Field(
        description="Of the caller's space, or of all for one of the collector's own; null "
        "without the scope admin."
    )


class FeedbackTaken(Answer):
    """Result of feedback."""

    accepted: int
    duplicates: int = Field(description="Known already, by their id or their content.")
