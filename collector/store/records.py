"""Records: reads of people.

A record's state is not in its row: it follows from evaluations and dead letters. So some records
are taken by their places, and their states are looked up.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from collector.split import split
from collector.store.commit import tags_of, text_hash
from collector.store.facets import Counts, Facets, IsOver, count_in_steps, counts_of
from collector.store.json_text import decode_evaluation, load_json, plain_json
from collector.store.letter_reads import LetterReads
from collector.store.letters import LetterQuery
from collector.store.reads import LAST, ROW_BY_ROW, Values
from collector.store.record_queries import (
    RecordHistory,
    RecordQuery,
    RecordSummary,
    SessionQuery,
)
from collector.store.rows import RecordRow, RecordState
from collector.store.span_rows import traces_with
from scouter.evaluate.outcome import Outcome

RECORD_COLUMNS: Final = """
    r.seq, r.space, r.received_ns, r.uid, r.digest, r.profile_ref, r.profile_uid, r.profile_name,
    r.alias, r.record_id, r.session_id, r.trace_id, r.created_ns, r.tags
"""
"""Columns of the table `r` that `record_row` reads; the context may follow."""
PLACE_COLUMNS: Final = "r.seq, r.uid_hash, r.uid, r.context_bytes, r.received_ns"
"""Columns of a `Place`."""
RECORD_PROFILE: Final = "coalesce(nullif(r.alias, ''), r.profile_ref)"
"""The profile of a record `r` as lists show it."""
SESSION: Final = "coalesce(nullif(r.session_id, ''), r.uid)"
"""The session of a record `r`: one without a session id is a session of its own."""
OF_HASHES: Final = "r.uid_hash IN (SELECT unnest({}::BIGINT[]))"
"""SQL for some records: joined by numbers, DuckDB reads the long columns of these rows alone."""
PART_BYTES: Final = 4 * 2**20
"""Bytes of contexts that are read together."""
MOST: Final = 20_000
"""Records that are looked at together; a few megabytes of places and ids."""
GROWTH: Final = 4
_N: Final = "BIGINT"
_NEVER: Final = (RecordState.ERASED, RecordState.EXPIRED)
"""States without a row: what was erased, or expired, is gone."""

_EVALUATIONS: Final = """
    SELECT body FROM evaluations WHERE seq >= $1 AND space = $2 AND record_uid = $3
      AND scope = 'record'
    ORDER BY revision DESC
"""
_OUTCOMES: Final = """
    SELECT DISTINCT ON (record_uid) record_uid, outcome FROM evaluations
    WHERE seq BETWEEN $1 AND $2 AND space = $3 AND scope = 'record'
      AND record_uid IN (SELECT unnest($4::TEXT[]))
    ORDER BY record_uid, revision DESC
"""
_LETTERS: Final = """
    SELECT uid FROM dead_letters
    WHERE seq BETWEEN $1 AND $2 AND space = $3 AND was_accepted = 1
"""
_PLACES: Final = f"""
    FROM records r WHERE r.seq BETWEEN $1 AND $2 AND r.space = $3 AND {OF_HASHES.format("$4")}
"""
_OUTLINES: Final = f"SELECT {RECORD_COLUMNS}, r.uid_hash, r.context_bytes {_PLACES}"
_ROW_BY_ROW: Final = ROW_BY_ROW.format("r.context_bytes")
_CONTEXTS: Final = f"SELECT r.seq, r.uid, r.context {_PLACES} AND {_ROW_BY_ROW}"
_OF_SESSIONS: Final = f"""
    SELECT {RECORD_COLUMNS} FROM records r
    WHERE r.space = $1 AND {SESSION} IN (SELECT unnest($2::TEXT[])) LIMIT $3::BIGINT
"""
_OF_TRACES: Final = f"""
    SELECT {RECORD_COLUMNS} FROM records r
    WHERE r.space = $1 AND r.trace_id IN (SELECT unnest($2::TEXT[])) ORDER BY r.seq, r.uid
"""
LOW_SEQ: Final = "coalesce((SELECT o.low_seq FROM offsets o ORDER BY o.seq DESC LIMIT 1), 0)"
"""SQL for the commit before which no record waits."""


def undecided(low: str, until: str = "") -> str:
    """SQL that is true of records `r` that nothing was decided about.

    Args:
        low: SQL for the commit before which there is none.
        until: Condition on the commits of a table, whose name is `{}`.
    """
    return f"""
    r.seq >= {low} {until.format("r")}
    AND NOT EXISTS (
        SELECT 1 FROM evaluations e
        WHERE e.seq >= {low} AND e.space = r.space AND e.record_uid = r.uid {until.format("e")})
    AND NOT EXISTS (
        SELECT 1 FROM dead_letters l
        WHERE l.seq >= {low} AND l.was_accepted = 1 AND l.space = r.space AND l.uid = r.uid
          {until.format("l")})
"""


class Place(NamedTuple):
    """A record: its place in lists, and what is known of it without reading it whole."""

    seq: int
    uid_hash: int
    uid: str
    context_bytes: int
    received_ns: int

    @property
    def key(self) -> tuple[int, str]:
        """Commit and uid."""
        return self.seq, self.uid


class Decided(NamedTuple):
    """States of a record."""

    state: RecordState
    outcome: Outcome | None


Candidate: TypeAlias = tuple[Place, Decided]


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


def record_conditions(query: RecordQuery | SessionQuery, values: Values) -> str:
    """Conditions on a record `r` that both kinds of list share, as SQL."""
    where = [f"r.space = {values.of(query.space)}"]
    if query.profile is not None:
        names = "r.alias, r.profile_name, r.profile_uid, r.profile_ref"
        where.append(f"{values.of(query.profile)} IN ({names})")
    if query.since_ns is not None:
        where.append(f"r.received_ns >= {values.of(query.since_ns, _N)}")
    if query.until_ns is not None:
        where.append(f"r.received_ns < {values.of(query.until_ns, _N)}")
    if query.as_of is not None:
        where.append(f"r.seq <= {values.of(query.as_of, _N)}")
    return " AND ".join(where)


def below(place: tuple[int, int], values: Values) -> str:
    """The condition on a record `r` that it comes behind a place in lists, as SQL."""
    seq, uid_hash = (values.of(each, _N) for each in place)
    return f"r.seq <= {seq} AND (r.seq, r.uid_hash) < ({seq}, {uid_hash})"


def _record_conditions(query: RecordQuery, values: Values) -> str:
    """The filter of records `r` but for their state, as SQL."""
    where = [record_conditions(query, values)]
    if query.record_id is not None:
        where.append(f"{values.of(query.record_id)} IN (r.record_id, r.uid)")
    if query.trace_id is not None:
        where.append(f"r.trace_id = {values.of(query.trace_id)}")
    if query.session_id is not None:
        where.append(f"{SESSION} = {values.of(query.session_id)}")
    where += traces_with(query.space, query.user_id, query.attributes, "r.trace_id", values)
    return " AND ".join(where)


def _rare(query: RecordQuery, values: Values) -> str | None:
    """The condition of a state that few records have, as SQL, so that few are looked at."""
    if query.state in (None, RecordState.EVALUATED):
        return None
    last = values.of(LAST if query.as_of is None else query.as_of, _N)
    own = f"e.seq <= {last} AND e.space = r.space AND e.record_uid = r.uid AND e.scope = 'record'"
    is_letter = (
        f"EXISTS (SELECT 1 FROM dead_letters l WHERE l.seq <= {last} AND l.was_accepted = 1"
        " AND l.space = r.space AND l.uid = r.uid)"
    )
    if query.state is RecordState.WAITING:
        low = " AND {0}.seq >= " + LOW_SEQ if query.as_of is None else ""
        is_decided = f"EXISTS (SELECT 1 FROM evaluations e WHERE {own}{low.format('e')})"
        return f"NOT {is_decided} AND NOT {is_letter}{low.format('r')}"
    if query.state is RecordState.DEAD_LETTERED:
        return f"{is_letter} AND NOT EXISTS (SELECT 1 FROM evaluations e WHERE {own})"
    newer = own.replace("e.", "n.")
    return (
        f"EXISTS (SELECT 1 FROM evaluations e WHERE {own} AND e.outcome = 'skipped'"
        f" AND NOT EXISTS (SELECT 1 FROM evaluations n WHERE n.revision > 1 AND {newer}"
        " AND n.revision > e.revision))"
    )


class RecordReads(LetterReads):
    """Reads of records; `RecordTextReads` lists them."""

    def matching_places(self, query: RecordQuery) -> Iterator[Sequence[Place]]:
        """The places of everything that a list holds, newest first, in growing parts.

        Where most records have the state that is requested, those of another are among them.

        Args:
            query: Its limit is about the size of the first part.

        Cost: that of the parts that are taken.
        """
        if query.state in _NEVER:
            return
        before, size = query.before, query.limit + 1
        while True:
            values = Values()
            where = _record_conditions(query, values)
            rare = _rare(query, values)
            if rare is not None:
                where += f" AND {rare}"
            if before is not None:
                where += f" AND {below(before, values)}"
            rows = self.read(
                f"SELECT {PLACE_COLUMNS} FROM records r WHERE {where}"
                f" ORDER BY r.seq DESC, r.uid_hash DESC LIMIT {values.of(size, _N)}",
                values,
            )
            yield [Place(*row) for row in rows]
            if len(rows) < size:
                return
            before, size = rows[-1][:2], min(size * GROWTH, MOST)

    def stated(self, query: RecordQuery, places: Sequence[Place]) -> list[Candidate]:
        """Those of some records, newest first, that have the state that is requested."""
        if not places:
            return []
        last = LAST if query.as_of is None else query.as_of
        of = [places[-1].seq, last, query.space]
        outcomes = dict(self.read(_OUTCOMES, [*of, [place.uid for place in places]]))
        letters = {uid for (uid,) in self.read(_LETTERS, of)}
        found: list[Candidate] = []
        for place in places:
            outcome = Outcome(outcomes[place.uid]) if place.uid in outcomes else None
            state = state_of(outcome, is_letter=place.uid in letters)
            if query.state in (None, state):
                found.append((place, Decided(state, outcome)))
        return found

    def record_summaries(
        self,
        space: str,
        page: Sequence[Candidate],
        contexts: dict[tuple[int, str], str] | None = None,
    ) -> Iterator[RecordSummary]:
        """The records at some places, in the same order; one that went meanwhile is left out.

        Args:
            space: Their space.
            page: Newest first.
            contexts: By commit and uid; None where they are not requested.
        """
        rows = self.read(_OUTLINES, _of_places(space, [place for place, _ in page])) if page else ()
        found = {(row[0], row[3]): row for row in rows}
        for place, decided in page:
            row = found.get(place.key)
            text = None if contexts is None else contexts.get(place.key)
            if row is not None and (contexts is None or text is not None):
                *values, _, size = row
                yield RecordSummary(
                    place=place[:2],
                    record=record_row(values),
                    context_bytes=size,
                    state=decided.state,
                    outcome=decided.outcome,
                    context=None if text is None else plain_json(text),
                )

    def contexts(
        self, space: str, places: Iterable[Place]
    ) -> Iterator[tuple[tuple[int, str], str]]:
        """The contexts of some records as the store has them, by commit and uid.

        Args:
            space: Their space.
            places: Newest first.

        Cost: memory of a few megabytes, or of one context.
        """
        for part in split(places, lambda place: (place.context_bytes,), (PART_BYTES,)):
            for seq, uid, text in self.read(_CONTEXTS, _of_places(space, part)):
                yield (seq, uid), text

    def record_facets(self, query: RecordQuery, is_over: IsOver) -> Facets:
        """Count what `records` lists, by profile and state.

        Args:
            query: The filter; its limit and its place are not looked at.
            is_over: Ends the count between two steps.

        Cost: linear in the records that are looked at.
        """
        if query.state in _NEVER:
            return Facets(counts={}, looked_until_ns=None)
        as_of = self.last_seq() if query.as_of is None else query.as_of
        whole = replace(query, as_of=as_of)
        return count_in_steps(
            self, "records", "received_ns", query.space, as_of, is_over,
            lambda first: self._count_records(whole, first),
        )  # fmt: skip

    def _count_records(self, query: RecordQuery, first: int) -> Counts:
        """The state follows from evaluations and letters, none of which comes before its record."""
        values = Values()
        where = _record_conditions(query, values)
        low, last = values.of(first, _N), values.of(query.as_of, _N)
        known = f"seq BETWEEN {low} AND {last} AND space = {values.of(query.space)}"
        evaluated = f"SELECT e.record_uid FROM evaluations e WHERE e.scope = 'record' AND {known}"
        of_state = "true" if query.state is None else f"state = {values.of(query.state.value)}"
        rows = self.read(
            f"""
            SELECT CASE WHEN state IS NULL THEN 'profile' ELSE 'state' END,
                coalesce(state, profile), count(*)
            FROM (
                SELECT {RECORD_PROFILE} AS profile, CASE
                    WHEN r.uid IN ({evaluated} AND e.outcome = 'skipped' AND NOT EXISTS (
                        SELECT 1 FROM evaluations n WHERE n.revision > 1 AND n.{known}
                          AND n.record_uid = e.record_uid AND n.revision > e.revision))
                        THEN '{RecordState.SKIPPED.value}'
                    WHEN r.uid IN ({evaluated} AND e.revision = 1)
                        THEN '{RecordState.EVALUATED.value}'
                    WHEN r.uid IN (SELECT uid FROM dead_letters WHERE was_accepted = 1 AND {known})
                        THEN '{RecordState.DEAD_LETTERED.value}'
                    ELSE '{RecordState.WAITING.value}' END AS state
                FROM records r WHERE r.seq >= {low} AND {where}
            ) x WHERE {of_state} GROUP BY GROUPING SETS ((profile), (state))
            """,
            values,
        )
        return counts_of(rows)

    def record_history(self, space: str, uid: str) -> RecordHistory | None:
        """A record and all that was decided about it; None if it is not, or no longer, stored."""
        records = self.records_of(space, [uid])
        if not records:
            return None
        bodies = self.read(_EVALUATIONS, [records[0].seq, space, uid])
        evaluations = tuple(decode_evaluation(body) for (body,) in bodies)
        letters = self.dead_letters(LetterQuery(space=space, uid=uid, was_accepted=True, limit=1))
        outcome = evaluations[0].outcome if evaluations else None
        return RecordHistory(
            record=records[0],
            state=state_of(outcome, is_letter=bool(letters)),
            evaluations=evaluations,
            letter=letters[0] if letters and not evaluations else None,
        )

    def records_of(self, space: str, uids: Iterable[str]) -> list[RecordRow]:
        """Accepted records by their uids, in order of acceptance.

        Their contexts are in memory together: see `context_sizes`.
        """
        found = self._of_uids(f"{RECORD_COLUMNS}, r.context", space, uids)
        return sorted(map(record_row, found), key=_accepted)

    def context_sizes(self, space: str, uids: Iterable[str]) -> dict[str, int]:
        """By uid the bytes of a record's context as JSON."""
        return dict(self._of_uids("r.uid, r.context_bytes", space, uids))

    def context_beginnings(
        self, space: str, uids: Iterable[str], characters: int, since_ns: int = 0
    ) -> dict[str, str]:
        """By uid the first characters of a record's context, as the store has it.

        Args:
            space: Their space.
            uids: Of the records.
            characters: Of each context at most.
            since_ns: Received from then on; all others are left out.

        Cost: a look at the hashes of the records since, 40 ns each.
        """
        columns = f"r.uid, left(r.context, {characters:d})"
        return dict(self._of_uids(columns, space, uids, since_ns))

    def _of_uids(
        self, columns: str, space: str, uids: Iterable[str], since_ns: int = 0
    ) -> list[tuple[Any, ...]]:
        wanted = list(set(uids))
        maybe = self.maybe("records", [text_hash(uid) for uid in wanted])
        if not maybe:
            return []
        return self.read(
            f"SELECT {columns} FROM records r WHERE r.space = $1 AND {OF_HASHES.format('$2')}"
            f" AND r.uid = ANY($3::TEXT[]) AND r.received_ns >= $4::BIGINT AND {_ROW_BY_ROW}",
            [space, maybe, wanted, since_ns],
        )

    def trace_records(self, space: str, trace_ids: Iterable[str]) -> list[RecordRow]:
        """Accepted records of some traces, without contexts, in order of acceptance."""
        return [record_row(row) for row in self.read(_OF_TRACES, [space, list(set(trace_ids))])]

    def session_records(
        self, space: str, session_ids: Iterable[str], limit: int
    ) -> list[RecordRow]:
        """Accepted records of some sessions, without contexts, in order of acceptance.

        Records of every profile are listed.

        Args:
            space: Their space.
            session_ids: The sessions.
            limit: Records that are read at most; of more, any are given.
        """
        rows = self.read(_OF_SESSIONS, [space, list(set(session_ids)), limit])
        return sorted(map(record_row, rows), key=_accepted)


def _accepted(row: RecordRow) -> tuple[int, str]:
    return row.seq, row.uid


def _of_places(space: str, places: Sequence[Place]) -> list[object]:
    """Values of `_PLACES`."""
    return [places[-1].seq, places[0].seq, space, [place.uid_hash for place in places]]
