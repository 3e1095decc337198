"""Queries: rows of the tables back into what the port speaks of."""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from collector.metrics import TotalKey, TotalName
from collector.storage.duckdb.commit_ranges import within
from collector.storage.duckdb.database import Database, Reads, literal
from collector.storage.duckdb.stored_keys import StoredKeys, text_hash
from collector.storage.duckdb.transaction import one_of, one_of_literals
from collector.storage.log.span_codec import (
    READ_COLUMNS,
    decode_spans,
    trace_hash,
)
from collector.storage.log.span_log import SpanLog
from collector.store.evaluation_codec import decode_evaluation
from collector.store.json_text import load_json
from collector.store.limits import MOST_SPAN_BYTES, MOST_SPANS, TooLargeError
from collector.store.rows import (
    AlertEvent,
    AlertState,
    EvaluatedRecord,
    EvaluationRow,
    ProfileChange,
    ProfileRow,
    RecordRow,
    ResultPlace,
)
from scouter.evaluate.outcome import Outcome
from scouter.model.log_event import is_evidence
from scouter.model.span import Span

# All SQL is put together from this module's own words; values travel as parameters, or as `literal`
# writes them.
# ruff: noqa: S608

RECORD: Final = (
    "space", "uid", "digest", "profile_ref", "profile_uid", "profile_name", "alias", "record_id",
    "session_id", "trace_id", "created_ns", "received_ns", "context", "tags", "seq",
)  # fmt: skip
OUTLINE: Final = ", ".join("'null'" if name == "context" else f"r.{name}" for name in RECORD)
"""The columns `RECORD` of records `r`, without their contexts."""
_SPAN_SIZE: Final = READ_COLUMNS.index("span_size")
_UID: Final = RECORD.index("uid")
_OF_HASHES: Final = (
    "SEMI JOIN (SELECT unnest(?::BIGINT[]) AS uid_hash) k ON k.uid_hash = r.uid_hash"
)
_accepted: Final = attrgetter("seq", "uid")
LATEST: Final = """
    NOT EXISTS (
        SELECT 1 FROM evaluations newer
        WHERE newer.revision > 1 AND newer.space = e.space
          AND newer.record_uid = e.record_uid AND newer.revision > e.revision
    )
"""
UNSETTLED: Final = """
    FROM records r
    ANTI JOIN evaluations e ON e.space = r.space AND e.record_uid = r.uid
    ANTI JOIN (SELECT space, uid FROM dead_letters WHERE was_accepted) d
        ON d.space = r.space AND d.uid = r.uid
"""
"""Records `r` that nothing was decided about."""

SESSION_TRACES: Final = """
    FROM evaluations e
    JOIN evaluations own ON own.space = e.space AND own.record_uid = e.record_uid
      AND own.scope = 'session' AND own.revision = 1
    JOIN records r ON r.space = e.space
      AND e.session_id = coalesce(nullif(r.session_id, ''), r.uid)
      AND r.profile_uid IN (own.profile_uid, '') AND r.trace_id IS NOT NULL
    WHERE e.scope = 'session' AND e.reads_spans
"""
"""Evaluations on sessions that read spans, each with every record of the session that has a trace.
The records mean the profile of the first evaluation; another version may have made the later
ones."""


def read_totals(database: Database) -> dict[TotalKey, int]:
    """All counts as they are in the store."""
    rows = database.read(
        "SELECT name, space, profile, alias, task, label, sum(n)::BIGINT FROM totals GROUP BY ALL"
    )
    return {TotalKey(TotalName(name), *parts): n for name, *parts, n in rows}


class StoredSpans(NamedTuple):
    """Parts of the store from which spans are read."""

    database: Database
    traces: StoredKeys
    """Tells which commits hold the spans of a trace."""
    evaluation_traces: StoredKeys
    """Tells which commits hold the evaluations on a trace."""
    log: SpanLog
    """Has their bytes."""


def read_spans(stored: StoredSpans, space: str, trace_ids: Iterable[str]) -> dict[str, list[Span]]:
    """Whole traces by id, without results of evaluators that came as log events.

    Raises:
        TooLargeError: They have more spans than may be in memory together.
    """
    ids = sorted(set(trace_ids))
    found: defaultdict[str, list[Span]] = defaultdict(list)
    if not ids:
        return found
    hashes = list(map(trace_hash, ids))
    rows = stored.database.read(
        f"SELECT {', '.join(READ_COLUMNS)} FROM spans"
        f" WHERE {within(stored.traces.stretches(hashes))}"
        f" AND {one_of_literals('trace_hash', hashes)} AND space = {literal(space)}"
        f" LIMIT {MOST_SPANS + 1}"
    )
    if len(rows) > MOST_SPANS or sum(row[_SPAN_SIZE] for row in rows) > MOST_SPAN_BYTES:
        raise TooLargeError(
            f"more than {MOST_SPANS:,} spans, or {MOST_SPAN_BYTES // 2**20} MiB of them, are not "
            "read at once"
        )
    wanted = set(ids)
    for span in decode_spans(rows, stored.log):
        # A hash may be that of another trace.
        if span.trace_id in wanted and is_evidence(span):
            found[span.trace_id].append(span)
    return dict(found)


def read_latest(
    database: Database, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], EvaluationRow]:
    """The latest evaluation on each of some records, given by (space, uid).

    Cost: one look at the keys of all evaluations. A record has few revisions: to read them and to
    take the last is quicker than to have the others left out.
    """
    hashes = [text_hash(uid) for _, uid in keys]
    rows = database.read(
        "SELECT e.space, e.record_uid, e.revision, e.body FROM evaluations e"
        " SEMI JOIN (SELECT unnest(?::BIGINT[]) AS uid_hash) k ON k.uid_hash = e.uid_hash",
        [hashes],
    )
    latest = {row[:2]: row[3] for row in sorted(rows, key=itemgetter(2))}
    return {key: decode_evaluation(latest[key]) for key in keys if key in latest}


def read_evaluated(
    database: Database, space: str, trace_ids: Iterable[str]
) -> list[EvaluatedRecord]:
    """Records of some traces whose latest evaluation read spans, without their contexts."""
    ids = sorted(set(trace_ids))
    if not ids:
        return []
    rows = database.read(
        "SELECT e.record_uid, e.input_seq, e.evaluated_ns, strlen(e.body) FROM evaluations e"
        f" WHERE e.space = ? AND e.reads_spans AND {one_of('e.trace_id', ids)} AND {LATEST}",
        [space, *ids],
    )
    latest = {uid: values for uid, *values in rows}
    if not latest:
        return []
    records = read_outlines(database, f"r.space = ? AND {one_of('r.trace_id', ids)}", [space, *ids])
    wanted = [each for each in records if each.uid in latest]
    sizes = read_context_sizes(database, space, [each.uid for each in wanted])
    return [
        EvaluatedRecord(
            record=each,
            size_bytes=sizes.get(each.uid, 0) + latest[each.uid][2],
            input_seq=latest[each.uid][0],
            evaluated_ns=latest[each.uid][1],
        )
        for each in wanted
    ]


def read_whole_evaluations(
    database: Database, condition: str, parameters: Sequence[object] = (), limit: int | None = None
) -> list[EvaluationRow]:
    """Evaluations `e` for which some SQL is true, newest first.

    Args:
        database: The open file.
        condition: SQL.
        parameters: Its values.
        limit: The newest ones, so many at most; None for all.
    """
    sql = f"SELECT e.seq, e.ordinal, e.body FROM evaluations e WHERE {condition}"
    # To have DuckDB order rows takes longer than all the rest.
    rows = database.read(sql if limit is None else f"{sql} LIMIT {limit + 1:d}", parameters)
    if limit is not None and len(rows) > limit:
        order = f"ORDER BY e.seq DESC, e.ordinal DESC LIMIT {limit:d}"
        rows = database.read(f"{sql} {order}", parameters)
    rows.sort(key=itemgetter(0, 1), reverse=True)
    return [decode_evaluation(body) for _, _, body in rows]


def read_results(
    database: Database, place: ResultPlace, limit: int
) -> list[tuple[ResultPlace, EvaluationRow]]:
    """Evaluations behind a place, oldest first."""
    rows = database.read(
        "SELECT e.seq, e.ordinal, e.body FROM evaluations e"
        " WHERE e.seq >= ? AND (e.seq > ? OR e.ordinal > ?) ORDER BY e.seq, e.ordinal LIMIT ?",
        [place.seq, place.seq, place.ordinal, limit],
    )
    return [(ResultPlace(seq, ordinal), decode_evaluation(body)) for seq, ordinal, body in rows]


def record_row(values: Sequence[Any]) -> RecordRow:
    """A row of the columns `RECORD`."""
    fields = dict(zip(RECORD, values, strict=True))
    fields["context"] = load_json(fields["context"])
    fields["tags"] = json.loads(fields["tags"])
    return RecordRow(**fields)


def read_last_outcomes(
    database: Database, space: str, profile_uid: str, count: int, since_ns: int
) -> list[Outcome]:
    """A profile's last first evaluations that were decided by all tasks, oldest first."""
    rows = database.read(
        "SELECT outcome FROM evaluations WHERE space = ? AND profile_uid = ?"
        " AND outcome <> 'pending' AND NOT coalesce(was_decided, revision > 1)"
        " AND NOT coalesce(is_partial, false) AND evaluated_ns >= ?"
        " ORDER BY seq DESC, ordinal DESC LIMIT ?",
        [space, profile_uid, since_ns, count],
    )
    return [Outcome(row[0]) for row in reversed(rows)]


def read_records(database: Database, space: str, uids: Iterable[str]) -> list[RecordRow]:
    """Accepted records by their uids, in order of acceptance.

    Cost: one look at the hashes of all records. Joined by them, DuckDB reads the contexts of these
    records alone; a list of values would have it read every context of the blocks they are in, and
    to order rows it would hold all of them in memory.
    """
    wanted = set(uids)
    if not wanted:
        return []
    columns = ", ".join(f"r.{name}" for name in RECORD)
    rows = database.read(
        f"SELECT {columns} FROM records r {_OF_HASHES} WHERE r.space = ?",
        [list(map(text_hash, wanted)), space],
    )
    found = [record_row(values) for values in rows if values[_UID] in wanted]
    return sorted(found, key=_accepted)


def read_context_sizes(database: Database, space: str, uids: Iterable[str]) -> dict[str, int]:
    """By uid the bytes of a record's context as JSON."""
    wanted = set(uids)
    if not wanted:
        return {}
    rows = database.read(
        f"SELECT r.uid, strlen(r.context) FROM records r {_OF_HASHES} WHERE r.space = ?",
        [list(map(text_hash, wanted)), space],
    )
    return {uid: size for uid, size in rows if uid in wanted}


def read_outlines(
    database: Database, condition: str, parameters: Sequence[object], limit: int | None = None
) -> list[RecordRow]:
    """Accepted records `r` for which some SQL is true, without contexts, in order of acceptance.

    Args:
        database: The open file.
        condition: SQL.
        parameters: Its values.
        limit: So many at most, any of them; None for all.
    """
    most = "" if limit is None else f" LIMIT {limit:d}"
    rows = database.read(f"SELECT {OUTLINE} FROM records r WHERE {condition}{most}", parameters)
    return sorted(map(record_row, rows), key=_accepted)


def read_profiles(database: Database) -> list[ProfileRow]:
    """Profiles with their latest body; active is what was made so last for its alias, if any."""
    rows = database.read(
        "SELECT space, uid, digest, name, alias, body, registered_ns, is_active FROM profiles"
        " ORDER BY seq, ordinal"
    )
    latest: dict[tuple[str, str], ProfileRow] = {}
    active: dict[tuple[str, str], str] = {}
    for space, uid, digest, name, alias, body, registered_ns, is_active in rows:
        latest[space, uid] = ProfileRow(
            space=space, uid=uid, digest=digest, name=name, alias=alias, body=body,
            registered_ns=registered_ns,
        )  # fmt: skip
        if is_active:
            active[space, alias] = uid
        elif active.get((space, alias)) == uid:
            del active[space, alias]
    return [
        dataclasses.replace(row, is_active=active.get((row.space, row.alias)) == row.uid)
        for row in latest.values()
    ]


def read_profile_changes(database: Database) -> list[ProfileChange]:
    """Everything that became of profiles, in order, without their bodies."""
    rows = database.read(
        "SELECT seq, space, uid, digest, name, alias, is_active FROM profiles ORDER BY seq, ordinal"
    )
    return [ProfileChange(*row) for row in rows]


def read_last_alert_events(database: Database) -> list[AlertEvent]:
    """The latest event of each alert; events are few, so all are looked at."""
    rows = database.read(
        "SELECT space, profile_uid, state, at_ns, passed, total FROM alert_events"
        " ORDER BY seq, ordinal"
    )
    latest: dict[tuple[str, str], AlertEvent] = {}
    for space, uid, state, at_ns, passed, total in rows:
        latest[space, uid] = AlertEvent(
            space=space, profile_uid=uid, state=AlertState(state), at_ns=at_ns, passed=passed,
            total=total,
        )  # fmt: skip
    return list(latest.values())


def read_received(database: Reads) -> tuple[int | None, int | None]:
    """Times of receipt of the oldest and of the newest record or span; None in an empty store."""
    ((oldest, newest),) = database.read(
        "SELECT min(oldest), max(newest) FROM ("
        " SELECT min(received_ns) AS oldest, max(received_ns) AS newest FROM spans"
        " UNION ALL SELECT min(received_ns), max(received_ns) FROM records)"
    )
    return oldest, newest
