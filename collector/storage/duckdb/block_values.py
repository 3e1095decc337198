"""What the rows of a block are searched by, collected row by row, and the filter made of it."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from collector.storage.duckdb.block_filters import Stretch, key_of, value_hash, with_part
from collector.storage.duckdb.block_shelf import PLACES
from collector.storage.duckdb.schema import BLOCK_PARTS

_BITS: Final = 24
"""For each value."""


class BlockValues:
    """Collects the hashes of values, for these may be long; each counts once.

    About 70 bytes for each value, however long it is.
    """

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self._times_ns: list[int] = []

    def add(self, space: str, column: str, values: Iterable[object]) -> None:
        """Take what some rows of a space have in a column; None is no value."""
        for value in set(values):
            if value is not None:
                self._hashes.add(value_hash(space, column, value))

    def add_hashed(self, column: str, numbers: Iterable[int]) -> None:
        """Take the lower halves of the MD5 of such values' texts, spaces and names included."""
        self._hashes.update(with_part(column, each) for each in set(numbers))

    def see(self, times_ns: Iterable[int]) -> None:
        """Take the times of some rows, one at least."""
        times = [*self._times_ns, *times_ns]
        self._times_ns = [min(times), max(times)]

    def row(self, stretch: Stretch) -> tuple[Any, ...] | None:
        """The block: the columns `block_filters.BLOCK`; None if no row was seen.

        Cost: about 2 µs for each value.
        """
        if not self._times_ns:
            return None
        parts: list[list[tuple[int, int]]] = [[] for _ in range(BLOCK_PARTS)]
        for number in self._hashes:
            part, low, high = key_of(number)
            parts[part].append((low, high))
        ids, *others = parts
        # A shelf wants the first part to have a power of two.
        size = 1 << (_bytes(len(ids)) - 1).bit_length()
        rest = _bytes(sum(map(len, others)) / len(others))
        bits = [_filter(ids, size), *(_filter(each, rest) for each in others)]
        return (*stretch, *self._times_ns, *bits)


def _bytes(values: float) -> int:
    """Size of a part."""
    return -(-max(64, int(values * _BITS)) // 8)


def _filter(keys: Sequence[tuple[int, int]], size: int) -> bytes | None:
    """The bits of a part; None where no value is in it."""
    if not keys:
        return None
    bits = bytearray(size)
    set_bits(bits, keys)
    return bytes(bits)


def set_bits(bits: bytearray, keys: Iterable[tuple[int, int]]) -> None:
    """Put values into a part, given the two numbers of each."""
    count = 8 * len(bits)
    for low, high in keys:
        for n in range(PLACES):
            place = (low + n * high) % count
            # The first bit of a text of bits is the highest one of its first byte.
            bits[place >> 3] |= 0x80 >> (place & 7)
