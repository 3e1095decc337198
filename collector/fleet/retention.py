"""Retention of a fleet's store, by whole days: their spans go with their tables."""

from collections.abc import Sequence
from typing import Final

from collector.fleet.schema import DAILY, DAY_NS, day_table
from collector.fleet.whole import Whole
from collector.metrics import TotalKey, TotalName
from collector.store.reads import Change, Connection
from collector.store.retention import drop_older
from collector.store.schema import OF_RECORDS
from collector.store.totals import span_label

_STEP: Final = 5_000
"""Records, or evaluations of sessions, that are taken out while commits wait."""
_NEEDED: Final = """
    SELECT min(c.oldest_ns) FROM public.commits c JOIN public.partitions p ON p.part = c.part
    WHERE c.seq >= p.low_seq
"""
"""Arrival of the oldest thing that a join needs."""
_NEXT: Final = """
    SELECT max(seq) FROM (
        SELECT seq FROM records WHERE received_ns < $1 AND seq > $2 ORDER BY seq LIMIT $3
    ) r
"""
_OF_RECORDS: Final = """
    EXISTS (SELECT 1 FROM records r WHERE r.seq > $1 AND r.seq <= $2 AND r.received_ns < $3
        AND r.space = {table}.space AND r.uid = {table}.{column})
"""
_RECORDS: Final = """
    SELECT space, count(*) FROM records WHERE seq > $1 AND seq <= $2 AND received_ns < $3
    GROUP BY space
"""
_CHANGES: Final = (
    *(
        f"DELETE FROM {table} WHERE {_OF_RECORDS.format(table=table, column=column)}"
        for table, column in OF_RECORDS.items()
    ),
    f"DELETE FROM dead_letters WHERE {_OF_RECORDS.format(table='dead_letters', column='uid')}"
    " AND was_accepted = 1",
    "DELETE FROM records WHERE seq > $1 AND seq <= $2 AND received_ns < $3",
)
_SESSIONS: Final = """
    SELECT e.evaluation_id FROM evaluations e JOIN public.commits c ON c.seq = e.seq
    WHERE e.scope = 'session' AND c.received_ns < $1 LIMIT $2
"""
"""Evaluations on sessions that are as old as their commits."""
_OF_SESSIONS: Final = "t.evaluation_id = ANY($1::TEXT[])"
_LAST: Final = (
    "DELETE FROM dead_letters WHERE was_accepted = 0 AND received_ns < $1",
    """
    DELETE FROM public.session_news n USING public.commits c
    WHERE c.seq = n.seq AND c.received_ns < $1
    """,
    """
    DELETE FROM public.commits c WHERE c.received_ns < $1
      AND c.seq < (SELECT max(o.seq) FROM public.commits o)
      AND NOT EXISTS (
        SELECT 1 FROM public.partitions p WHERE p.part = c.part AND c.seq >= p.last_seq)
    """,
)
_DAYS: Final = f"""
    SELECT substr(c.relname, {len(DAILY[0]) + 2})::BIGINT FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'public.{DAILY[0]}'::regclass
    ORDER BY 1
"""
_GONE: Final = "expired"
"""Begins the name of a table that has no rows of the store any more, and is to be counted."""
_EXPIRED: Final = f"""
    SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename ~ '^{_GONE}_[a-z]+_'
    ORDER BY tablename
"""


class Retention(Whole):
    """A store of a fleet that lets old things go; see `FleetStore`."""

    def remove_before(self, time_ns: int) -> int:
        """Take out the days that ended before a time; a day that a join still needs stays.

        Records go with all that was decided about them, evaluations on sessions with their commits.

        Returns:
            Number of spans that went.

        Raises:
            TransientError: The store takes nothing now; some may be gone.

        Cost: linear in the records that go; commits wait for 5,000 of them at a time.
        """
        drop_older(self, time_ns)
        ((needed,),) = self.read_for_work(_NEEDED)
        end = time_ns // DAY_NS
        if needed is not None:
            end = min(end, needed // DAY_NS)
        self._remove_records(end * DAY_NS)
        self._remove_sessions(end * DAY_NS)
        for day in self.days():
            if day < end:
                self._detach(day)
        removed = self._drop()
        self.write({}, [_each(_LAST, [end * DAY_NS])])
        return removed

    def keep_within(self, max_bytes: int, before_ns: int | None = None) -> int:
        """Take out the oldest days, but not the newest one, until the database is small enough.

        Args:
            max_bytes: Is small enough.
            before_ns: Days that end later stay, whatever the size.

        Returns:
            Number of spans that went; 0 where it is small enough.

        Raises:
            TransientError: The store takes nothing now; some may be gone.
        """
        removed = 0
        for day in self.days()[:-1]:
            is_needed = before_ns is not None and (day + 1) * DAY_NS > before_ns
            if is_needed or self.size_bytes() <= max_bytes:
                break
            removed += self.remove_before((day + 1) * DAY_NS)
        return removed

    def days(self) -> list[int]:
        """The days since 1970 that have tables, in order."""
        return [day for (day,) in self.read_for_work(_DAYS)]

    def size_bytes(self) -> int:
        """Size of the database on its disk."""
        ((size,),) = self.read_for_work("SELECT pg_database_size(current_database())")
        return size

    def _remove_records(self, end_ns: int) -> None:
        after = 0
        while True:
            ((last,),) = self.read_for_work(_NEXT, [end_ns, after, _STEP])
            if last is None:
                return
            values = [after, last, end_ns]
            with self.alone():
                condition = _OF_RECORDS.format(table="t", column="record_uid")
                counts = self.gone_counts(condition, values)
                for space, n in self.read_for_work(_RECORDS, values):
                    counts.totals[TotalKey(TotalName.EXPIRED, space, label="record")] += n
                self.write(counts.rows(), [_each(_CHANGES, values)])
            after = last

    def _remove_sessions(self, end_ns: int) -> None:
        while found := self.read_for_work(_SESSIONS, [end_ns, _STEP]):
            ids = [each for (each,) in found]
            deletes = [
                f"DELETE FROM {table} t WHERE {_OF_SESSIONS}"
                for table in ("task_results", "evaluations")
            ]
            with self.alone():
                counts = self.gone_counts(_OF_SESSIONS, [ids])
                self.write(counts.rows(), [_each(deletes, [ids])])

    def _detach(self, day: int) -> None:
        """Let no read find a day any more; it waits for reads of spans, and few seconds only."""
        with self.alone():
            number = self._newest()
            run = self._writer.read
            run("SET LOCAL lock_timeout = '5s'")
            for table in DAILY:
                name = day_table(table, day)
                run(f"ALTER TABLE public.{table} DETACH PARTITION public.{name}")
                # Rows of the same day may come again, and get a table of the same name.
                run(f"ALTER TABLE public.{name} RENAME TO {_GONE}_{name}_{number}")
        self.forget_days()

    def _drop(self) -> int:
        """Count what is in the tables of days that no read finds, and drop them."""
        removed = 0
        for (name,) in self.read_for_work(_EXPIRED):
            rows: list[Sequence[object]] = []
            if name.startswith(f"{_GONE}_{DAILY[0]}_"):
                for space, is_event, n in self.read_for_work(
                    f"SELECT space, is_event, count(*) FROM public.{name} GROUP BY space, is_event"
                ):
                    label = span_label(is_event=is_event)
                    rows.append((*TotalKey(TotalName.EXPIRED, space, label=label), n))
                    removed += 0 if is_event else n
            self.write({"totals": rows}, [_each([f"DROP TABLE public.{name}"], [])])
        return removed


def _each(statements: Sequence[str], values: Sequence[object]) -> Change:
    def change(connection: Connection) -> None:
        for sql in statements:
            connection.execute(sql, list(values))

    return change
