"""Conservation of data, dead letters, backups and erasures."""

import datetime

from pydantic import Field

from scouter.client.models.answer import Answer


class RecordStates(Answer):
    """Every accepted record in exactly one state; sessions have none."""

    accepted: int
    waiting: int
    evaluated: int
    skipped: int
    expired: int = Field(description="Taken out by retention.")
    dead_lettered: int
    erased: int = Field(description="Taken out because somebody wanted it so.")
    lost: int = Field(default=0, description="Gone or damaged at a start with --accept-loss.")
    duplicates: int = Field(description="Re-deliveries, beside the sum.")
    derived: int = Field(
        default=0,
        description="Of the accepted: made of traces that a profile watches; beside the sum.",
    )
    superseded: int = Field(
        default=0,
        description="Of the erased: derived records in whose place a sender's came; beside the "
        "sum.",
    )


class SpanStates(Answer):
    """Counts of spans by what became of them."""

    accepted: int
    stored: int
    expired: int = Field(description="Stored once, taken out since by retention.")
    erased: int = Field(description="Stored once, taken out since because somebody wanted it so.")
    lost: int = Field(default=0, description="Gone or damaged at a start with --accept-loss.")
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
        default=False,
        description="True once something was lost and nobody knows how much: `lost` is the least.",
    )


class DeadLetter(Answer):
    """Something that could not be used."""

    letter_id: str
    kind: str
    reason: str
    message: str
    source: str
    uid: str
    received_at: datetime.datetime
    was_accepted: bool
    size_bytes: int
    payload: str
    payload_base64: str | None = None
    """The payload in base64, if it is not text."""


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
    next_cursor: str | None = Field(default=None, description="Pass it as `cursor` to go on.")


class Backup(Answer):
    """A copy of the collector's data, on the collector's machine."""

    name: str
    """Name of its folder."""
    path: str | None = None
    """Path of its folder; None for tokens of other spaces than the collector's own."""
    made_at: datetime.datetime


class Erased(Answer):
    """Counts of what an erasure removed, and the backups that still hold it."""

    records: int
    spans: int
    evaluations: int
    dead_letters: int
    runs: int = 0
    """Results of runs that spoke of it; each as a whole."""
    is_gone: bool = True
    """False while the collector still writes the files anew that held it."""
    backups: tuple[Backup, ...] = ()
    """Known backups that were made before and still hold it."""
