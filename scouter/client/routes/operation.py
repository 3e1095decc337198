"""Routes of conservation, dead letters, erasures and backups."""

from typing import Final

from pydantic import JsonValue

from scouter.client.call import COMMIT_S, PAGE_S, Call, PagedCall, get, pages, post
from scouter.client.models.operation import (
    Backup,
    ConservationSheet,
    DeadLetter,
    Erased,
    RecordStates,
    ReplayedLetter,
    ReplayedLetters,
)
from scouter.client.models.status import Status
from scouter.errors import ConfigError

_BACKUP_S: Final = 3600.0
"""As long as its machine needs to copy everything."""


def conservation() -> Call[ConservationSheet]:
    """Every record and span that came in, and what became of it."""
    return get("/conservation", ConservationSheet)


def status() -> Call[Status]:
    """Store, lag and receivers of the collector, and the tokens that may use it."""
    return get("/status", Status)


def record_states() -> Call[RecordStates]:
    """The records of the sheet alone: quick, as no spans are looked at."""
    return get("/conservation/records", RecordStates)


def dead_letters(
    *, reason: str | None = None, kind: str | None = None, limit: int | None = None
) -> PagedCall[DeadLetter]:
    """List the data that the collector could not use, newest first.

    Args:
        reason: Why it could not be used, such as `invalid_span`.
        kind: Kind of data, such as `record` or `spans`.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return pages("/dead-letters", DeadLetter, dict(locals()))


def replay_letter(letter_id: str) -> Call[ReplayedLetter]:
    """Take one dead letter in again; one that is refused again stays. Needs the scope admin.

    Args:
        letter_id: As a list of letters has it.
    """
    path = "/dead-letters/{letter_id}/replay"
    at = {"letter_id": letter_id}
    return post(path, ReplayedLetter, at=at, is_repeatable=False, takes_s=COMMIT_S)


def replay_letters(
    *,
    reason: str | None = None,
    kind: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[ReplayedLetters]:
    """Take one page of dead letters in again; go on with its `next_cursor`. Needs the scope admin.

    Args:
        reason: Such as `unknown_profile`.
        kind: `record`, `span` or another kind of payload.
        limit: Most letters, 1 to 1000.
        cursor: `next_cursor` of the page before.
    """
    query, path = dict(locals()), "/dead-letters/replay"
    return post(path, ReplayedLetters, query=query, is_repeatable=False, takes_s=PAGE_S)


def erase(
    *,
    session_id: str | None = None,
    trace_id: str | None = None,
    record_uid: str | None = None,
    tag: tuple[str, str] | None = None,
) -> Call[Erased]:
    """Remove data for good: exactly one session, trace, record or tag. Needs the scope admin.

    Args:
        session_id: All records of this session and their traces.
        trace_id: This trace and its records; 32 hex digits.
        record_uid: This record.
        tag: All records with this key and value.

    Raises:
        ConfigError: Not exactly one was given.
    """
    ids = {
        "session_id": session_id,
        "trace_id": trace_id and trace_id.lower(),
        "record_uid": record_uid,
    }
    body: dict[str, JsonValue] = {name: value for name, value in ids.items() if value is not None}
    if tag is not None:
        body["tag"] = {"key": tag[0], "value": tag[1]}
    if len(body) != 1:
        has = ", ".join(body) or "none"
        raise ConfigError(
            f"erase: expected exactly one of session_id, trace_id, record_uid, tag; got {has}"
        )
    # A second delivery erases nothing more, but its counts would be zero and not what went.
    return post("/erase", Erased, body=body, is_repeatable=False, takes_s=COMMIT_S)


def backup(folder: str) -> Call[Backup]:
    """Copy the data of all spaces, on the collector's machine. Needs the scope admin.

    Args:
        folder: Name of a new folder below the collector's setting `backups`.
    """
    body: dict[str, JsonValue] = {"folder": folder}
    return post("/backup", Backup, body=body, is_repeatable=False, takes_s=_BACKUP_S)
