"""The store's reads on either database, filled by the same commits."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import psycopg

from collector.metrics import Totals
from collector.store.alerts import Alerts
from collector.store.commit import Commit, arrow_tables
from collector.store.conservation import ConservationReads
from collector.store.decided import DecidedReads, SliceReads
from collector.store.drops import Drops
from collector.store.erase import EraseReads
from collector.store.evaluations import EvaluationFacetReads, EvaluationReads
from collector.store.judges import Judges
from collector.store.labels import Labels
from collector.store.profiles import Profiles
from collector.store.rates import RateReads
from collector.store.reads import Change, Rows
from collector.store.record_text import SessionTextReads
from collector.store.schema import COLUMNS, postgresql_tables
from collector.store.spans import SpanReads
from collector.store.task_results import TaskResultReads
from collector.store.trace_text import TraceTextReads
from collector.store.traces import TraceFacetReads
from collector.store.usage import UsageReads
from collector.store.waiting import WaitingReads


class AllReads(
    EraseReads,
    WaitingReads,
    SessionTextReads,
    EvaluationReads,
    EvaluationFacetReads,
    RateReads,
    TaskResultReads,
    SpanReads,
    TraceTextReads,
    TraceFacetReads,
    UsageReads,
    ConservationReads,
    DecidedReads,
    SliceReads,
    Profiles,
    Alerts,
    Labels,
    Judges,
    Drops,
):
    """Every read of the store."""


class PostgresqlStore(AllReads):
    """The reads on PostgreSQL; what appends is this test's own.

    Args:
        connection: To an empty database.
    """

    def __init__(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        self._connection = connection
        self._last_seq = 0
        for statement in postgresql_tables():
            self._run(statement, [])

    def _run(self, query: str, parameters: Sequence[object]) -> "psycopg.Cursor[Any]":
        return self._connection.execute(cast("Any", query), list(parameters))

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        return self._run(sql, parameters).fetchall()

    read_for_work = read

    def last_seq(self) -> int:
        return self._last_seq

    def commit(self, rows: Commit) -> int:
        seq = self._last_seq + 1
        rows = self.counted(rows)
        tables = {
            table: [tuple(row.values())[1:] for row in cast("Any", batch).to_pylist()]
            for table, batch in arrow_tables(rows, seq)
        }
        changes = [*self.without_replaced(rows.replaced, seq), *self.with_settled(rows.settled)]
        return self.write(tables, changes)

    def totals(self) -> Totals:
        return self.stored_totals()

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()

    def write(
        self,
        tables: Mapping[str, Sequence[Sequence[object]]],
        changes: Sequence[Change] = (),
        low_seq: int | None = None,
    ) -> int:
        seq = self._last_seq + 1
        with self._connection.transaction():
            self.make(changes)
            for table, rows in tables.items():
                places = ", ".join(f"${at}" for at in range(1, len(COLUMNS[table]) + 1))
                statement = f"INSERT INTO {table} VALUES ({places})"  # noqa: S608 our own names
                for row in rows:
                    self._run(statement, [seq, *row])
        self._last_seq = seq
        return seq

    def make(self, changes: Sequence[Change]) -> None:
        """Make changes as the store does."""
        for change in changes:
            change(cast("Any", self._connection))

    def close(self) -> None:
        """Leave the tables to the next one that opens them."""
