"""Dead letters of the worker: records and evaluations that it cannot go on with."""

from collector.store.json_text import dump_json
from collector.store.letters import (
    UNKNOWN_PROFILE,
    UNUSABLE_PROFILE,
    DeadLetter,
    LetterKind,
)
from collector.store.rows import EvaluationRow, RecordRow, Scope


def letter_of_record(row: RecordRow, reason: str, message: str) -> DeadLetter:
    """A record, whole, so that it can be replayed."""
    return DeadLetter(
        space=row.space, kind=LetterKind.RECORD, reason=reason, message=message, source="worker",
        payload=_payload(row), uid=row.uid, received_ns=row.received_ns, was_accepted=True,
    )  # fmt: skip


def letter_of_conflict(row: RecordRow) -> DeadLetter:
    """A record whose uid was accepted with another payload.

    Without times of our own, so that the same record delivered again is the same letter.
    """
    return DeadLetter(
        space=row.space, kind=LetterKind.RECORD, reason="conflict", source="",
        message=f"uid {row.uid} was accepted before with another content; the first one stays",
        payload=_payload(row, has_date=row.is_dated), uid=row.uid, received_ns=row.received_ns,
    )  # fmt: skip


def _payload(row: RecordRow, *, has_date: bool = True) -> bytes:
    """A record as its sender would send it."""
    payload = {
        "uid": row.uid,
        "profile": row.profile_ref,
        "record_id": row.record_id,
        "session_id": row.session_id,
        "trace_id": row.trace_id,
        **({"created_at": row.created_ns} if has_date else {}),
        "context": row.context,
        "tags": dict(row.tags),
    }
    return dump_json(payload).encode()


def letter_of_evaluation(row: EvaluationRow, message: str) -> DeadLetter:
    """An evaluation that the store cannot hold.

    The letter is the record's state only where no earlier evaluation is; a session has none.
    """
    return DeadLetter(
        space=row.space,
        kind=LetterKind.RECORD,
        reason="unstorable_verdict",
        message=message,
        source="worker",
        payload=b"",
        uid=row.record_uid,
        received_ns=row.evaluated_ns,
        was_accepted=row.revision == 1 and row.scope is Scope.RECORD,
    )


def letter_of_unknown(row: RecordRow, why: str) -> DeadLetter:
    """A record whose profile nobody registered in time.

    Args:
        row: The record.
        why: Reason that its profile cannot be used; empty if there is no such profile.
    """
    if why:
        message = (
            f"the profile {row.profile_ref!r} is stored, and this version cannot use it: {why}; "
            "push a version of it that can be used, then replay the record"
        )
        return letter_of_record(row, UNUSABLE_PROFILE, message)
    message = (
        f"no registered profile has the digest, uid, alias or name {row.profile_ref!r}; "
        "register it with `scouter collector --profile FILE` or `scouter profile push FILE`, "
        "then replay the record"
    )
    return letter_of_record(row, UNKNOWN_PROFILE, message)
