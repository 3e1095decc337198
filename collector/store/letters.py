"""Rows of what could not be used, and the question that lists them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from collector.split import split
from collector.store.json_text import dump_json
from collector.store.rows import RecordRow


class LetterKind(StrEnum):
    """Kind of data that a dead letter holds."""

    SPAN = "span"
    RECORD = "record"
    LOG = "log"
    SPANS_MESSAGE = "spans_message"
    RECORDS_MESSAGE = "records_message"


INVALID_EVENT: Final = "invalid_event"
"""Reason of a log record that is a GenAI event and cannot be read."""
UNKNOWN_PROFILE: Final = "unknown_profile"
"""Reason of an accepted record whose profile nobody registered in time."""
UNUSABLE_PROFILE: Final = "unusable_profile"
"""Reason of one whose profile an earlier release took, and this one refuses."""
NO_PROFILE: Final = frozenset({UNKNOWN_PROFILE, UNUSABLE_PROFILE})
LARGE: Final = frozenset({LetterKind.SPANS_MESSAGE, LetterKind.RECORDS_MESSAGE})
"""Messages of brokers are kept whole: each may take a third of the store's memory."""
_FEW: Final = 16
"""Payloads in memory at a time; each of the other kinds may have a megabyte."""


def few_at_a_time(
    letters: Iterable[tuple[str, LetterKind]],
) -> Iterator[list[tuple[str, LetterKind]]]:
    """Ids and kinds of letters in parts whose payloads fit into memory."""
    return split(letters, lambda each: (_FEW if each[1] in LARGE else 1,), (_FEW,))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Something that could not be used, kept with the reason."""

    space: str
    kind: LetterKind
    reason: str
    """One word, for counting."""
    message: str
    """A sentence, for people."""
    source: str
    """Place at which it came in: `http`, or `kafka:TOPIC:PARTITION:OFFSET`."""
    payload: bytes
    uid: str = ""
    """Uid of the record; for a refused span its trace id, if that could be read."""
    received_ns: int
    was_accepted: bool = False
    """True for a record that had been accepted: the letter is then its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLetter:
    """A dead letter and its place in the store."""

    letter_id: str
    seq: int
    letter: DeadLetter
    """The letter; its payload is cut to the number of bytes that was asked for."""
    size_bytes: int
    """Size of the whole payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterQuery:
    """Filter of the dead letters to list; None means any."""

    space: str
    reason: str | None = None
    kind: LetterKind | None = None
    letter_id: str | None = None
    uid: str | None = None
    was_accepted: bool | None = None
    limit: int = 100
    before: tuple[int, str] | None = None
    """Continue below this position: (commit, letter id)."""
    payload_bytes: int | None = None
    """Most bytes of each payload, at least 1; None for the whole payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersRemoved:
    """Dead letters that were taken out of the store."""

    seq: int
    letter_ids: tuple[str, ...]
    """Ids of the letters that were still there."""


def letter_of_conflict(row: RecordRow) -> DeadLetter:
    """Make a letter of a record whose uid was accepted with another payload.

    Without times of our own, so that the same record delivered again is the same letter.
    """
    payload = {
        "uid": row.uid,
        "profile": row.profile_ref,
        "record_id": row.record_id,
        "session_id": row.session_id,
        "trace_id": row.trace_id,
        **({"created_at": row.created_ns} if row.is_dated else {}),
        "context": row.context,
        "tags": dict(row.tags),
    }
    return DeadLetter(
        space=row.space,
        kind=LetterKind.RECORD,
        reason="conflict",
        message=f"uid {row.uid} was accepted before with another content; the first one is kept",
        source="",
        payload=dump_json(payload).encode(),
        uid=row.uid,
        received_ns=row.received_ns,
    )
