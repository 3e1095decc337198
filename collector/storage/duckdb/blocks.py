"""Making the filters of `block_filters`, one for each stretch of commits once it is full."""

import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import duckdb

from collector.storage.duckdb.block_filters import BLOCK, SESSION, BlockFilters, Stretch
from collector.storage.duckdb.block_values import BlockValues
from collector.storage.duckdb.database import Database, run
from collector.storage.duckdb.schema import BLOCK_PARTS
from collector.storage.duckdb.span_rows import RowsOfBatch
from collector.storage.duckdb.tail_traces import TailTraces
from collector.storage.duckdb.transaction import Transaction
from collector.storage.log.span_codec import PROMOTED, READ_COLUMNS
from collector.storage.log.trace_places import TracePlaces, TraceRows
from scouter.errors import TransientError

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_log: Final = logging.getLogger(__name__)
_FAULTS: Final = (duckdb.Error, TransientError, MemoryError)
_SPANS: Final = "spans"
_BLOCK_ROWS: Final = 8192
_FIRST_BITS: Final = len(BLOCK) - BLOCK_PARTS
FOUND_BY: Final = (
    "name", "status", "service_name", "service_version", "environment", *PROMOTED,
)  # fmt: skip
"""Columns of spans, beside the trace id, whose values are in the filters."""


class _Filtered(NamedTuple):
    """A table with blocks."""

    time: str
    """The column that a search bounds in time."""
    columns: Mapping[str, str]
    """What is in the filters, by its name there: SQL."""


_TABLES: Final[Mapping[str, _Filtered]] = {
    _SPANS: _Filtered("start_ns", {name: name for name in ("trace_id", *FOUND_BY)}),
    "evaluations": _Filtered(
        "evaluated_ns",
        {"trace_id": "trace_id", SESSION: "coalesce(nullif(session_id, ''), record_uid)"},
    ),
    "records": _Filtered("received_ns", {SESSION: "coalesce(nullif(session_id, ''), uid)"}),
}


class _Rows:
    """What a block of spans needs, collected while they are stored.

    To read it afterwards takes four times as long.
    """

    def __init__(self) -> None:
        self.values, self.places = BlockValues(), TraceRows()

    def add(self, batch: RowsOfBatch) -> None:
        """Take the rows of a batch."""
        space, columns = batch.space, batch.columns
        for name, column in _TABLES[_SPANS].columns.items():
            self.values.add(space, name, columns[column])
        self.values.see(columns[_TABLES[_SPANS].time])
        parts = [columns[name] for name in READ_COLUMNS[1:]]
        rows = zip(itertools.repeat(batch.frame), *parts)
        self.places.add(space, columns["trace_id"], rows)


@dataclass(slots=True)
class _Full:
    """A stretch that is long enough."""

    stretch: Stretch
    collected: _Rows | None
    """All of its rows; None where they have to be read."""


@dataclass(slots=True)
class _Open:
    """What of a table has no block yet."""

    first: int
    """Its first commit."""
    rows: int = 0
    collected: _Rows | None = None
    full: list[_Full] = field(default_factory=list[_Full])
    """The oldest last."""


class BlockWriter:
    """Makes the filter of each stretch once it is full; belongs to the thread that commits.

    Args:
        database: The open file.
        filters: Is given each one.
        places: Have a file for each one of spans.
        tail: Is told of those of spans.
        seq: Number of the last commit.
    """

    def __init__(
        self,
        database: Database,
        filters: BlockFilters,
        places: TracePlaces,
        tail: TailTraces,
        seq: int,
    ) -> None:
        self._seq = seq
        self._database, self._filters = database, filters
        self._places, self._tail = places, tail
        self._open = {table: self._left(table) for table in _TABLES}
        self._failed = False

    def committed(self, tx: Transaction) -> None:
        """Count the rows of a commit, and collect those of spans."""
        spans = self._open[_SPANS]
        last_lost = max(tx.lost, default=-1)
        if tx.seq != self._seq + 1:  # a fault behind a commit: nobody knows what it brought or took
            last_lost = tx.seq
        self._seq = tx.seq
        for full in spans.full:
            if full.stretch.first <= last_lost:
                full.collected = None
        # Whatever happens here, what is kept is all there is.
        collected, spans.collected = spans.collected, None
        if collected is not None and spans.first > last_lost:
            for batch in tx.spans.parts():
                collected.add(batch)
            spans.collected = collected
        for table, left in self._open.items():
            left.rows += tx.written.get(table, 0)
            if left.rows >= _BLOCK_ROWS:
                # While blocks cannot be written, what waits takes no memory.
                collected = None if left.full else left.collected
                left.full.insert(0, _Full(Stretch(left.first, tx.seq), collected))
                left.first, left.rows = tx.seq + 1, 0
                left.collected = _Rows() if table == _SPANS else None

    def write(self) -> None:
        """Write one block of each table that has a full stretch, outside of transactions.

        Where there is none, one block of spans may get a file of places that it lacks.

        What cannot be written now is written later; until then searches look at all of its rows.
        Blocks without any row, as retention has taken it, go when a new one comes.
        """
        for table, left in self._open.items():
            if not left.full:
                continue
            stretch, collected = left.full[-1].stretch, left.full[-1].collected
            try:
                with self._database.in_use() as connection:
                    if table == _SPANS:
                        self._places.write(connection, stretch, collected and collected.places)
                    row = _write_block(connection, table, stretch, collected)
                    if row is not None:
                        self._filters.add(table, row)
                        self._forget(connection, table)
            except _FAULTS as error:
                self._tell(f"no filter of {table}, searches take longer: {error}")
                return
            left.full.pop()
            if table == _SPANS:
                self._tail.blocked(stretch.last, is_newest=not left.full)
            self._failed = False
        if self._places.missing and not self._open[_SPANS].full:
            self._write_missing()

    def _write_missing(self) -> None:
        """Write one file of places that was not there at the start: the newest block's first."""
        try:
            with self._database.in_use() as connection:
                self._places.write(connection, self._places.missing[-1])
        except _FAULTS as error:
            self._tell(f"no places of spans, traces take longer: {error}")
        else:
            self._places.missing.pop()

    def _tell(self, fault: str) -> None:
        """Log a fault; of those behind it, which are mostly the same, none before a success."""
        if not self._failed:
            _log.warning("%s", fault)
        self._failed = True

    def _forget(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        ((oldest,),) = run(connection, f"SELECT min(seq) FROM {table}")
        if oldest is not None and self._filters.forget(table, oldest):
            run(connection, "DELETE FROM blocks WHERE of_table = ? AND seq < ?", [table, oldest])

    def _left(self, table: str) -> _Open:
        """What an earlier process, or an earlier version of the program, has left without."""
        first: int = self._database.read(
            "SELECT coalesce(max(seq) + 1, 0) FROM blocks WHERE of_table = ?", [table]
        )[0][0]
        rows = self._database.read(
            f"""
            SELECT max(seq), sum(n)::BIGINT FROM (
                SELECT seq, n, sum(n) OVER (ORDER BY seq) // {_BLOCK_ROWS} AS block
                FROM (SELECT seq, count(*) AS n FROM {table} WHERE seq >= ? GROUP BY seq)
            ) GROUP BY block ORDER BY block
            """,
            [first],
        )
        left = _Open(first)
        for last, _ in rows[:-1]:
            left.full.insert(0, _Full(Stretch(left.first, last), None))
            left.first = last + 1
        left.rows = rows[-1][1] if rows else 0
        if table == _SPANS and not left.rows:
            left.collected = _Rows()
        return left


def _write_block(
    connection: duckdb.DuckDBPyConnection, table: str, stretch: Stretch, rows: _Rows | None
) -> tuple[Any, ...] | None:
    """Store a filter and return its row; None where a stretch has no row any more."""
    values = _read(connection, table, stretch) if rows is None else rows.values
    block = values.row(stretch)
    if block is not None:
        stored = dict(zip(BLOCK, block, strict=True)) | {"of_table": table}
        run(
            connection,
            f"INSERT INTO blocks ({', '.join(stored)}) VALUES ({', '.join('?' * len(stored))})",
            list(stored.values()),
        )
    return block


def rewrite_blocks(
    connection: duckdb.DuckDBPyConnection, filters: BlockFilters, table: str, changed: Stretch
) -> None:
    """Make the filters of those blocks anew whose rows have got other values, but for their ids.

    Args:
        connection: In the transaction that changed the rows.
        filters: Are told.
        table: Of the rows.
        changed: The commits that the rows are of.
    """
    blocks = run(
        connection,
        "SELECT first_seq, seq FROM blocks WHERE of_table = ? AND seq >= ? AND first_seq <= ?",
        [table, changed.first, changed.last],
    )
    for stretch in (Stretch(*each) for each in blocks):
        block = _read(connection, table, stretch).row(stretch)
        if block is not None:
            bits = dict(zip(BLOCK[_FIRST_BITS:], block[_FIRST_BITS:], strict=True))
            run(
                connection,
                f"UPDATE blocks SET {', '.join(f'{name} = ?' for name in bits)}"
                " WHERE of_table = ? AND seq = ?",
                [*bits.values(), table, stretch.last],
            )
            filters.replace_others(table, stretch.last, block[_FIRST_BITS + 1 :])


def _read(connection: duckdb.DuckDBPyConnection, table: str, stretch: Stretch) -> BlockValues:
    """What the rows of a stretch have; as hashes, for the texts may be longer than memory."""
    time, columns = _TABLES[table]
    found = BlockValues()
    among = f"FROM {table} WHERE seq BETWEEN ? AND ?"
    for name, column in columns.items():
        text = f"space || chr(0) || '{name}' || chr(0) || ({column})"
        rows = run(connection, f"SELECT md5_number_lower({text}) {among}", stretch)
        found.add_hashed(name, [number for (number,) in rows if number is not None])
    ((first_ns, last_ns),) = run(connection, f"SELECT min({time}), max({time}) {among}", stretch)
    if first_ns is not None:
        found.see([first_ns, last_ns])
    return found
