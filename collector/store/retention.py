"""Retention: everything that came before a time goes, in the order of commits."""

from collections.abc import Sequence
from typing import Final

from collector.metrics import TotalKey, TotalName
from collector.store.reads import Change, Connection, Reads
from collector.store.schema import OF_RECORDS
from collector.store.totals import CountingReads

_STEP: Final = 100
"""Commits that are taken out while others wait."""
_RANGE: Final = """
    SELECT min(seq), max(seq) FILTER (WHERE received_ns < $1 AND seq < $2), max(seq) FROM offsets
"""
"""The commits to take out, and the last one."""
_COUNTS: Final = """
    SELECT space, CASE is_event WHEN 1 THEN 'event' ELSE 'span' END AS label, count(*)
    FROM spans WHERE seq BETWEEN $1 AND $2 GROUP BY space, is_event
    UNION ALL
    SELECT space, 'record', count(*) FROM records WHERE seq BETWEEN $1 AND $2 GROUP BY space
"""
_GONE: Final = """
    (EXISTS (SELECT 1 FROM records r WHERE r.seq BETWEEN $1 AND $2
        AND r.space = t.space AND r.uid = t.record_uid)
    OR t.evaluation_id IN (SELECT evaluation_id FROM evaluations
        WHERE seq BETWEEN $1 AND $2 AND scope = 'session'))
"""
"""Evaluations that go, and their results: those of records, whenever they were made."""
_OF_RECORDS: Final = """
    DELETE FROM {table} WHERE seq >= $1 AND EXISTS (
        SELECT 1 FROM records r WHERE r.seq BETWEEN $1 AND $2
          AND r.space = {table}.space AND r.uid = {table}.{column})
"""
_OF_SESSIONS: Final = """
    DELETE FROM task_results WHERE seq BETWEEN $1 AND $2 AND evaluation_id IN (
        SELECT evaluation_id FROM evaluations WHERE seq BETWEEN $1 AND $2 AND scope = 'session')
"""
_OF_COMMITS: Final = "DELETE FROM {table} WHERE seq BETWEEN $1 AND $2 AND {condition}"
_CHANGES: Final[Sequence[str]] = (
    *(_OF_RECORDS.format(table=table, column=column) for table, column in OF_RECORDS.items()),
    _OF_RECORDS.format(table="dead_letters", column="uid") + " AND was_accepted = 1",
    _OF_SESSIONS,
    _OF_COMMITS.format(table="evaluations", condition="scope = 'session'"),
    _OF_COMMITS.format(table="dead_letters", condition="was_accepted = 0"),
    _OF_COMMITS.format(table="spans", condition="true"),
    _OF_COMMITS.format(table="bodies", condition="true"),
    _OF_COMMITS.format(table="records", condition="true"),
    _OF_COMMITS.format(table="offsets", condition="true"),
)

_BY_TIME: Final = {"runs": "added_ns", "gold_outcomes": "at_ns"}
"""Tables of what people and judges brought, with the times of their rows."""
_OLD: Final = " UNION ALL ".join(
    f"(SELECT 1 FROM {table} WHERE {column} < $1 LIMIT 1)" for table, column in _BY_TIME.items()
)


def remove_before(store: CountingReads, time_ns: int, low_seq: int) -> int:
    """Take out the commits of which everything came before a time.

    Args:
        store: Has them; the room is used by new rows, or `Database.renew` gives it back.
        time_ns: Nanoseconds since the epoch.
        low_seq: The oldest commit that the join still needs: it stays, and all behind it.

    Returns:
        Number of spans that went.

    Raises:
        TransientError: The store takes nothing now; some may be gone.

    Cost: linear in the rows that go; commits wait for a hundred commits at a time.
    """
    drop_older(store, time_ns)
    removed = 0
    ((first, last, newest),) = store.read_for_work(_RANGE, [time_ns, low_seq])
    if last is None:
        return 0
    if last == newest:  # it says how far the log was read, and now the one behind it does
        store.write({})
    for start in range(first, last + 1, _STEP):
        end = min(start + _STEP - 1, last)
        with store.alone():
            counts = store.gone_counts(_GONE, [start, end])
            for space, label, n in store.read_for_work(_COUNTS, [start, end]):
                counts.totals[TotalKey(TotalName.EXPIRED, space, label=label)] += n
                removed += n if label == "span" else 0
            store.write(counts.rows(), [_change(start, end)])
    return removed


def drop_older(store: Reads, time_ns: int) -> None:
    """Take out what people and judges brought before a time.

    Raises:
        TransientError: The store takes nothing now; nothing has changed.
    """
    if store.read_for_work(_OLD, [time_ns]):
        store.write({}, [_change_of_time(time_ns)])


def _change_of_time(time_ns: int) -> Change:
    def change(connection: Connection) -> None:
        for table, column in _BY_TIME.items():
            connection.execute(f"DELETE FROM {table} WHERE {column} < $1", [time_ns])

    return change


def _change(first: int, last: int) -> Change:
    def change(connection: Connection) -> None:
        for sql in _CHANGES:
            connection.execute(sql, [first, last])

    return change


_END: Final = """
    SELECT {0}(received_ns) FROM (
        SELECT {0}(received_ns) AS received_ns FROM spans
        WHERE seq BETWEEN (SELECT {0}(seq) FROM spans) - 99 AND (SELECT {0}(seq) FROM spans) + 99
        UNION ALL
        SELECT {0}(received_ns) FROM records
    ) r
"""
"""Spans come in the order of commits but for what partitions are behind: of a hundred commits one
has the newest, though no index of spans knows their arrival."""
_AGE: Final = """
    SELECT min(received_ns) FROM (
        SELECT o.received_ns, sum(coalesce(n.n, 0)) OVER (ORDER BY o.seq) AS n
        FROM offsets o LEFT JOIN (
            SELECT seq, count(*) AS n FROM (
                SELECT seq FROM spans UNION ALL SELECT seq FROM records
            ) r GROUP BY seq
        ) n ON n.seq = o.seq
    ) s
    WHERE s.n >= $1::DOUBLE PRECISION * (
        (SELECT count(*) FROM spans) + (SELECT count(*) FROM records)
    )
"""


class UpkeepReads(Reads):
    """Reads of retention, of housekeeping, and of those who watch a store."""

    def oldest_ns(self) -> int | None:
        """Time at which the oldest record or span was received; None in an empty store.

        Cost: linear in the rows of a hundred commits; without an index in all, 10 ms for 5 million.
        """
        ((found,),) = self.read_for_work(_END.format("min"))
        return found

    def newest_ns(self) -> int | None:
        """Time at which the newest record or span was received; None in an empty store.

        Cost: as `oldest_ns`.
        """
        ((found,),) = self.read_for_work(_END.format("max"))
        return found

    def age_at(self, ratio: float) -> int | None:
        """The time up to which a share of all spans and records was received; None without any.

        Args:
            ratio: From 0 to 1.

        Cost: linear in the rows.
        """
        ((found,),) = self.read_for_work(_AGE, [ratio])
        return found


class RestReads(Reads):
    """Reads of what was erased and whose bytes may still be in a file."""

    def has_rests(self) -> bool:
        """Say whether bytes of what was erased may still be on the disk."""
        return bool(self.read_for_work("SELECT 1 FROM erasures LIMIT 1"))

    def newest_erasure(self) -> int:
        """Number of the newest erasure of which bytes may still be on the disk; 0 without any."""
        ((found,),) = self.read_for_work("SELECT max(seq) FROM erasures")
        return found or 0
