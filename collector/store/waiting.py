"""Lists of what is to be done: records that wait, sessions that are open, judges' pending tasks."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from collector.store.commit import text_hash
from collector.store.json_text import decode_evaluation
from collector.store.reads import NO_NEWER, Reads
from collector.store.records import LOW_SEQ, SESSION, undecided
from collector.store.rows import (
    FIRST_RESULT,
    EvaluationRow,
    OpenSession,
    PendingEvaluation,
    ResultPlace,
    Scope,
    WaitingSpace,
)

_UNDECIDED: Final = undecided(LOW_SEQ)
_WAITING_SINCE: Final = f"""
    SELECT r.received_ns FROM records r WHERE {_UNDECIDED} ORDER BY r.seq LIMIT 1
"""
_WAITING_SPACES: Final = f"""
    SELECT r.space, count(*), (array_agg(r.uid ORDER BY r.seq, r.uid))[1], min(r.received_ns)
    FROM records r
    WHERE {_UNDECIDED}
    GROUP BY r.space
    ORDER BY r.space
"""
_NO_NEWER: Final = NO_NEWER.format("e")
_PENDING: Final = f"""
    SELECT e.seq, e.ordinal, e.evaluation_id FROM evaluations e
    WHERE (e.seq, e.ordinal) > ($1::BIGINT, $2::BIGINT) AND e.pending > 0
      AND ($3::TEXT[] IS NULL OR (e.profile_uid = ANY($3::TEXT[])) = ($4::BIGINT = 0))
      AND {_NO_NEWER}
    ORDER BY e.seq, e.ordinal
    LIMIT $5::BIGINT
"""
"""Places alone: DuckDB joins and sorts the other columns in memory, too."""
_BODIES_OF: Final = """
    SELECT e.evaluation_id, e.body FROM evaluations e
    WHERE e.seq BETWEEN $1 AND $2 AND e.evaluation_id = ANY($3::TEXT[])
"""
_PENDING_SPACES: Final = f"""
    SELECT e.space, sum(e.pending)::BIGINT,
        (array_agg(e.record_uid
            ORDER BY e.is_backfill NULLS FIRST, e.evaluated_ns, e.record_uid))[1],
        coalesce(min(e.evaluated_ns) FILTER (WHERE e.is_backfill IS NULL), {2**63 - 1})
    FROM evaluations e
    WHERE e.pending > 0 AND {_NO_NEWER}
    GROUP BY e.space
    ORDER BY e.space
"""
_FIRST_UNDECIDED: Final = f"""
    SELECT space, profile_uid, min(created_ns) FROM (
        SELECT r.space, r.profile_uid, r.created_ns FROM records r
        WHERE r.created_ns >= $1::BIGINT AND r.profile_uid <> ''
          AND NOT starts_with(r.uid, 'score:')
          AND {undecided("$3::BIGINT", "AND {}.seq <= $2::BIGINT")}
        UNION ALL
        SELECT e.space, e.profile_uid, e.created_ns FROM evaluations e
        WHERE e.created_ns >= $1::BIGINT AND e.evaluated_ns >= $1::BIGINT
          AND e.pending > 0 AND e.was_decided = 0 AND e.seq <= $2::BIGINT AND NOT EXISTS (
            SELECT 1 FROM evaluations n
            WHERE n.revision > e.revision AND n.space = e.space AND n.record_uid = e.record_uid
              AND n.seq <= $2::BIGINT)
    ) u GROUP BY space, profile_uid
"""
_RECORD_SIZES: Final = """
    SELECT r.space, r.uid, r.context_bytes FROM records r WHERE r.uid_hash = ANY($1::BIGINT[])
"""
_SESSION_SIZES: Final = f"""
    SELECT r.space, {SESSION}, sum(r.context_bytes)::BIGINT FROM records r
    WHERE {SESSION} = ANY($1::TEXT[])
    GROUP BY r.space, {SESSION}
"""
_OPEN: Final = f"""
    SELECT DISTINCT {SESSION} AS session_id, r.trace_id
    FROM records r
    WHERE r.space = $1 AND NOT starts_with(r.uid, 'score:')
      AND (r.profile_uid = $2 OR (r.profile_uid = '' AND EXISTS (
        SELECT 1 FROM evaluations o WHERE o.space = r.space AND o.record_uid = r.uid
          AND o.profile_uid = $2 AND o.scope = 'record')))
      AND NOT (r.session_id = '' AND r.trace_id IS NOT NULL
        AND NOT EXISTS (
          SELECT 1 FROM evaluations o
          WHERE o.space = r.space AND o.record_uid = r.uid AND o.scope = 'record')
        AND NOT EXISTS (
          SELECT 1 FROM dead_letters d
          WHERE d.was_accepted = 1 AND d.space = r.space AND d.uid = r.uid))
      AND NOT EXISTS (
        SELECT 1 FROM evaluations e
        JOIN evaluations o ON o.space = e.space AND o.record_uid = e.record_uid
          AND o.scope = 'session' AND o.revision = 1
        WHERE e.scope = 'session' AND e.space = r.space AND o.profile_uid = $2
          AND e.input_seq >= r.seq AND e.session_id = {SESSION})
    ORDER BY session_id, trace_id NULLS LAST
"""
"""The profile of a record that was not known at first is that of its evaluation. Another version
may have evaluated the session later."""
_LATEST: Final = """
    SELECT DISTINCT ON (space, record_uid) body FROM evaluations
    WHERE uid_hash = ANY($1::BIGINT[]) AND record_uid = ANY($2::TEXT[])
    ORDER BY space, record_uid, revision DESC
"""


class WaitingReads(Reads):
    """Reads of work that is left, and of the data that it is about."""

    def waiting_since_ns(self) -> int | None:
        """Time at which the first record was accepted that waits; None where none does.

        It has neither an evaluation nor a dead letter.
        """
        found = self.read(_WAITING_SINCE)
        return found[0][0] if found else None

    def first_waiting_seq(self) -> int:
        """The commit before which no record waits; it never goes back."""
        ((seq,),) = self.read(f"SELECT {LOW_SEQ}")
        return seq

    def first_undecided(
        self, since_ns: int, until_seq: int, low_seq: int
    ) -> dict[tuple[str, str], int]:
        """Creation of the first record without a final result, by space and profile.

        Args:
            since_ns: Only of records that were created then or later.
            until_seq: As it was with this commit.
            low_seq: As it was then, or earlier: it is to be read before `until_seq`.
        """
        found = self.read(_FIRST_UNDECIDED, [since_ns, until_seq, low_seq])
        return {(space, profile_uid): at_ns for space, profile_uid, at_ns in found}

    def waiting_spaces(self) -> list[WaitingSpace]:
        """The spaces of the records that wait, each with its oldest."""
        return [WaitingSpace(*row) for row in self.read(_WAITING_SPACES)]

    def pending_evaluations(
        self,
        limit: int,
        after: ResultPlace = FIRST_RESULT,
        profiles: Collection[str] | None = None,
        *,
        others: bool = False,
    ) -> list[PendingEvaluation]:
        """Latest evaluations of which some tasks are pending, in the order of `results_after`.

        Args:
            limit: So many at most.
            after: Only those behind this place.
            profiles: Uids of the profiles that made them; all if not given.
            others: Of all profiles but these.

        Cost: a scan of what was stored since that place, and of the keys of all revisions.
        """
        names = None if profiles is None else sorted(profiles)
        places = self.read(_PENDING, [*after, names, int(others), limit])
        if not places:
            return []
        ids = [each for *_, each in places]
        bodies = dict(self.read(_BODIES_OF, [places[0][0], places[-1][0], ids]))
        found = [
            (ResultPlace(seq, ordinal), decode_evaluation(bodies[each]))
            for seq, ordinal, each in places
            if each in bodies
        ]
        sizes = self._context_bytes([row for _, row in found])
        return [
            PendingEvaluation(
                place=place, evaluation=row, context_bytes=sizes.get((row.space, _name(row)), 0)
            )
            for place, row in found
        ]

    def _context_bytes(self, rows: Sequence[EvaluationRow]) -> Mapping[tuple[str, str], int]:
        """Sizes of contexts by space and uid, or session id."""
        hashes = [text_hash(row.record_uid) for row in rows if row.scope is Scope.RECORD]
        sessions = sorted({row.session_id for row in rows if row.scope is Scope.SESSION})
        found = self.read(_RECORD_SIZES, [hashes]) if hashes else []
        if sessions:
            found += self.read(_SESSION_SIZES, [sessions])
        return {(space, name): size for space, name, size in found}

    def pending_spaces(self) -> list[WaitingSpace]:
        """The spaces with pending tasks, by name; of the latest evaluations only."""
        return [WaitingSpace(*row) for row in self.read(_PENDING_SPACES)]

    def pending_count(self) -> int:
        """Number of pending tasks of all spaces, of the latest evaluations only."""
        return sum(each.waiting for each in self.pending_spaces())

    def latest_evaluations(
        self, keys: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], EvaluationRow]:
        """The latest evaluation by space and uid; a key without one is left out.

        Cost: a scan of the hashes of the uids of all evaluations.
        """
        wanted = set(keys)
        hashes = self.maybe("evaluated", [text_hash(uid) for _, uid in wanted])
        if not hashes:
            return {}
        rows = self.read(_LATEST, [hashes, [uid for _, uid in wanted]])
        found = map(decode_evaluation, (body for (body,) in rows))
        return {
            (row.space, row.record_uid): row
            for row in found
            if (row.space, row.record_uid) in wanted
        }

    def open_sessions(self, profiles: Collection[tuple[str, str]]) -> list[OpenSession]:
        """Sessions with a record whose commit came after the `input_seq` of all their evaluations.

        Args:
            profiles: Space and uid of the profiles to look at.

        Returns:
            One for each such session and trace. A record that waits, and whose trace is to say
            which session it belongs to, is in none yet.

        Cost: a scan of the keys of all records and evaluations for each profile.
        """
        return [
            OpenSession(space=space, profile_uid=uid, session_id=session_id, trace_id=trace_id)
            for space, uid in profiles
            for session_id, trace_id in self.read_for_work(_OPEN, [space, uid])
        ]


def _name(row: EvaluationRow) -> str:
    return row.record_uid if row.scope is Scope.RECORD else row.session_id
