"""Which commits may hold a value: small filters that let a search pass over all the others.

A *block* is a stretch of commits with some thousand rows of one table. For each there is a Bloom
filter of the values that its rows have in the columns that people search by; it is made once, when
the stretch is full, and never changed. A value that is nowhere is answered from the filters alone,
and a rare one by looking into the few blocks that may have it. What came after the last block is
always looked at.

The bits of a filter are divided into columns, so that a question about one value reads an eighth of
them. With 24 bits for each value, one block in 8,000 is looked into for nothing.

Source: Bloom 1970, doi:10.1145/362686.362692; Kirsch, Mitzenmacher 2006, doi:10.1007/11841036_42,
for making all places from two numbers.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from itertools import pairwise
from typing import Final, NamedTuple

import duckdb

from collector.storage.database import Database, run
from collector.storage.duckdb_schema import BLOCK_PARTS
from collector.storage.span_codec import PROMOTED
from scouter.errors import TransientError

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_log: Final = logging.getLogger(__name__)
_BLOCK_ROWS: Final = 8192
_BITS: Final = 24
"""For each value."""
_PLACES: Final = 6
_LOW: Final = (1 << 30) - 1
_FEW: Final = 3
"""Values for which a condition each is written."""
_MANY: Final = 2000
"""Values for which every block would have to be looked into anyway."""
_RANGES: Final = 32
"""That a query names at most: looking at each row's commit costs more than a few rows in vain."""
LAST: Final = 2**62
"""Behind all commits."""

FOUND_BY: Final = (
    "name", "status", "service_name", "service_version", "environment", *PROMOTED,
)  # fmt: skip
"""Columns of spans, beside the trace id, whose values are in the filters."""


class _Filtered(NamedTuple):
    """A table with blocks."""

    time: str
    """The column that a search bounds in time."""
    columns: tuple[str, ...]


_TABLES: Final[Mapping[str, _Filtered]] = {
    "spans": _Filtered("start_ns", ("trace_id", *FOUND_BY)),
    "evaluations": _Filtered("evaluated_ns", ("trace_id",)),
}


class Stretch(NamedTuple):
    """Commits from the first to the last one."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockQuery:
    """Which blocks may matter; of each collection of values, a block may hold one at least."""

    table: str
    values: Sequence[Collection[int]] = ()
    """What `value_hash` gave."""
    since_ns: int | None = None
    until_ns: int | None = None
    first: int = 0
    """First commit that matters."""
    last: int = LAST


def value_hash(space: str, column: str, value: object) -> int:
    """What a value of a column is called in the filters: 64 bits, without a sign."""
    text = f"{space}\0{column}\0{value}".encode("utf-8", "surrogatepass")
    return int.from_bytes(md5(text, usedforsecurity=False).digest()[8:], "little")


def read_stretches(database: Database, query: BlockQuery) -> list[Stretch]:
    """The blocks that may hold what is asked for, newest first, and first what has no block yet.

    Cost: about 2 µs for each block.
    """
    where, given = ["of_table = ?"], list[object]([query.table])
    bounds = (
        ("last_ns >= ?", query.since_ns), ("first_ns < ?", query.until_ns),
        ("seq >= ?", query.first), ("first_seq <= ?", query.last),
    )  # fmt: skip
    for condition, value in bounds:
        if value is not None:
            where.append(condition)
            given.append(value)
    wanted: list[str] = []
    for values in query.values:
        if len(values) <= _FEW:
            wanted.append(f"({' OR '.join(map(_has, values)) or 'false'})")
        elif len(values) <= _MANY:
            wanted.append(f"EXISTS (FROM (SELECT unnest(?::UBIGINT[]) AS h) WHERE {_HAS_ANY})")
            given.append(list(values))
    rows = database.read(
        f"""
        SELECT first_seq, seq FROM blocks WHERE {" AND ".join([*where, *wanted])}
        UNION ALL SELECT max(seq) + 1, NULL FROM blocks WHERE of_table = ?
        """,
        [*given, query.table],
    )
    found = [Stretch(first, last) for first, last in rows if last is not None]
    rest = next(first for first, last in rows if last is None) or 0
    return [
        Stretch(max(first, query.first), min(last, query.last))
        for first, last in sorted([*found, Stretch(rest, LAST)], reverse=True)
        if first <= query.last and last >= query.first
    ]


def trace_stretches(
    database: Database, space: str, trace_ids: Collection[str], table: str = "spans"
) -> list[Stretch]:
    """The commits that may hold rows of some traces."""
    hashes = [value_hash(space, "trace_id", each) for each in trace_ids]
    return read_stretches(database, BlockQuery(table=table, values=[hashes]))


def within(stretches: Sequence[Stretch]) -> str:
    """SQL that is true of the commits of some stretches, and maybe of some between them.

    Args:
        stretches: Newest first.
    """
    gaps = [above.first - below.last for above, below in pairwise(stretches)]
    least = max([1, *sorted(gaps, reverse=True)[_RANGES - 1 : _RANGES]])
    ranges: list[Stretch] = []
    for each in stretches:
        if ranges and ranges[-1].first - each.last <= least:
            ranges[-1] = Stretch(each.first, ranges[-1].last)
        else:
            ranges.append(each)
    return (
        f"({' OR '.join(f'seq BETWEEN {first} AND {last}' for first, last in ranges) or 'false'})"
    )


def _has(value: int) -> str:
    """SQL that is true of a block that may have a value."""
    bits = f"bits_{value % BLOCK_PARTS}"
    low, high = value >> 3 & _LOW, value >> 33 | 1
    places = (
        f"get_bit({bits}::BIT, ({low + n * high} % (8 * octet_length({bits})))::INTEGER) = 1"
        for n in range(_PLACES)
    )
    return f"({' AND '.join(places)})"


_PART: Final = " ".join(f"WHEN {part} THEN bits_{part}::BIT" for part in range(BLOCK_PARTS))
_HAS_ANY: Final = " AND ".join(
    f"get_bit(CASE h % {BLOCK_PARTS} {_PART} END, (((h >> 3 & {_LOW}) + {n} * (h >> 33 | 1))"
    f" % bit_length(CASE h % {BLOCK_PARTS} {_PART} END))::INTEGER) = 1"
    for n in range(_PLACES)
)


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
    """

    def __init__(self, database: Database) -> None:
        self._database = database
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

        What cannot be written now is written later; until then searches look at all of its rows.
        """
        for table, left in self._open.items():
            if not left.full:
                continue
            try:
                with self._database.in_use() as connection:
                    _write_block(connection, table, left.full[-1])
            except (duckdb.Error, TransientError, MemoryError) as error:
                if not self._failed:
                    _log.warning("no filter of %s, searches take longer: %s", table, error)
                self._failed = True
                return
            left.full.pop()
            self._failed = False

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


def _write_block(connection: duckdb.DuckDBPyConnection, table: str, stretch: Stretch) -> None:
    filtered = _TABLES[table]
    values = " UNION ALL ".join(
        f"SELECT DISTINCT space || chr(0) || '{column}' || chr(0) || {column} AS value"
        f" FROM store.{table} WHERE seq BETWEEN $1 AND $2 AND {column} IS NOT NULL"
        for column in filtered.columns
    )
    run(
        connection,
        f"CREATE OR REPLACE TEMP TABLE hashes AS SELECT md5_number_lower(value) AS h"
        f" FROM ({values})",
        [*stretch],
    )
    try:
        ((count,),) = run(connection, "SELECT count(*) FROM hashes")
        if not count:
            return
        bits = -(-max(64, count * _BITS // BLOCK_PARTS) // 8) * 8
        places = ", ".join(
            f"((h >> 3 & {_LOW}) + {n} * (h >> 33 | 1)) % {bits}" for n in range(_PLACES)
        )
        parts = ", ".join(
            f"(bitstring_agg(place::BIGINT, 0, {bits - 1}) FILTER (part = {part}))::BLOB"
            for part in range(BLOCK_PARTS)
        )
        run(
            connection,
            f"""
            INSERT INTO blocks SELECT $2, '{table}', $1, first_ns, last_ns, filters.* FROM
                (SELECT {parts} FROM (
                    SELECT h % {BLOCK_PARTS} AS part, unnest([{places}]) AS place FROM hashes
                )) filters,
                (SELECT min({filtered.time}) AS first_ns, max({filtered.time}) AS last_ns
                 FROM {table} WHERE seq BETWEEN $1 AND $2)
            """,
            [*stretch],
        )
    finally:
        run(connection, "DROP TABLE hashes")


def forget_blocks(connection: duckdb.DuckDBPyConnection) -> None:
    """Take out the blocks before the first row of their table; inside a transaction."""
    for table in _TABLES:
        run(
            connection,
            f"DELETE FROM blocks WHERE of_table = ? AND seq < (SELECT min(seq) FROM {table})",
            [table],
        )
