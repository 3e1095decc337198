"""The listing of sessions, and one session with its records, spans and traces counted.

A session has no row: it is its records. So a listing takes some records, by their places, and
passes over the sessions that it has shown. Conditions on whole sessions are looked up for those of
one part together.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

from collector.storage.duckdb.commit_ranges import within
from collector.storage.duckdb.database import Database
from collector.storage.duckdb.evaluations import conditions
from collector.storage.duckdb.read import StoredSpans
from collector.storage.duckdb.records import asked_of_record
from collector.storage.duckdb.session_filter import SESSION, session_conditions, session_tables
from collector.storage.duckdb.stored_keys import TRACE_HASH, text_hash
from collector.storage.log.span_codec import IS_SPAN
from collector.store.record_queries import SessionPage, SessionQuery, SessionSummary
from scouter.evaluate.outcome import DECIDED

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

GROWTH: Final = 4
MOST: Final = 20_000
"""Records that are looked at together; a few megabytes of places and ids."""
_Place = tuple[int, int]
_COUNTED: Final = ("session_id", "records", "traces", "first_ns", "last_ns", *DECIDED, "undecided")
_received = itemgetter(3)


def read_sessions(
    stored: StoredSpans, query: SessionQuery, is_over: Callable[[], bool]
) -> SessionPage:
    """One page of sessions, each at the place of its newest record that is asked for.

    Args:
        stored: The open file, and the index of its traces.
        query: Says as of when.
        is_over: Ends a search by a condition on whole sessions between two parts.

    Cost: a look at the session ids of all records, and at the keys of the evaluations that came
    since the first record of these sessions: 10 ms among a million that are young, 45 ms else. With
    a condition on whole sessions, that of `session_tables` for each part.
    """
    assert query.as_of is not None  # noqa: S101 the store has filled it in
    database = stored.database
    found: list[tuple[_Place, str]] = []
    next_before, looked_until_ns = query.before, None
    size = 4 * (query.limit + 1)
    while True:
        rows = asked_records(database, query, next_before, size)
        found += _new_sessions(database, query, rows)
        if len(found) > query.limit:
            found = found[: query.limit]
            next_before = found[-1][0]
            break
        if len(rows) < size:
            next_before = None
            break
        next_before, size = rows[-1][:2], min(size * GROWTH, MOST)
        if query.asks_of_sessions and is_over():
            looked_until_ns = min(map(_received, rows))
            break
    ids = [session_id for _, session_id in found]
    counts = session_summaries(stored, query.space, ids)
    return SessionPage(
        items=tuple(counts[each] for each in ids if each in counts),
        next_before=next_before,
        as_of=query.as_of,
        looked_until_ns=looked_until_ns,
    )


def read_session(stored: StoredSpans, space: str, session_id: str) -> SessionSummary | None:
    """One session; None if no record of it is stored."""
    return session_summaries(stored, space, [session_id]).get(session_id)


def read_session_traces(database: Database, space: str, session_id: str, limit: int) -> list[str]:
    """Traces of a session's records, in the order of their first records."""
    rows = database.read(
        "SELECT r.trace_id FROM records r WHERE r.trace_id IS NOT NULL"
        " AND r.space = ? AND (r.session_id = ? OR (r.session_id = '' AND r.uid_hash = ?))"
        " GROUP BY r.trace_id ORDER BY min(r.seq), r.trace_id LIMIT ?",
        [space, session_id, text_hash(session_id), limit],
    )
    return [row[0] for row in rows]


# --- which sessions -----------------------------------------------------------------------------


def asked_records(
    database: Database, query: SessionQuery, before: _Place | None, size: int, more: str = ""
) -> list[tuple[Any, ...]]:
    """The newest records that are asked for: place, session and arrival of each.

    Args:
        database: The open file.
        query: The filter.
        before: Only records below this place.
        size: Most records.
        more: Further columns of records `r`, each behind a comma.
    """
    where, given = conditions(*asked_of_record(query))
    if before is not None:
        where += " AND r.seq <= ? AND (r.seq, r.uid_hash) < (?, ?)"
        given += [before[0], *before]
    return database.read(
        f"SELECT r.seq, r.uid_hash, {SESSION}, r.received_ns{more} FROM records r WHERE {where}"
        " ORDER BY r.seq DESC, r.uid_hash DESC LIMIT ?",
        [*given, size],
    )


def _new_sessions(
    database: Database, query: SessionQuery, rows: Sequence[tuple[Any, ...]]
) -> list[tuple[_Place, str]]:
    """The sessions whose newest record is among some, in the order of these records."""
    if not rows:
        return []
    places: dict[str, _Place] = {}
    for seq, uid_hash, session_id, _ in rows:
        places.setdefault(session_id, (seq, uid_hash))
    newest = _last_places(database, query, list(places), rows[-1][0])
    new = [each for each, at in places.items() if newest.get(each, at) == at]
    met = met_sessions(database, query, new)
    return [(places[each], each) for each in new if each in met]


def met_sessions(
    database: Database, query: SessionQuery, session_ids: Collection[str]
) -> Collection[str]:
    """The sessions, among some, that meet the conditions on whole sessions."""
    if not query.asks_of_sessions or not session_ids:
        return session_ids
    wanted = "SELECT hash(unnest(?::VARCHAR[])) AS sid"
    where, given = session_conditions(query)
    ids = list(session_ids)
    rows = database.read(
        f"WITH {session_tables(query, wanted)} SELECT id"
        f" FROM (SELECT id, hash(id) AS sid FROM (SELECT unnest(?::VARCHAR[]) AS id))"
        f" WHERE {where}",
        [ids, ids, *given],
    )
    return {session_id for (session_id,) in rows}


def _last_places(
    database: Database, query: SessionQuery, session_ids: Sequence[str], since: int
) -> Mapping[str, _Place]:
    where, given = conditions(*asked_of_record(query), ("r.seq >= ?", since))
    rows = database.read(
        f"""
        SELECT k.id, max((r.seq, r.uid_hash)) FROM records r
        JOIN (SELECT unnest(?::VARCHAR[]) AS id) k ON k.id = {SESSION}
        WHERE {where} GROUP BY k.id
        """,
        [session_ids, *given],
    )
    return {session_id: tuple(place) for session_id, place in rows}


# --- what they consist of -----------------------------------------------------------------------


def session_summaries(
    stored: StoredSpans, space: str, session_ids: Sequence[str]
) -> Mapping[str, SessionSummary]:
    """Some sessions by id: their records counted by their latest evaluation, their spans summed."""
    if not session_ids:
        return {}
    columns = "r.seq, r.uid, r.uid_hash, r.trace_id, r.created_ns"
    rows = stored.database.read(
        f"""
        WITH own AS MATERIALIZED (
            SELECT r.session_id AS id, {columns} FROM records r
            WHERE r.space = $2 AND r.session_id IN (SELECT unnest($1::VARCHAR[]))
            UNION ALL
            SELECT r.uid, {columns} FROM records r WHERE r.space = $2 AND r.session_id = ''
                AND r.uid_hash IN (SELECT unnest($3::BIGINT[]))
                AND r.uid IN (SELECT unnest($1::VARCHAR[]))
        ), evaluations AS (
            SELECT e.record_uid, arg_max(e.outcome, e.revision) AS outcome FROM evaluations e
            SEMI JOIN own ON own.uid_hash = e.uid_hash
            WHERE e.seq >= (SELECT min(seq) FROM own) AND e.space = $2 AND e.scope = 'record'
            GROUP BY e.record_uid
        )
        SELECT list(DISTINCT {TRACE_HASH}::BIT::BIGINT) FILTER (own.trace_id IS NOT NULL),
            own.id, count(*), count(DISTINCT own.trace_id), min(own.created_ns),
            max(own.created_ns),
            {", ".join(f"count(*) FILTER (v.outcome = '{word.value}')" for word in DECIDED)},
            count(*) FILTER (coalesce(v.outcome, 'pending') = 'pending')
        FROM own LEFT JOIN evaluations v ON v.record_uid = own.uid GROUP BY own.id
        """,
        [list(session_ids), space, list(map(text_hash, session_ids))],
    )
    traces: dict[str, list[int]] = {row[1]: row[0] or [] for row in rows}
    spans = _span_sums(stored, space, traces)
    found = {row[1]: SessionSummary(**dict(zip(_COUNTED, row[1:], strict=True))) for row in rows}
    return {
        session_id: replace(each, **spans.get(session_id, {})) for session_id, each in found.items()
    }


def _span_sums(
    stored: StoredSpans, space: str, traces: Mapping[str, Sequence[int]]
) -> Mapping[str, dict[str, int | None]]:
    """Duration and tokens of the spans of some sessions, by session.

    Args:
        stored: The spans.
        space: Their space.
        traces: Hashes of the traces of each session.
    """
    hashes = [number for some in traces.values() for number in some]
    if not hashes:
        return {}
    ids = [session_id for session_id, some in traces.items() for _ in some]
    rows = stored.database.read(
        f"""
        SELECT k.id, max(s.end_ns) - min(s.start_ns), sum(s.input_tokens)::BIGINT,
            sum(s.output_tokens)::BIGINT
        FROM spans s JOIN (SELECT unnest(?::VARCHAR[]) AS id, unnest(?::BIGINT[]) AS trace_hash) k
            ON k.trace_hash = s.trace_hash
        WHERE {within(stored.traces.stretches(set(hashes)))} AND s.space = ? AND {IS_SPAN}
        GROUP BY k.id
        """,
        [ids, hashes, space],
    )
    names = ("duration_ns", "input_tokens", "output_tokens")
    return {session_id: dict(zip(names, sums, strict=True)) for session_id, *sums in rows}
