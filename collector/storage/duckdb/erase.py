"""Erasing: the rows of a session, a trace, a record or a tag go in one transaction.

A trace goes with the last of its records. An evaluation that stays although it has read something
that goes (another record of the session, a span of the trace) keeps its outcomes and loses its
texts.
"""

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import duckdb

from collector.metrics import TotalName
from collector.storage.care.maintenance import take_out
from collector.storage.duckdb.database import Database, run
from collector.storage.duckdb.runs import take_runs_about
from collector.storage.duckdb.stored_keys import text_hash
from collector.storage.duckdb.tombstones import (
    Tombstone,
    record_tombstone,
    span_tombstone,
    trace_tombstone,
)
from collector.storage.duckdb.transaction import Transaction
from collector.storage.log.span_codec import KIND, SPAN
from collector.store.erase import Erased, EraseTarget
from collector.store.evaluation_codec import decode_evaluation, encode_evaluation
from collector.store.letter_search import LetterSearch
from collector.store.letters import LetterKind, few_at_a_time
from collector.store.rows import EvaluationRow

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

LOG_STEP: Final = "log"
"""Step in the table `erasures`: the spans' bytes are still in the span log."""
FILE_STEP: Final = "file"
"""Step in the table `erasures`: the rows' bytes may still be in free blocks of the file."""
_SESSION: Final = "coalesce(nullif(r.session_id, ''), r.uid)"
_TEMPORARY: Final = ("settled", "gone_records", "gone_traces", "gone_spans")

_GONE_TRACES: Final = """
    CREATE OR REPLACE TEMP TABLE gone_traces AS
    SELECT DISTINCT trace_id FROM (
        SELECT trace_id FROM gone_records WHERE trace_id IS NOT NULL
        UNION ALL
        SELECT trace_id FROM store.spans WHERE space = $1 AND session_id = $2
    ) t
    WHERE NOT EXISTS (
        FROM store.records r WHERE r.space = $1 AND r.trace_id = t.trace_id
          AND NOT EXISTS (FROM gone_records g WHERE g.uid = r.uid))
"""
_GONE_SPANS: Final = """
    CREATE OR REPLACE TEMP TABLE gone_spans AS
    SELECT trace_id, span_id FROM store.spans s
    WHERE s.space = $1 AND (
        EXISTS (FROM gone_traces t WHERE t.trace_id = s.trace_id)
        OR ($2 <> '' AND s.session_id = $2)
        OR ($2 <> '' AND s.is_event AND EXISTS (
            FROM store.spans p WHERE p.space = $1 AND p.session_id = $2
              AND p.trace_id = s.trace_id AND p.span_id = s.parent_span_id)))
"""
"""A log event goes with its span."""
_GONE_SESSIONS: Final = f"""
    INSERT INTO settled
    SELECT DISTINCT e.space, e.record_uid FROM store.evaluations e
    WHERE e.space = $1 AND e.scope = 'session'
      AND (e.session_id = $2 OR e.session_id IN (SELECT session_id FROM gone_records))
      AND NOT EXISTS (
        FROM store.records r WHERE r.space = $1 AND {_SESSION} = e.session_id
          AND NOT EXISTS (FROM gone_records g WHERE g.uid = r.uid))
"""
"""Retention may have taken the records already: then what was asked for is all that names it."""
_READERS: Final = f"""
    SELECT e.evaluation_id, e.body FROM evaluations e WHERE e.space = $1 AND (
        (e.scope = 'session' AND e.session_id IN (SELECT session_id FROM gone_records))
        OR (e.scope = 'record' AND e.reads_spans
            AND e.trace_id IN (SELECT trace_id FROM gone_spans))
        OR (e.scope = 'session' AND e.reads_spans AND e.session_id IN (
            SELECT {_SESSION} FROM records r WHERE r.space = $1
              AND r.trace_id IN (SELECT trace_id FROM gone_spans))))
"""
"""Evaluations that read what goes, and stay: their texts may quote it."""


def erase(tx: Transaction, database: Database, target: EraseTarget) -> Erased:
    """Take out everything that a target names, and remember what is to be done behind it.

    Args:
        tx: The open transaction, in the writer thread.
        database: Its file.
        target: Names the rows to erase.
    """
    database.make_room()
    connection = database.connection()
    space = target.space
    _find(connection, target)
    uids = [row[0] for row in run(connection, "SELECT uid FROM gone_records")]
    whole = {row[0] for row in run(connection, "SELECT trace_id FROM gone_traces")}
    search = _search(target, uids, whole)
    letters = _take_letters(connection, target, search)
    runs = 0 if target.superseded else take_runs_about(connection, space, search)
    spans = run(
        connection,
        "DELETE FROM spans USING gone_spans g WHERE spans.space = ?"
        " AND g.trace_id = spans.trace_id AND g.span_id = spans.span_id"
        f" RETURNING spans.trace_id, spans.span_id, {KIND}",
        [space],
    )
    tx.lost |= bool(spans)
    counts = Counter(kind for *_, kind in spans)
    taken = take_out(tx, connection, TotalName.ERASED)
    _blank(connection, space)
    for table in _TEMPORARY:
        run(connection, f"DROP TABLE {table}")
    for kind, n in counts.items():
        tx.count(TotalName.ERASED, space, n, label=kind)
    if target.superseded and uids:
        tx.count(TotalName.SUPERSEDED, space, len(uids))
    single = [each[:2] for each in spans if each[0] not in whole]
    tombstones: list[Tombstone] = [record_tombstone(space, uid) for uid in uids]
    tombstones += [trace_tombstone(space, each) for each in whole]
    tombstones += [span_tombstone(space, *each) for each in single]
    if letters and target.record_uid is not None and not uids:  # all that there was were letters
        tombstones.append(record_tombstone(space, target.record_uid))
    for kind, of_space, number in tombstones:
        tx.add("erased", of_space, kind.value, number)
    tx.erased.update(tombstones)
    for trace_id, span_id in [*((each, "") for each in whole), *single]:
        tx.add("erasures", LOG_STEP, space, trace_id, span_id)
    if tombstones or letters or runs or taken.evaluations:
        tx.add("erasures", FILE_STEP, space, "", "")
    return Erased(
        space=space,
        seq=tx.seq,
        uids=frozenset(uids),
        traces=frozenset(whole) | {each for each, _ in single},
        spans=counts[SPAN],
        evaluations=taken.evaluations,
        dead_letters=taken.dead_letters + letters,
        runs=runs,
    )


def _blank(connection: duckdb.DuckDBPyConnection, space: str) -> None:
    """Take the texts out of the evaluations that stay, and the notes of their readers."""
    blank: list[tuple[str, str]] = []
    uids: list[str] = []
    for evaluation_id, body in run(connection, _READERS, [space]):
        evaluation = decode_evaluation(body)
        blank.append((evaluation_id, encode_evaluation(_without_texts(evaluation))))
        uids.append(evaluation.record_uid)
    run(
        connection,
        "UPDATE labels SET notes = '' WHERE space = ? AND list_contains(?::VARCHAR[], uid)",
        [space, uids],
    )
    run(
        connection,
        "UPDATE evaluations SET body = b.body FROM"
        " (SELECT unnest($2::VARCHAR[]) AS evaluation_id, unnest($3::VARCHAR[]) AS body) b"
        " WHERE evaluations.space = $1 AND evaluations.evaluation_id = b.evaluation_id",
        [space, [row[0] for row in blank], [row[1] for row in blank]],
    )


def _without_texts(evaluation: EvaluationRow) -> EvaluationRow:
    tasks = (
        replace(task, expected=None, actual=None, message="", question="", answer=None)
        for task in evaluation.tasks
    )
    return replace(evaluation, tasks=tuple(tasks))


def forget_steps(tx: Transaction, database: Database, step: str, seq: int) -> None:
    """Take note that a step is done for what was erased up to a commit."""
    del tx
    database.make_room()
    run(database.connection(), "DELETE FROM erasures WHERE step = ? AND seq <= ?", [step, seq])


def _find(connection: duckdb.DuckDBPyConnection, target: EraseTarget) -> None:
    """Put the keys of everything that goes into temporary tables."""
    condition, values = _condition(target)
    run(
        connection,
        f"CREATE OR REPLACE TEMP TABLE gone_records AS SELECT r.uid, r.trace_id,"
        f" {_SESSION} AS session_id FROM store.records r WHERE r.space = ? AND {condition}",
        [target.space, *values],
    )
    run(
        connection,
        "CREATE OR REPLACE TEMP TABLE settled AS SELECT ?::VARCHAR AS space, uid FROM gone_records",
        [target.space],
    )
    session_id = target.session_id or ""
    if target.trace_id is not None:
        run(
            connection,
            "CREATE OR REPLACE TEMP TABLE gone_traces AS SELECT ?::VARCHAR AS trace_id",
            [target.trace_id],
        )
    else:
        run(connection, _GONE_TRACES, [target.space, session_id or None])
    run(connection, _GONE_SPANS, [target.space, session_id])
    named = target.session_id or target.record_uid  # a record without a session is one of its own
    run(connection, _GONE_SESSIONS, [target.space, named])


def _condition(target: EraseTarget) -> tuple[str, list[object]]:
    if target.session_id is not None:
        return f"{_SESSION} = ?", [target.session_id]
    if target.trace_id is not None:
        return "r.trace_id = ?", [target.trace_id]
    if target.record_uid is not None:
        return "r.uid_hash = ? AND r.uid = ?", [text_hash(target.record_uid), target.record_uid]
    if target.superseded:
        return "r.uid IN (SELECT unnest(?::VARCHAR[]))", [list(target.superseded)]
    key, text = target.tag or ("", "")
    pointer = "/" + key.replace("~", "~0").replace("/", "~1")
    return "json_extract_string(r.tags, ?) = ?", [pointer, text]


def _search(target: EraseTarget, uids: list[str], traces: set[str]) -> LetterSearch:
    """Look for what goes in texts that the store has not taken apart."""
    texts = (text for text in (*uids, target.record_uid, target.session_id) if text)
    return LetterSearch(texts, traces, target.tag)


def _take_letters(
    connection: duckdb.DuckDBPyConnection, target: EraseTarget, search: LetterSearch
) -> int:
    """Take out the letters that were never accepted and speak of what goes, and count them."""
    known = run(
        connection,
        "SELECT letter_id, kind FROM dead_letters WHERE space = ? AND NOT was_accepted"
        " ORDER BY seq",
        [target.space],
    )
    found: list[str] = []
    for part in few_at_a_time((row[0], LetterKind(row[1])) for row in known):
        ids = [letter_id for letter_id, _ in part]
        rows: list[tuple[Any, ...]] = run(
            connection,
            "SELECT letter_id, uid, payload FROM dead_letters"
            " WHERE space = ? AND list_contains(?::VARCHAR[], letter_id)",
            [target.space, ids],
        )
        for letter_id, uid, payload in rows:
            if uid in search.texts or search.finds(payload):
                found.append(letter_id)
    for letter_id in found:
        run(
            connection,
            "DELETE FROM dead_letters WHERE space = ? AND letter_id = ?",
            [target.space, letter_id],
        )
    return len(found)
