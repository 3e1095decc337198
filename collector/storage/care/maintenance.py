"""Upkeep that keeps a store small and safe: retention, merging of changes, and backup."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import duckdb

from collector.metrics import TotalName
from collector.storage.duckdb.database import FILE_NAME, Database, copy_rows, run
from collector.storage.duckdb.drops import KNOWN_SENDERS
from collector.storage.duckdb.rollup import HOUR_NS
from collector.storage.duckdb.schema import TABLES
from collector.storage.duckdb.transaction import Transaction
from collector.storage.log.span_codec import KIND
from collector.storage.log.span_log import LOG_FOLDER, SpanLog
from scouter.errors import ConfigError, TransientError

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_SUMMED: Final = {
    "totals": "name, space, profile, alias, task, label",
    "rollups": "space, hour_ns, profile_uid, profile_digest, profile_name, alias, task_id,"
    " position, outcome, gated",
}
"""Tables of changes, and what their rows are summed by."""

_RECEIVED: Final = ("spans", "records", "dead_letters")
"""Tables of what came in; what was made of it goes with it."""

_SLICE_ROWS: Final = 50_000

_SETTLED: Final = """
    CREATE OR REPLACE TEMP TABLE settled AS
    SELECT r.space, r.uid FROM store.records r
    WHERE r.received_ns < $1 AND (
        EXISTS (FROM store.dead_letters d
            WHERE d.was_accepted AND d.space = r.space AND d.uid = r.uid)
        OR (SELECT max(e.evaluated_ns) < $1 FROM store.evaluations e
            WHERE e.space = r.space AND e.record_uid = r.uid))
"""
_SETTLED_SESSIONS: Final = """
    INSERT INTO settled
    SELECT e.space, e.record_uid FROM store.evaluations e WHERE e.scope = 'session'
    GROUP BY e.space, e.record_uid, e.session_id
    HAVING max(e.evaluated_ns) < $1 AND NOT EXISTS (
        FROM store.records r WHERE r.space = e.space
          AND e.session_id = coalesce(nullif(r.session_id, ''), r.uid)
          AND NOT EXISTS (FROM settled g WHERE g.space = r.space AND g.uid = r.uid))
"""
"""A session whose evaluation went while a record stays would be evaluated, and counted, anew."""
_UNCOUNT: Final = """
    INSERT INTO rollups
    SELECT $1, e.space, e.evaluated_ns // 3600000000000 * 3600000000000, e.profile_uid,
        any_value(e.profile_digest), any_value(e.profile_name), any_value(e.alias), e.task_id,
        e.position, e.outcome, e.outcome = 'skipped' AND e.reason IS NOT DISTINCT FROM 'gate',
        -count(*)
    FROM task_results e SEMI JOIN settled g ON g.space = e.space AND g.uid = e.record_uid
    WHERE e.outcome <> 'pending' AND NOT EXISTS (
        FROM evaluations newer WHERE newer.revision > e.revision AND newer.space = e.space
          AND newer.record_uid = e.record_uid
    )
    GROUP BY ALL
"""
_PENDING: Final = """
    SELECT e.space, sum(e.pending)::BIGINT FROM evaluations e
    SEMI JOIN settled g ON g.space = e.space AND g.uid = e.record_uid
    WHERE e.pending > 0 AND NOT EXISTS (
        FROM evaluations newer WHERE newer.revision > e.revision AND newer.space = e.space
          AND newer.record_uid = e.record_uid
    )
    GROUP BY e.space
"""


def remove_before(tx: Transaction, database: Database, before_ns: int) -> int:
    """Take out what is older than a time, and count its records and spans as expired.

    A record goes with its evaluations, once the latest of them is that old; one that waits stays,
    and the spans of a trace stay as long as a record of it. A session's evaluations go once they
    are that old and its last record goes.

    Args:
        tx: The open transaction, in the writer thread.
        database: Its file.
        before_ns: Nanoseconds since the epoch.

    Returns:
        Records and spans that were taken out.
    """
    database.make_room()
    connection = database.connection()
    run(connection, _SETTLED, [before_ns])
    run(connection, _SETTLED_SESSIONS, [before_ns])
    removed = take_out(tx, connection, TotalName.EXPIRED).records
    run(connection, "DROP TABLE settled")
    run(
        connection,
        "DELETE FROM dead_letters WHERE NOT was_accepted AND received_ns < ?",
        [before_ns],
    )
    run(connection, "DELETE FROM gold_verdicts WHERE at_ns < ?", [before_ns])
    run(connection, "DELETE FROM runs WHERE added_ns < ?", [before_ns])
    spans = run(
        connection,
        "DELETE FROM spans WHERE received_ns < ? AND NOT EXISTS (FROM records r"
        " WHERE r.space = spans.space AND r.trace_id = spans.trace_id)"
        f" RETURNING space, {KIND}",
        [before_ns],
    )
    for space, kind in spans:
        tx.count(TotalName.EXPIRED, space, label=kind)
    tx.lost |= bool(spans)
    return removed + len(spans)


class TakenOut(NamedTuple):
    """Numbers of rows that retention removed."""

    records: int
    evaluations: int
    dead_letters: int


def take_out(
    tx: Transaction, connection: duckdb.DuckDBPyConnection, counted_as: TotalName
) -> TakenOut:
    """Take out the records and sessions of the temporary table `settled` with their evaluations.

    Figures of the rollups lose them, too; counters, which only grow, keep them.
    """
    run(connection, _UNCOUNT, [tx.seq])
    for space, pending in run(connection, _PENDING):
        tx.count(TotalName.PENDING, space, -pending)
    counts = {
        table: len(
            run(
                connection,
                f"DELETE FROM {table} USING settled g WHERE g.space = {table}.space"
                f" AND g.uid = {table}.{uid}{condition} RETURNING 1",
            )
        )
        for table, uid, condition in (
            ("task_results", "record_uid", ""),
            ("evaluations", "record_uid", ""),
            ("dead_letters", "uid", " AND was_accepted"),
            ("labels", "uid", ""),
        )
    }
    records = run(
        connection,
        "DELETE FROM records USING settled g"
        " WHERE g.space = records.space AND g.uid = records.uid RETURNING records.space",
    )
    for (space,) in records:
        tx.count(counted_as, space, label="record")
    return TakenOut(len(records), counts["evaluations"], counts["dead_letters"])


def add_up(tx: Transaction, database: Database) -> None:
    """Replace the changes of each count by their sum, and forget senders; inside the transaction.

    A new table takes the place of the old one: DELETE would hold memory for all its row groups.
    """
    connection = database.connection()
    for table, keys in _SUMMED.items():
        run(
            connection,
            f"CREATE TABLE summed AS SELECT {tx.seq}::BIGINT AS seq, {keys}, sum(n)::BIGINT AS n"
            f" FROM {table} GROUP BY ALL HAVING n <> 0",
        )
        run(connection, f"DROP TABLE {table}")
        run(connection, f"ALTER TABLE summed RENAME TO {table}")
    run(
        connection,
        f"CREATE TABLE latest AS SELECT {tx.seq}::BIGINT AS seq, space, sender, reason,"
        " min(told)::BIGINT AS told, max(total)::BIGINT AS total, max(at_ns)::BIGINT AS at_ns"
        f" FROM sender_drops SEMI JOIN ({KNOWN_SENDERS}) USING (space, sender) GROUP BY ALL",
    )
    run(connection, "DROP TABLE sender_drops")
    run(connection, "ALTER TABLE latest RENAME TO sender_drops")


def used_bytes(database: Database) -> int:
    """Bytes of the file that hold rows; blocks that were freed are used again before it grows."""
    ((block, used),) = database.read(
        "SELECT block_size, used_blocks FROM pragma_database_size() WHERE database_name = 'store'"
    )
    return block * used


def first_frame(database: Database, otherwise: int) -> int:
    """Place of the oldest frame of the span log that a row points into."""
    found: int | None = database.read("SELECT min(frame) FROM spans")[0][0]
    return otherwise if found is None else min(found, otherwise)


def gaps(database: Database, log: SpanLog, applied: int) -> list[tuple[int, int]]:
    """Stretches of the span log that rows point into and of which nothing is left."""
    return log.gaps(first_frame(database, applied), applied)


def spans_in(database: Database, gaps: Sequence[tuple[int, int]]) -> dict[tuple[str, str], int]:
    """Count the spans by space and kind that have bytes in some stretches of the log."""
    if not gaps:
        return {}
    sql = f"SELECT space, {KIND}, count(*) FROM spans WHERE {_within(gaps)} GROUP BY ALL"
    return {(space, kind): n for space, kind, n in database.read(sql)}


def remove_stretches(tx: Transaction, database: Database, gaps: Sequence[tuple[int, int]]) -> None:
    """Take out the spans that have bytes in some stretches of the log."""
    if not gaps:
        return
    database.make_room()
    run(database.connection(), f"DELETE FROM spans WHERE {_within(gaps)}")
    tx.lost = True


def _within(gaps: Sequence[tuple[int, int]]) -> str:
    end = (
        "frame + greatest(span_at + span_size, resource_at + resource_size, scope_at + scope_size)"
    )
    return " OR ".join(f"frame < {after:d} AND {end} > {begin:d}" for begin, after in gaps)


def age_at(database: Database, ratio: float) -> int | None:
    """The time before which about a share of all rows was received; None without any."""
    rows = " UNION ALL ".join(f"SELECT received_ns FROM {table}" for table in _RECEIVED)
    # The exact one would need all values in memory.
    sql = f"SELECT approx_quantile(received_ns, ?::FLOAT) FROM ({rows})"
    return database.read(sql, [ratio])[0][0]


def slices(database: Database, before_ns: int) -> Iterator[int]:
    """Times up to a time, which is the last one, with few rows received between two of them.

    The rows that one transaction takes out are in few row groups then, and its memory is bounded.
    """
    since_ns = _first(database, -(2**63))
    while since_ns is not None and since_ns < before_ns:
        ends = [since_ns + HOUR_NS]
        for table in _RECEIVED:
            count: int
            newest: int
            count, newest = database.read(
                "SELECT count(*), max(received_ns) FROM"
                f" (SELECT received_ns FROM {table} WHERE received_ns >= ? LIMIT {_SLICE_ROWS})",
                [since_ns],
            )[0]
            if count == _SLICE_ROWS:
                ends.append(max(newest, since_ns + 1))
        if min(ends) >= before_ns:
            break
        yield min(ends)
        since_ns = _first(database, min(ends))
    yield before_ns


def _first(database: Database, since_ns: int) -> int | None:
    """Time at which the first remaining row since a time was received, in the order of commits."""
    found: list[int] = []
    for table in _RECEIVED:
        sql = f"SELECT received_ns FROM {table} WHERE received_ns >= ? LIMIT 1"
        found += [row[0] for row in database.read(sql, [since_ns])]
    return min(found, default=None)


def back_up(database: Database, log: SpanLog, folder: Path) -> Path:
    """Copy one state of the store while it is written to.

    Args:
        database: The open store.
        log: Its spans.
        folder: Gets files that `--data` can open; must not hold any.

    Raises:
        ConfigError: The folder holds a store or cannot be written.
        TransientError: The copy failed, for instance for want of room; nothing is left of it.
    """
    refuse_store(folder)
    target = folder / FILE_NAME
    partial = folder / f"{FILE_NAME}.partial"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        with database.in_use() as connection, log.pinned():
            copy_rows(connection, partial, TABLES)
            _copy_log(log, folder / LOG_FOLDER)
        partial.replace(target)
    except OSError as error:
        raise ConfigError(f"cannot write {folder}: {error.strerror or error}") from error
    except duckdb.Error as error:
        partial.unlink(missing_ok=True)
        raise TransientError(f"the backup into {folder} failed: {error}") from error
    return target


def refuse_store(folder: Path) -> None:
    """Check that a backup can be made in a folder.

    Raises:
        ConfigError: It holds a store.
    """
    target = folder / FILE_NAME
    if target.exists():
        raise ConfigError(f"{target} exists; give the backup an empty folder")


def _copy_log(log: SpanLog, folder: Path) -> None:
    """Copy the files of the log; what the database lacks of them it takes up when opened."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    for file in log.files():
        target = folder / file.name
        target.touch(mode=0o600)
        shutil.copyfile(file, target)
