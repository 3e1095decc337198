"""Records: reads of people."""

from collections.abc import Sequence
from typing import Any, Final

from collector.store.commit import tags_of, text_hash
from collector.store.evaluation_codec import decode_evaluation
from collector.store.json_text import load_json
from collector.store.reads import Reads
from collector.store.rows import EvaluationRow, RecordRow, RecordState
from scouter.evaluate.outcome import Outcome
from scouter.model.struct import struct

# All SQL is put together from this module's own words; values travel as parameters.
# ruff: noqa: S608

RECORD_COLUMNS: Final = """
    r.seq, r.space, r.received_ns, r.uid, r.digest, r.profile_ref, r.profile_uid, r.profile_name,
    r.alias, r.record_id, r.session_id, r.trace_id, r.created_ns, r.tags
"""
"""Columns of the table `r` that `record_row` reads; the context may follow."""

_RECORD: Final = f"""
    SELECT {RECORD_COLUMNS}, r.context FROM records r
    WHERE r.space = $1 AND r.uid_hash = $2 AND r.uid = $3
"""
_EVALUATIONS: Final = """
    SELECT body FROM evaluations WHERE seq >= $1 AND space = $2 AND record_uid = $3
    ORDER BY revision DESC
"""
_LETTERS: Final = """
    SELECT count(*) FROM dead_letters
    WHERE seq >= $1 AND space = $2 AND uid = $3 AND was_accepted = 1
"""


@struct
class StoredRecord:
    """A record and all that was decided about it."""

    record: RecordRow
    state: RecordState
    evaluations: tuple[EvaluationRow, ...]
    """All revisions, newest first."""


def state_of(outcome: Outcome | None, *, is_letter: bool) -> RecordState:
    """The state of a stored record.

    Args:
        outcome: Of its latest evaluation; None without one.
        is_letter: True if it became a dead letter.
    """
    if outcome is None:
        return RecordState.DEAD_LETTERED if is_letter else RecordState.WAITING
    return RecordState.SKIPPED if outcome is Outcome.SKIPPED else RecordState.EVALUATED


def record_row(values: Sequence[Any]) -> RecordRow:
    """Make a record of values of `RECORD_COLUMNS`, and of its context if that follows."""
    (
        seq, space, received_ns, uid, digest, profile_ref, profile_uid, profile_name, alias,
        record_id, session_id, trace_id, created_ns, tags, *context,
    ) = values  # fmt: skip
    return RecordRow(
        space=space,
        uid=uid,
        digest=digest,
        profile_ref=profile_ref,
        profile_uid=profile_uid,
        profile_name=profile_name,
        alias=alias,
        record_id=record_id,
        session_id=session_id,
        trace_id=trace_id,
        created_ns=created_ns,
        received_ns=received_ns,
        context=load_json(context[0]) if context else None,
        tags=tags_of(tags),
        seq=seq,
    )


class RecordReads(Reads):
    """Reads of records."""

    def record(self, space: str, uid: str) -> StoredRecord | None:
        """A record and all that was decided about it; None if it is not, or no longer, stored."""
        found = self.read(_RECORD, [space, text_hash(uid), uid])
        if not found:
            return None
        record = record_row(found[0])
        bodies = self.read(_EVALUATIONS, [record.seq, space, uid])
        ((letters,),) = self.read(_LETTERS, [record.seq, space, uid])
        evaluations = tuple(decode_evaluation(body) for (body,) in bodies)
        outcome = evaluations[0].outcome if evaluations else None
        return StoredRecord(
            record=record, state=state_of(outcome, is_letter=letters > 0), evaluations=evaluations
        )
