"""Queries about sessions: their records, and the changes that their evaluations have not seen.

A record without a session id is a session of its own; its id is the record's uid. A session's
evaluation is a row of `evaluations` with the scope `session`. It belongs to a profile, and its
session id is that of its records.
"""

from collections.abc import Collection, Iterable

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.read import read_outlines
from collector.storage.duckdb.transaction import one_of
from collector.store.rows import OpenSession, RecordRow


def read_session_records(
    database: Database, space: str, session_ids: Iterable[str], limit: int
) -> list[RecordRow]:
    """Accepted records of some sessions, without contexts; any of more than `limit`."""
    ids = sorted(set(session_ids) - {""})
    if not ids:
        return []
    return read_outlines(
        database,
        f"r.space = ? AND ({one_of('r.session_id', ids)}"
        f" OR (r.session_id = '' AND {one_of('r.uid', ids)}))",
        [space, *ids, *ids],
        limit,
    )


def read_trace_records(database: Database, space: str, trace_ids: Iterable[str]) -> list[RecordRow]:
    """Accepted records of some traces, without contexts, in order of acceptance."""
    ids = sorted(set(trace_ids))
    if not ids:
        return []
    return read_outlines(database, f"r.space = ? AND {one_of('r.trace_id', ids)}", [space, *ids])


def read_open_sessions(
    database: Database, profiles: Collection[tuple[str, str]]
) -> list[OpenSession]:
    """Sessions with a record that their latest evaluation has not seen.

    Args:
        database: The open file.
        profiles: Space and uid of the profiles with tasks on sessions.

    Returns:
        One row for each such session and trace. A record that waits, and whose trace is to say
        which session it belongs to, is in none yet.
    """
    found: list[OpenSession] = []
    for space, uid in profiles:
        # The profile of a record that was not known at first is that of its evaluation. Another
        # version may have evaluated the session later.
        rows = database.read(
            """
            SELECT DISTINCT coalesce(nullif(r.session_id, ''), r.uid) AS session_id, r.trace_id
            FROM records r
            WHERE r.space = $1 AND (r.profile_uid = $2 OR (r.profile_uid = '' AND EXISTS (
                FROM evaluations own WHERE own.space = r.space AND own.record_uid = r.uid
                  AND own.profile_uid = $2 AND own.scope = 'record')))
              AND NOT (r.session_id = '' AND r.trace_id IS NOT NULL
                AND NOT EXISTS (FROM evaluations own WHERE own.space = r.space
                  AND own.record_uid = r.uid AND own.scope = 'record')
                AND NOT EXISTS (FROM dead_letters d WHERE d.was_accepted AND d.space = r.space
                  AND d.uid = r.uid))
              AND NOT EXISTS (
                FROM evaluations e JOIN evaluations own ON own.space = e.space
                  AND own.record_uid = e.record_uid AND own.scope = 'session' AND own.revision = 1
                WHERE e.scope = 'session' AND e.space = r.space
                  AND own.profile_uid = $2 AND e.input_seq >= r.seq
                  AND e.session_id = coalesce(nullif(r.session_id, ''), r.uid))
            ORDER BY ALL
            """,
            [space, uid],
        )
        found += [
            OpenSession(space=space, profile_uid=uid, session_id=session_id, trace_id=trace_id)
            for session_id, trace_id in rows
        ]
    return found
