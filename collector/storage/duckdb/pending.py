"""Evaluations of which a judge has yet to answer for some tasks."""

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Final

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.stored_keys import text_hash
from collector.store.evaluation_codec import decode_evaluation
from collector.store.rows import (
    EvaluationRow,
    PendingEvaluation,
    PendingSpace,
    ResultPlace,
    Scope,
)

_PLACES: Final = """
    SELECT e.seq, e.ordinal, e.evaluation_id, e.uid_hash, e.space, e.record_uid, e.revision
    FROM evaluations e
    WHERE e.seq >= $1 AND (e.seq > $1 OR e.ordinal > $2) AND e.pending > 0 {profiles}
    ORDER BY e.seq, e.ordinal LIMIT $3
"""
"""Places alone: the order takes all memory there is with the other columns."""
_OF_PROFILES: Final = "AND {} list_contains($4::VARCHAR[], e.profile_uid)"
_NEWER: Final = """
    SELECT e.space, e.record_uid, max(e.revision) FROM evaluations e
    SEMI JOIN (SELECT unnest($1::BIGINT[]) AS uid_hash) k ON k.uid_hash = e.uid_hash
    WHERE e.seq >= $2 AND e.revision > 1 GROUP BY e.space, e.record_uid
"""
_MOST: Final = 20_000
"""Candidates that are looked at together."""
_ROWS: Final = """
    SELECT e.seq, e.ordinal, e.body FROM evaluations e
    SEMI JOIN (SELECT unnest($3::VARCHAR[]) AS evaluation_id) k
        ON k.evaluation_id = e.evaluation_id
    WHERE e.seq BETWEEN $1 AND $2
"""
_RECORD_SIZES: Final = """
    SELECT r.space, r.uid, strlen(r.context) FROM records r
    SEMI JOIN (SELECT unnest($1::BIGINT[]) AS uid_hash) k ON k.uid_hash = r.uid_hash
"""
_SESSION_SIZES: Final = """
    SELECT r.space, k.id, sum(strlen(r.context))::BIGINT FROM records r
    JOIN (SELECT unnest($1::VARCHAR[]) AS id) k
        ON k.id = coalesce(nullif(r.session_id, ''), r.uid)
    GROUP BY r.space, k.id
"""
_SPACES: Final = """
    SELECT e.space, sum(e.pending)::BIGINT, arg_min(e.record_uid, e.evaluated_ns),
        min(e.evaluated_ns)
    FROM evaluations e
    ANTI JOIN (SELECT space, record_uid, revision FROM evaluations WHERE revision > 1) n
        ON n.space = e.space AND n.record_uid = e.record_uid AND n.revision > e.revision
    WHERE e.pending > 0 GROUP BY e.space ORDER BY e.space
"""


def read_pending_spaces(database: Database) -> list[PendingSpace]:
    """By space how many tasks are pending, and the oldest evaluation with one.

    Cost: linear in the evaluations with pending tasks, and in all revisions.
    """
    return [
        PendingSpace(space=space, count=count, uid=uid, evaluated_ns=evaluated_ns)
        for space, count, uid, evaluated_ns in database.read(_SPACES)
    ]


def read_pending(
    database: Database,
    after: ResultPlace,
    limit: int,
    profiles: Collection[str] | None = None,
    *,
    others: bool = False,
) -> list[PendingEvaluation]:
    """The next evaluations with pending tasks behind a place, oldest first.

    Args:
        database: The store's.
        after: The place.
        limit: So many at most.
        profiles: Uids of the profiles that made them; all if not given.
        others: Of all profiles but these.

    Cost: one look at three columns of what was stored since that place, and at the keys of all
    records.
    """
    places = _latest_places(database, after, limit, profiles, others=others)
    if not places:
        return []
    ids = [row[2] for row in places]
    rows = sorted(database.read(_ROWS, [places[0][0], places[-1][0], ids]), key=itemgetter(0, 1))
    evaluations = [decode_evaluation(row[2]) for row in rows]
    sizes = _context_bytes(database, evaluations)
    return [
        PendingEvaluation(
            place=ResultPlace(row[0], row[1]),
            evaluation=evaluation,
            context_bytes=sizes.get((evaluation.space, _name(evaluation)), 0),
        )
        for row, evaluation in zip(rows, evaluations, strict=True)
    ]


def _latest_places(
    database: Database,
    after: ResultPlace,
    limit: int,
    profiles: Collection[str] | None,
    *,
    others: bool,
) -> Sequence[tuple[int, int, str]]:
    """Commit, ordinal and id of the next ones that no revision superseded."""
    found: list[tuple[int, int, str]] = []
    size = limit
    condition, values = "", list[object]()
    if profiles is not None:
        condition, values = _OF_PROFILES.format("NOT" if others else ""), [sorted(profiles)]
    sql = _PLACES.format(profiles=condition)
    while len(found) < limit:
        rows = database.read(sql, [after.seq, after.ordinal, size, *values])
        if rows:
            newest = database.read(_NEWER, [[row[3] for row in rows], rows[0][0]])
            latest = {(space, uid): revision for space, uid, revision in newest}
            found += [row[:3] for row in rows if latest.get(row[4:6], 1) <= row[6]]
            after = ResultPlace(*rows[-1][:2])
        if len(rows) < size:
            break
        size = min(4 * size, _MOST)
    return found[:limit]


def _name(evaluation: EvaluationRow) -> str:
    return evaluation.record_uid if evaluation.scope is Scope.RECORD else evaluation.session_id


def _context_bytes(
    database: Database, evaluations: Sequence[EvaluationRow]
) -> Mapping[tuple[str, str], int]:
    """Sizes of contexts by space and uid, or session id."""
    hashes = [text_hash(row.record_uid) for row in evaluations if row.scope is Scope.RECORD]
    sessions = sorted({row.session_id for row in evaluations if row.scope is Scope.SESSION})
    rows = database.read(_RECORD_SIZES, [hashes]) if hashes else []
    if sessions:
        rows += database.read(_SESSION_SIZES, [sessions])
    return {(space, name): size for space, name, size in rows}
