"""Making the filters of `block_filters`, one for each stretch of commits once it is full."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import duckdb

from collector.storage.block_filters import (
    BLOCK,
    HASH,
    IDS,
    LOW,
    SESSION,
    BlockFilters,
    Stretch,
)
from collector.storage.block_shelf import PLACES
from collector.storage.database import Database, run
from collector.storage.duckdb_schema import BLOCK_PARTS
from collector.storage.span_codec import PROMOTED
from collector.storage.tail_traces import TailTraces
from collector.storage.trace_places import TracePlaces
from scouter.errors import TransientError

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_log: Final = logging.getLogger(__name__)
_FAULTS: Final = (duckdb.Error, TransientError, MemoryError)
_SPANS: Final = "spans"
_BLOCK_ROWS: Final = 8192
_BITS: Final = 24
"""For each value."""
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


@dataclass(slots=True)
class _Open:
    """What of a table has no block yet."""

    first: int
    """Its first commit."""
    rows: int = 0
    full: list[Stretch] = field(default_factory=list[Stretch])
    """Stretches that are long enough, the oldest last."""


class BlockWriter:
    """Makes the filter of each stretch once it is full; belongs to the thread that commits.

    Args:
        database: The open file.
        filters: Is given each one.
        places: Have a file for each one of spans.
        tail: Is told of those of spans.
    """

    def __init__(
        self, database: Database, filters: BlockFilters, places: TracePlaces, tail: TailTraces
    ) -> None:
        self._database, self._filters = database, filters
        self._places, self._tail = places, tail
        self._open = {table: self._left(table) for table in _TABLES}
        self._failed = False

    def committed(self, seq: int, rows: Mapping[str, int]) -> None:
        """Count the rows of a commit, by table."""
        for table, left in self._open.items():
            left.rows += rows.get(table, 0)
            if left.rows >= _BLOCK_ROWS:
                left.full.insert(0, Stretch(left.first, seq))
                left.first, left.rows = seq + 1, 0

    def write(self) -> None:
        """Write one block of each table that has a full stretch, outside of transactions.

        Where there is none, one block of spans may get a file of places that it lacks.

        What cannot be written now is written later; until then searches look at all of its rows.
        Blocks without any row, as retention has taken it, go when a new one comes.
        """
        for table, left in self._open.items():
            if not left.full:
                continue
            try:
                with self._database.in_use() as connection:
                    if table == _SPANS:
                        self._places.write(connection, left.full[-1])
                    row = _write_block(connection, table, left.full[-1])
                    if row is not None:
                        self._filters.add(table, row)
                        self._forget(connection, table)
            except _FAULTS as error:
                self._tell(f"no filter of {table}, searches take longer: {error}")
                return
            written = left.full.pop()
            if table == _SPANS:
                self._tail.blocked(written.last, is_newest=not left.full)
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
            left.full.insert(0, Stretch(left.first, last))
            left.first = last + 1
        left.rows = rows[-1][1] if rows else 0
        return left


def _write_block(
    connection: duckdb.DuckDBPyConnection, table: str, stretch: Stretch
) -> tuple[Any, ...] | None:
    """Store a filter and return its row; None where a stretch has no row any more."""
    filtered = _TABLES[table]
    values = ", ".join(
        f"space || chr(0) || '{name}' || chr(0) || {column}"
        for name, column in filtered.columns.items()
    )
    are_ids = ", ".join(str(name in IDS).lower() for name in filtered.columns)
    # One DISTINCT for all columns: of the tables of each, DuckDB keeps 200 bytes in a queue until
    # that has 37,000 of them.
    run(
        connection,
        f"""
        CREATE OR REPLACE TEMP TABLE hashes AS SELECT {HASH} AS h FROM (
            SELECT md5_number_lower(value) AS h, is_id FROM (
                SELECT DISTINCT unnest([{values}]) AS value, unnest([{are_ids}]) AS is_id
                FROM store.{table} WHERE seq BETWEEN $1 AND $2
            ) WHERE value IS NOT NULL
        )
        """,
        [*stretch],
    )
    try:
        ((ids, others),) = run(
            connection,
            f"SELECT count_if(h % {BLOCK_PARTS} = 0), count_if(h % {BLOCK_PARTS} > 0) FROM hashes",
        )
        if not ids + others:
            return None
        # A shelf wants the first part to have a power of two.
        sizes = [
            1 << (_bits(ids) - 1).bit_length(),
            *[_bits(others / (BLOCK_PARTS - 1))] * (BLOCK_PARTS - 1),
        ]
        size = f"CASE h % {BLOCK_PARTS} WHEN 0 THEN {sizes[0]} ELSE {sizes[1]} END"
        places = ", ".join(
            f"((h >> 3 & {LOW}) + {n} * (h >> 33 | 1)) % {size}" for n in range(PLACES)
        )
        filters = ", ".join(
            f"(bitstring_agg(place::BIGINT, 0, {bits - 1}) FILTER (part = {part}))::BLOB"
            for part, bits in enumerate(sizes)
        )
        (row,) = run(
            connection,
            f"""
            INSERT INTO blocks SELECT $2, '{table}', $1, first_ns, last_ns, filters.* FROM
                (SELECT {filters} FROM (
                    SELECT h % {BLOCK_PARTS} AS part, unnest([{places}]) AS place FROM hashes
                )) filters,
                (SELECT min({filtered.time}) AS first_ns, max({filtered.time}) AS last_ns
                 FROM {table} WHERE seq BETWEEN $1 AND $2)
            RETURNING {", ".join(BLOCK)}
            """,
            [*stretch],
        )
        return row
    finally:
        run(connection, "DROP TABLE hashes")


def _bits(values: float) -> int:
    """Bits of a part, whole bytes."""
    return -(-max(64, int(values * _BITS)) // 8) * 8
