"""Which commits may hold a value: small filters that let a search pass over all the others.

A *block* is a stretch of commits with some thousand rows of one table. For each there is a Bloom
filter of the values that its rows have in the columns that people search by; it is made once, when
the stretch is full, and never changed (`duckdb_blocks`). A value that is nowhere is answered from
the filters alone, and a rare one by looking into the few blocks that may have it. What came after
the last block is always looked at.

The filters are in the store, and mapped into memory for questions about few values: about 0.8 MB
for a million spans, up to 3 bytes for each value that no other row of the block has, up to 6 for an
id. That memory is the system's, which may take it back (`paged_bytes`). Their bits are divided into
parts, so that a question about one value reads one of them. The ids that every record is looked up
by are the first part, which is kept apart: the rest is not in memory until somebody searches. With
24 bits for each value, one block in 8,000 is looked into for nothing.

Source: Bloom 1970, doi:10.1145/362686.362692; Kirsch, Mitzenmacher 2006, doi:10.1007/11841036_42,
for making all places from two numbers.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import md5
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from collector.storage.duckdb.block_shelf import PLACES, Shelf
from collector.storage.duckdb.database import Database, NoMemoryError, Rows
from collector.storage.duckdb.paged_bytes import PagedBytes
from collector.storage.duckdb.schema import BLOCK_PARTS

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_LOW: Final = (1 << 30) - 1
LAST: Final = 2**62
"""Behind all commits."""
SESSION: Final = "session"
"""What the filters call a session; a record without an id of one is a session of its own."""
IDS: Final = ("trace_id", SESSION)
"""Columns whose values are in the first part; all others are divided among the rest."""
_OTHERS: Final = BLOCK_PARTS - 1
BLOCK: Final = (
    "first_seq", "seq", "first_ns", "last_ns", *(f"bits_{part}" for part in range(BLOCK_PARTS))
)  # fmt: skip
"""Columns that make a block."""

_WIDTH: Final = 64
"""Blocks on a shelf."""
_FEW: Final = 128
"""Values that are looked for in memory."""
_MANY: Final = 2000
"""Values for which every block would have to be looked into anyway."""
_RANGES: Final = 32
"""That a query names at most: looking at each row's commit costs more than a few rows in vain."""
_PART: Final = " ".join(f"WHEN {part} THEN bits_{part}::BIT" for part in range(BLOCK_PARTS))
_HAS_ANY: Final = " AND ".join(
    f"get_bit(CASE h % {BLOCK_PARTS} {_PART} END, (((h >> 3 & {_LOW}) + {n} * (h >> 33 | 1))"
    f" % bit_length(CASE h % {BLOCK_PARTS} {_PART} END))::INTEGER) = 1"
    for n in range(PLACES)
)

Key: TypeAlias = tuple[int, int, int]
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
    ids: bytes
    """The first part; nothing where a shelf has it."""
    others: memoryview
    """All other parts, of one size, one after the other."""


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


class _Known(NamedTuple):
    """The blocks of a table, oldest first."""

    blocks: tuple[Block, ...] = ()
    shelves: tuple[tuple[Shelf, tuple[Block, ...]], ...] = ()
    """The first parts of the older ones."""
    loose: tuple[Block, ...] = ()
    """The newest ones, of which there are too few for a shelf."""
    widened: tuple[Block, ...] = ()
    """Of older ones, those whose first part has grown since it was put on a shelf."""


class BlockFilters:
    """The blocks of a store. Any thread asks; the thread that commits adds and forgets.

    Args:
        database: The open file, whose blocks are read.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: defaultdict[str, _Known] = defaultdict(_Known)
        self._ids, self._others = (PagedBytes(database.path.parent) for _ in range(2))
        stored: defaultdict[str, list[int]] = defaultdict(list)
        for table, seq in database.read("SELECT of_table, seq FROM blocks ORDER BY seq"):
            stored[table].append(seq)
        for table, ends in stored.items():
            for at in range(0, len(ends), _WIDTH):
                for row in self._stored(table, ends[at], ends[at : at + _WIDTH][-1]):
                    self.add(table, row)

    def _stored(self, table: str, first: int, last: int) -> Rows:
        """Some stored blocks: all of ten million records are 40 MB, and DuckDB takes that twice."""
        sql = (
            f"SELECT {', '.join(BLOCK)} FROM blocks"
            " WHERE of_table = ? AND seq BETWEEN ? AND ? ORDER BY seq"
        )
        try:
            return self._database.read(sql, [table, first, last])
        except NoMemoryError:  # in a file that was written anew it reads 2,048 rows for one
            self._database.make_room()
            return self._database.read(sql, [table, first, last])

    def add(self, table: str, row: Sequence[Any]) -> None:
        """Take a block that was stored, the newest of its table: the columns `BLOCK`."""
        known = self._known[table]
        first, last, first_ns, last_ns, ids, *others = row
        view = _keep(self._others, _together(others))
        new = Block(first, last, first_ns, last_ns, ids or b"", view)
        blocks, shelves = known.blocks, known.shelves
        blocks, loose = (*blocks, new), (*known.loose, new)
        if len(loose) == _WIDTH:
            shelf = Shelf([each.ids for each in loose], self._ids)
            shelved = tuple(each._replace(ids=b"") for each in loose)
            blocks, loose = (*blocks[:-_WIDTH], *shelved), ()
            shelves = (*shelves, (shelf, shelved))
        self._known[table] = _Known(blocks, shelves, loose, known.widened)

    def widen(self, table: str, last: int, ids: bytes) -> None:
        """Take more ids of a block: its rows have got values that they did not have.

        Args:
            table: Of the block.
            last: Its last commit.
            ids: The first part, in which everything is that was there before.
        """

        def grown(blocks: Sequence[Block]) -> tuple[Block, ...]:
            return tuple(each._replace(ids=ids) if each.last == last else each for each in blocks)

        known = self._known[table]
        if any(each.last == last for each in known.loose):
            self._known[table] = known._replace(
                blocks=grown(known.blocks), loose=grown(known.loose)
            )
            return
        others = tuple(each for each in known.widened if each.last != last)
        shelved = (each for each in known.blocks if each.last == last)
        widened = (*others, *(each._replace(ids=ids) for each in shelved))
        self._known[table] = known._replace(widened=widened)

    def replace_others(self, table: str, last: int, others: Sequence[bytes | None]) -> None:
        """Take other parts than the first one for a block, whose rows have got other values.

        Args:
            table: Of the block.
            last: Its last commit.
            others: All parts but the first.
        """
        view = _keep(self._others, _together(others))

        def changed(blocks: Sequence[Block]) -> tuple[Block, ...]:
            return tuple(each._replace(others=view) if each.last == last else each
                         for each in blocks)  # fmt: skip

        known = self._known[table]
        self._known[table] = _Known(
            changed(known.blocks),
            tuple((shelf, changed(blocks)) for shelf, blocks in known.shelves),
            changed(known.loose),
            changed(known.widened),
        )

    def close(self) -> None:
        """Add nothing more."""
        self._ids.close()
        self._others.close()

    def forget(self, table: str, before: int) -> bool:
        """Let the blocks go that end before a commit; says whether there was one."""
        known = self._known[table]
        kept = tuple(each for each in known.blocks if each.last >= before)
        self._known[table] = _Known(
            kept,
            tuple(each for each in known.shelves if each[1][-1].last >= before),
            tuple(each for each in known.loose if each.last >= before),
            tuple(each for each in known.widened if each.last >= before),
        )
        return len(kept) < len(known.blocks)

    def stretches(self, query: BlockQuery) -> list[Stretch]:
        """The blocks that may hold what is asked for, newest first, and first what has no block.

        Cost: about 0.03 µs for each block and id, 0.3 for each other value; where more than 128
        are asked for, a query of the database.
        """
        known = self._known[query.table]
        blocks = known.blocks
        rest = Stretch(blocks[-1].last + 1 if blocks else 0, LAST)
        few = [list(map(key_of, each)) for each in query.values if len(each) <= _FEW]
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
            left = _that_may_have(known, left, keys)
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
    """What a value of a column is called in the filters: 64 bits, without a sign.

    The lowest three say which part it is in.
    """
    text = f"{space}\0{column}\0{value}".encode("utf-8", "surrogatepass")
    digest = md5(text, usedforsecurity=False).digest()
    return with_part(column, int.from_bytes(digest[8:], "little"))


def with_part(column: str, number: int) -> int:
    """`value_hash` of a value, given the lower half of the MD5 of its text."""
    part = 0 if column in IDS else 1 + (number >> 56) % _OTHERS
    return number - number % BLOCK_PARTS + part


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


def key_of(value: int) -> Key:
    """The part and the two numbers of a value, given what `value_hash` made of it."""
    return value % BLOCK_PARTS, value >> 3 & _LOW, value >> 33 | 1


def _that_may_have(known: _Known, blocks: Sequence[Block], keys: Sequence[Key]) -> Sequence[Block]:
    """Those of some blocks that may have one value at least."""
    others = [key for key in keys if key[0]]
    having = _with_ids(known, [key for key in keys if not key[0]])
    if not others and len(blocks) == len(known.blocks):
        return having
    ends = {each.last for each in having}
    return [each for each in blocks if each.last in ends or _has_one(each.others, others)]


def _with_ids(known: _Known, keys: Sequence[Key]) -> list[Block]:
    """The blocks that may have one id at least, newest first."""
    found: dict[int, Block] = {}
    for _, low, high in keys:
        for each in (*known.loose, *known.widened):
            if _has(each.ids, 0, len(each.ids), low, high):
                found[each.last] = each
        for shelf, blocks in known.shelves:
            for at in shelf.holding(low, high):
                found[blocks[at].last] = blocks[at]
    # Of a shelf's blocks, some may be forgotten.
    return [found[last] for last in sorted(found, reverse=True) if last >= known.blocks[0].last]


def _has_one(bits: memoryview, keys: Sequence[Key]) -> bool:
    """Say whether one value at least, none of them an id, may be in a block."""
    size = len(bits) // _OTHERS
    return any(_has(bits, (part - 1) * size, size, low, high) for part, low, high in keys)


def _has(bits: bytes | memoryview, start: int, size: int, low: int, high: int) -> bool:
    """Say whether all places of a value are set in a part."""
    if not size:
        return False
    count = 8 * size
    for n in range(PLACES):
        place = (low + n * high) % count
        # The first bit of a text of bits is the highest one of its first byte.
        if not bits[start + (place >> 3)] & 0x80 >> (place & 7):
            return False
    return True


def _together(parts: Sequence[bytes | None]) -> bytes:
    """Parts of one size, one after the other; one without values has no bits."""
    size = max(len(each or b"") for each in parts)
    return b"".join(each or bytes(size) for each in parts)


def _keep(paged: PagedBytes, data: bytes | None) -> memoryview:
    try:
        return paged.keep(data or b"")
    except OSError:
        return memoryview(data or b"")  # the disk is full; some bytes of memory do no harm
