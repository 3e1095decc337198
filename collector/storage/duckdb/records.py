"""Queries about accepted records: the listing, and one record with its history.

A record's state is not in its row: it follows from evaluations and dead letters. As in the listing
of evaluations, some records are taken by their places, and their states are looked up.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.dead_letters import read_letters
from collector.storage.duckdb.evaluations import (
    LAST,
    PROFILE,
    conditions,
    read_revisions,
)
from collector.storage.duckdb.part_reads import LongRow, read_within
from collector.storage.duckdb.read import OUTLINE, read_records, record_row
from collector.storage.duckdb.stored_keys import text_hash
from collector.store.json_text import plain_json
from collector.store.letters import LetterQuery
from collector.store.record_queries import (
    RecordHistory,
    RecordPage,
    RecordQuery,
    RecordSummary,
    SessionQuery,
)
from collector.store.rows import RecordState
from scouter.evaluate.outcome import Outcome

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_GROWTH: Final = 4
_MOST: Final = 20_000
"""Candidates that are looked at together; a few megabytes of places and ids."""
NEVER: Final = (RecordState.ERASED, RecordState.EXPIRED)
"""States without a row: what was erased, or expired, is gone."""
_STATED: Final[Mapping[RecordState | None, str]] = {
    RecordState.WAITING: "r.uid_hash NOT IN (SELECT uid_hash FROM evaluations WHERE space = ?)",
    RecordState.SKIPPED: "r.uid_hash IN (SELECT uid_hash FROM evaluations"
    " WHERE space = ? AND outcome = 'skipped' AND scope = 'record')",
    RecordState.DEAD_LETTERED: "r.uid IN (SELECT uid FROM dead_letters"
    " WHERE was_accepted AND space = ?)",
}
"""SQL conditions for states that few records have, so that few candidates are looked at."""
_IN: Final = "SEMI JOIN (SELECT unnest(?::BIGINT[]) AS uid_hash) k ON k.uid_hash = "
RECORD_PROFILE: Final = "coalesce(nullif(r.alias, ''), r.profile_ref)"
"""The profile of a record `r` as lists show it."""
_PROFILE: Final = PROFILE.replace("e.", "r.").replace("r.profile_digest", "r.profile_ref")
"""A record keeps the name that its sender used, which may be a digest."""


class RecordPlace(NamedTuple):
    """A record: its place in listings, and its uid."""

    seq: int
    uid_hash: int
    uid: str


class _Decided(NamedTuple):
    state: RecordState
    outcome: Outcome | None


Candidate: TypeAlias = tuple[RecordPlace, _Decided]


def read_record_page(database: Database, query: RecordQuery) -> RecordPage:
    """One page of records with their states, newest first; with their contexts if asked for.

    Cost: linear in the records that the other filters name, where a state is asked for that few
    records have; without a state, in the page.
    """
    found: list[Candidate] = []
    for part in matching_records(database, query):
        found += part
        if len(found) > query.limit:
            break
    page = found[: query.limit]
    if query.context_bytes is None:
        items = tuple(record_summaries(database, query.space, page))
    else:
        items, count = _with_contexts(database, query, page, query.context_bytes)
        page = page[:count]
    next_before = page[-1][0][:2] if len(found) > len(page) else None
    return RecordPage(items=items, next_before=next_before)


def matching_records(database: Database, query: RecordQuery) -> Iterator[Sequence[Candidate]]:
    """The places and states of everything that a listing holds, newest first, in growing parts.

    Args:
        database: The open file.
        query: Its limit is about the size of the first part.

    Cost: that of the parts that are taken.
    """
    waiting = _Decided(RecordState.WAITING, None)
    for candidates in _candidates(database, query):
        decided = _decided(database, query, candidates)
        states = ((each, decided.get(each.uid, waiting)) for each in candidates)
        yield [each for each in states if query.state in (None, each[1].state)]


def read_history(database: Database, space: str, uid: str) -> RecordHistory | None:
    """A record, its evaluations and dead letter; None if it was never accepted, or is erased."""
    records = read_records(database, space, [uid])
    if not records:
        return None
    evaluations = read_revisions(database, space, uid)
    letters = read_letters(database, LetterQuery(space=space, uid=uid, was_accepted=True, limit=1))
    state = RecordState.WAITING
    if evaluations:
        state = _state_of(evaluations[0].outcome)
    elif letters:
        state = RecordState.DEAD_LETTERED
    return RecordHistory(
        record=records[0],
        state=state,
        evaluations=evaluations,
        letter=letters[0] if letters and not evaluations else None,
    )


def _candidates(database: Database, query: RecordQuery) -> Iterator[Sequence[RecordPlace]]:
    """Select records by all filters but the state, newest first, in growing parts."""
    if query.state in NEVER:
        return
    before, size = query.before, query.limit + 1
    while True:
        where, given = record_conditions(query)
        if query.state in _STATED:
            where += f" AND {_STATED[query.state]}"
            given.append(query.space)
        if before is not None:
            where += " AND r.seq <= ? AND (r.seq, r.uid_hash) < (?, ?)"
            given += [before[0], *before]
        rows = database.read(
            f"SELECT r.seq, r.uid_hash, r.uid FROM records r WHERE {where}"
            " ORDER BY r.seq DESC, r.uid_hash DESC LIMIT ?",
            [*given, size],
        )
        part = [RecordPlace(*row) for row in rows]
        yield part
        if len(part) < size:
            return
        before, size = part[-1][:2], min(size * _GROWTH, _MOST)


def record_conditions(query: RecordQuery) -> tuple[str, list[object]]:
    """The filter of records `r` without their state, as SQL, and its values."""
    where, given = conditions(
        *asked_of_record(query),
        ("? IN (r.record_id, r.uid)", query.record_id),
        ("r.trace_id = ?", query.trace_id),
    )
    if query.session_id is not None:
        where += " AND (r.session_id = ? OR (r.session_id = '' AND r.uid_hash = ?))"
        given += [query.session_id, text_hash(query.session_id)]
    return where, given


def _decided(
    database: Database, query: RecordQuery, candidates: Sequence[RecordPlace]
) -> Mapping[str, _Decided]:
    """State and outcome of those candidates that do not wait, by uid."""
    if not candidates:
        return {}
    hashes, first = [each.uid_hash for each in candidates], candidates[-1].seq
    last = LAST if query.as_of is None else query.as_of
    outcomes = database.read(
        f"SELECT e.record_uid, arg_max(e.outcome, e.revision) FROM evaluations e {_IN} e.uid_hash"
        " WHERE e.seq BETWEEN ? AND ? AND e.space = ? AND e.scope = 'record'"
        " GROUP BY e.record_uid",
        [hashes, first, last, query.space],
    )
    letters = database.read(
        "SELECT uid FROM dead_letters WHERE was_accepted AND seq BETWEEN ? AND ? AND space = ?",
        [first, last, query.space],
    )
    found = {uid: _Decided(RecordState.DEAD_LETTERED, None) for (uid,) in letters}
    for uid, outcome in outcomes:
        found[uid] = _Decided(_state_of(Outcome(outcome)), Outcome(outcome))
    return found


def _state_of(outcome: Outcome) -> RecordState:
    return RecordState.SKIPPED if outcome is Outcome.SKIPPED else RecordState.EVALUATED


def record_summaries(
    database: Database, space: str, page: Sequence[Candidate]
) -> Iterator[RecordSummary]:
    """The records at some places, in the same order; one that went meanwhile is left out."""
    if not page:
        return
    rows = database.read(
        f"SELECT r.seq, strlen(r.context), {OUTLINE} FROM records r {_IN} r.uid_hash"
        " WHERE r.seq BETWEEN ? AND ? AND r.space = ?",
        [[place.uid_hash for place, _ in page], page[-1][0].seq, page[0][0].seq, space],
    )
    found: dict[tuple[int, str], tuple[int, Sequence[Any]]] = {
        (seq, values[1]): (size, values) for seq, size, *values in rows
    }
    for place, decided in page:
        if (place.seq, place.uid) in found:
            size, values = found[place.seq, place.uid]
            yield _summary(place, decided, values, size)


def _summary(
    place: RecordPlace,
    decided: _Decided,
    values: Sequence[Any],
    size: int,
    context: str | None = None,
) -> RecordSummary:
    return RecordSummary(
        place=place[:2],
        record=record_row(values),
        context_bytes=size,
        state=decided.state,
        outcome=decided.outcome,
        context=context,
    )


def _with_contexts(
    database: Database,
    query: RecordQuery,
    page: Sequence[Candidate],
    max_bytes: int,
) -> tuple[tuple[RecordSummary, ...], int]:
    """The records at the first places of a page, in the same order, and how many places these are.

    One that went meanwhile is left out.
    """

    def read(part: Sequence[Candidate]) -> list[LongRow]:
        rows = database.read_long(
            f"SELECT r.seq, r.uid_hash, r.context, {OUTLINE} FROM records r {_IN} r.uid_hash"
            " WHERE r.seq BETWEEN ? AND ? AND r.space = ?",
            [
                [place.uid_hash for place, _ in part],
                part[-1][0].seq,
                part[0][0].seq,
                query.space,
            ],
        )
        return [LongRow((seq, of), text, values) for seq, of, text, *values in rows]

    rows, count = read_within(page, read, max_bytes)
    found = {(row.place[0], row.values[1]): row for row in rows}
    items: list[RecordSummary] = []
    for place, decided in page[:count]:
        row = found.get((place.seq, place.uid))
        if row is not None:
            size = len(row.text.encode())
            items.append(_summary(place, decided, row.values, size, plain_json(row.text)))
    return tuple(items), count


def asked_of_record(query: RecordQuery | SessionQuery) -> Iterator[tuple[str, object]]:
    """Conditions on a record that both kinds of listing share."""
    yield "r.space = ?", query.space
    yield _PROFILE, query.profile
    yield "r.received_ns >= ?", query.since_ns
    yield "r.received_ns < ?", query.until_ns
    yield "r.seq <= ?", query.as_of
