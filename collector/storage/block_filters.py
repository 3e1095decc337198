"""Which commits may hold a value: small filters that let a search pass over all the others.

A *block* is a stretch of commits with some thousand rows of one table. For each there is a Bloom
filter of the values that its rows have in the columns that people search by; it is made once, when
the stretch is full, and never changed (`duckdb_blocks`). A value that is nowhere is answered from
the filters alone, and a rare one by looking into the few blocks that may have it. What came after
the last block is always looked at.

The filters are in the store, and mapped into memory for questions about few values: about 1.5 MB
for a million spans, up to 3 bytes for each value that no other row of the block has. That memory is
the system's, which may take it back (`paged_bytes`). Their bits are divided into parts, so that a
question about one value reads an eighth of them. With 24 bits for each value, one block in 8,000 is
looked into for nothing.

Source: Bloom 1970, doi:10.1145/362686.362692; Kirsch, Mitzenmacher 2006, doi:10.1007/11841036_42,
for making all places from two numbers.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import md5
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from collector.storage.database import Database
from collector.storage.duckdb_schema import BLOCK_PARTS
from collector.storage.paged_bytes import PagedBytes

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

PLACES: Final = 6
"""Bits that a value sets."""
LOW: Final = (1 << 30) - 1
LAST: Final = 2**62
"""Behind all commits."""
SESSION: Final = "session"
"""What the filters call a session; a record without an id of one is a session of its own."""
BLOCK: Final = (
    "first_seq", "seq", "first_ns", "last_ns", *(f"bits_{part}" for part in range(BLOCK_PARTS))
)  # fmt: skip
"""Columns that make a block."""

_FEW: Final = 128
"""Values that are looked for in memory."""
_MANY: Final = 2000
"""Values for which every block would have to be looked into anyway."""
_RANGES: Final = 32
"""That a query names at most: looking at each row's commit costs more than a few rows in vain."""
_PART: Final = " ".join(f"WHEN {part} THEN bits_{part}::BIT" for part in range(BLOCK_PARTS))
_HAS_ANY: Final = " AND ".join(
    f"get_bit(CASE h % {BLOCK_PARTS} {_PART} END, (((h >> 3 & {LOW}) + {n} * (h >> 33 | 1))"
    f" % bit_length(CASE h % {BLOCK_PARTS} {_PART} END))::INTEGER) = 1"
    for n in range(PLACES)
)

_Key: TypeAlias = tuple[int, int, int]
"""A value's part of the filter, and the two numbers that its places are made of."""


class Stretch(NamedTuple):
    """Commits from the first to the last one."""

    first: int
    last: int


class Block(NamedTuple):
    """A stretch with its filter."""

    first: int
    last: int
    first_ns: int
    last_ns: int
    part_bytes: int
    bits: memoryview
    """All parts, one after the other."""


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


class BlockFilters:
    """The blocks of a store. Any thread asks; the thread that commits adds and forgets.

    Args:
        database: The open file, whose blocks are read.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._blocks: defaultdict[str, tuple[Block, ...]] = defaultdict(tuple)
        self._bytes = PagedBytes(database.path.parent)
        for table, *row in database.read(
            f"SELECT of_table, {', '.join(BLOCK)} FROM blocks ORDER BY seq"
        ):
            self.add(table, row)

    def add(self, table: str, row: Sequence[Any]) -> None:
        """Take a block that was stored, the newest of its table: the columns `BLOCK`."""
        first, last, first_ns, last_ns, *parts = row
        size = max(len(each or b"") for each in parts)
        bits = b"".join(each or bytes(size) for each in parts)  # without values there are no bits
        try:
            view = self._bytes.keep(bits)
        except OSError:
            view = memoryview(bits)  # the disk is full; a few more bytes of memory do no harm
        self._blocks[table] += (Block(first, last, first_ns, last_ns, size, view),)

    def close(self) -> None:
        """Add nothing more."""
        self._bytes.close()

    def forget(self, table: str, before: int) -> bool:
        """Let the blocks go that end before a commit; says whether there was one."""
        blocks = self._blocks[table]
        kept = self._blocks[table] = tuple(each for each in blocks if each.last >= before)
        return len(kept) < len(blocks)

    def stretches(self, query: BlockQuery) -> list[Stretch]:
        """The blocks that may hold what is asked for, newest first, and first what has no block.

        Cost: about 0.1 µs for each block and value; where more than 128 values are asked for, a
        query of the database.
        """
        blocks = self._blocks[query.table]
        rest = Stretch(blocks[-1].last + 1 if blocks else 0, LAST)
        few = [list(map(_key, each)) for each in query.values if len(each) <= _FEW]
        many = [each for each in query.values if _FEW < len(each) <= _MANY]
        holding = self._holding(query.table, many) if many else None
        left: Sequence[Block] = blocks[::-1]
        if query.first > 0 or query.last < LAST:
            left = [each for each in left if query.first <= each.last and each.first <= query.last]
        if (since_ns := query.since_ns) is not None:
            left = [each for each in left if each.last_ns >= since_ns]
        if (until_ns := query.until_ns) is not None:
            left = [each for each in left if each.first_ns < until_ns]
        if holding is not None:
            left = [each for each in left if each.last in holding]
        for keys in few:
            left = _that_may_have(left, keys)
        found = [Stretch(max(each.first, query.first), min(each.last, query.last)) for each in left]
        if rest.first <= query.last:
            found.insert(0, Stretch(max(rest.first, query.first), query.last))
        return found

    def of_traces(
        self, space: str, trace_ids: Collection[str], table: str = "spans"
    ) -> list[Stretch]:
        """The commits that may hold rows of some traces."""
        return self._of("trace_id", space, trace_ids, table)

    def of_sessions(self, space: str, session_ids: Collection[str], table: str) -> list[Stretch]:
        """The commits that may hold rows of some sessions."""
        return self._of(SESSION, space, session_ids, table)

    def _of(self, column: str, space: str, values: Collection[str], table: str) -> list[Stretch]:
        hashes = [value_hash(space, column, each) for each in values]
        return self.stretches(BlockQuery(table=table, values=[hashes]))

    def _holding(self, table: str, values: Iterable[Collection[int]]) -> set[int]:
        """Last commits of the blocks that may hold one value of each collection."""
        given = list(map(list, values))
        wanted = [f"EXISTS (FROM (SELECT unnest(?::UBIGINT[]) AS h) WHERE {_HAS_ANY})"] * len(given)
        rows = self._database.read(
            f"SELECT seq FROM blocks WHERE of_table = ? AND {' AND '.join(wanted)}",
            [table, *given],
        )
        return {seq for (seq,) in rows}


def value_hash(space: str, column: str, value: object) -> int:
    """What a value of a column is called in the filters: 64 bits, without a sign."""
    text = f"{space}\0{column}\0{value}".encode("utf-8", "surrogatepass")
    return int.from_bytes(md5(text, usedforsecurity=False).digest()[8:], "little")


def within(stretches: Sequence[Stretch]) -> str:
    """SQL that is true of the commits of some stretches, and maybe of some between them.

    Args:
        stretches: Newest first.
    """
    ranges = _few(stretches)
    return (
        f"({' OR '.join(f'seq BETWEEN {first} AND {last}' for first, last in ranges) or 'false'})"
    )


def within_parameters(stretches: Sequence[Stretch]) -> tuple[str, list[int]]:
    """The same with parameters, and their values: the text is mostly that of an earlier query."""
    ranges = _few(stretches)
    sql = " OR ".join(["seq BETWEEN ? AND ?"] * len(ranges)) or "false"
    return f"({sql})", [bound for each in ranges for bound in each]


def _few(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Few ranges that hold all of some stretches."""
    gaps = [above.first - below.last for above, below in pairwise(stretches)]
    least = max([1, *sorted(gaps, reverse=True)[_RANGES - 1 : _RANGES]])
    ranges: list[Stretch] = []
    for each in stretches:
        if ranges and ranges[-1].first - each.last <= least:
            ranges[-1] = Stretch(each.first, ranges[-1].last)
        else:
            ranges.append(each)
    return ranges


def _key(value: int) -> _Key:
    return value % BLOCK_PARTS, value >> 3 & LOW, value >> 33 | 1


def _that_may_have(blocks: Iterable[Block], keys: Sequence[_Key]) -> list[Block]:
    """Those of some blocks that may have one value at least.

    A part has whole bytes, so the first place of a value is the same bit of a byte in every block.
    """
    first = [(low >> 3, 0x80 >> (low & 7), part, low, high) for part, low, high in keys]
    found: list[Block] = []
    for block in blocks:
        size, bits = block.part_bytes, block.bits
        for byte, bit, part, low, high in first:
            start = part * size
            # Most values that are not there end here.
            if bits[start + byte % size] & bit and _has_rest(bits, start, 8 * size, low, high):
                found.append(block)
                break
    return found


def _has_rest(bits: memoryview, start: int, count: int, low: int, high: int) -> bool:
    """Say whether all places of a value but the first are set."""
    for n in range(1, PLACES):
        place = (low + n * high) % count
        # The first bit of a text of bits is the highest one of its first byte.
        if not bits[start + (place >> 3)] & 0x80 >> (place & 7):
            return False
    return True
