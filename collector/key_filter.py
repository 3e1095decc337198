"""A Bloom filter: says "never seen" or "maybe seen" of 64-bit hashes.

Source: Bloom 1970, doi:10.1145/362686.362692; Kirsch, Mitzenmacher 2006, doi:10.1007/11841036_42,
for making all places from two numbers.
"""

import mmap
from collections.abc import Iterable
from typing import Final

PLACES: Final = 6
"""Bits that a hash sets."""


class KeyFilter:
    """Remembers hashes in a fixed number of bits; one of few hashes takes little memory.

    With one hash for every 24 bits it says "maybe" of 1 new hash in 9,000. One thread adds; any
    thread reads.

    Args:
        bits: Number of bits, a power of two from 8 to 2**32.
        data: The bits that another filter of this size had, lowest place first, as DuckDB's
            `bitstring_agg` gives them; None for an empty filter.
    """

    __slots__ = ("_data", "_mask")

    def __init__(self, bits: int, data: bytes | None = None) -> None:
        self._mask = bits - 1
        self._data: bytearray | mmap.mmap = bytearray(data or b"")

    def copy(self) -> "KeyFilter":
        """A filter that remembers the same, and nothing that is added to this one later."""
        return KeyFilter(self._mask + 1, bytes(self._data))

    def add_all(self, numbers: Iterable[int]) -> None:
        """Remember hashes, signed or not. Cost: about 2 µs each."""
        for number in numbers:
            if not self._data:  # zeros, of which the system gives the pages that are written to
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
                self._data = mmap.mmap(-1, (self._mask + 1) // 8, flags)
            data = self._data
            for place in self._places(number):
                at, bit = place >> 3, 0x80 >> (place & 7)
                data[at] |= bit

    def maybe(self, number: int) -> bool:
        """False if a hash was certainly never added."""
        data, place = self._data, number & self._mask
        if not data or not data[place >> 3] & 0x80 >> (place & 7):
            return False
        return all(data[each >> 3] & 0x80 >> (each & 7) for each in self._places(number))

    def _places(self, number: int) -> list[int]:
        mask = self._mask
        step = (number >> 32 & mask) | 1  # odd: every place is another one
        return [number + n * step & mask for n in range(PLACES)]


def places_sql(number: str, bits: int) -> str:
    """SQL for the list of places that a hash sets.

    Args:
        number: SQL for the hash, signed or not.
        bits: Of the filter.
    """
    mask = bits - 1
    first, step = f"({number} & {mask})", f"(({number} >> 32) & {mask} | 1)"
    return f"[{', '.join(f'({first} + {n} * {step}) & {mask}' for n in range(PLACES))}]"
