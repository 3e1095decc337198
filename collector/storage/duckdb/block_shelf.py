"""The ids of many blocks side by side, so that one look tells of all of them.

Byte n of the filters of 64 blocks is 64 bytes of the shelf, one after the other: a place is looked
up in all of them at once, and after three places hardly a block is left.
"""

from collections.abc import Sequence
from typing import Final

from collector.storage.duckdb.paged_bytes import PagedBytes

PLACES: Final = 6
"""Bits that a value sets."""


class Shelf:
    """The first parts of some filters.

    Args:
        parts: The bits of each; their sizes are powers of two, or nothing. A smaller one is there
            several times: a place in it is that in a larger one without the highest bits.
        paged: Where they are kept; in memory, if that has no room.
    """

    __slots__ = ("_bits", "_count", "_ones", "_width")

    def __init__(self, parts: Sequence[bytes], paged: PagedBytes) -> None:
        size = max(1, *map(len, parts))
        self._count, self._width = 8 * size, len(parts)
        self._ones = int.from_bytes(b"\1" * self._width)
        data = bytearray(size * self._width)
        for at, part in enumerate(parts):
            if part:
                data[at :: self._width] = part * (size // len(part))
        try:
            self._bits = paged.keep(data)
        except OSError:
            self._bits = memoryview(data)  # the disk is full

    def holding(self, low: int, high: int) -> list[int]:
        """Which blocks may have a value, by their number on the shelf."""
        bits, count, width, held = self._bits, self._count, self._width, self._ones
        for n in range(PLACES):
            place = (low + n * high) % count
            at = (place >> 3) * width
            # The first bit of a text of bits is the highest one of its first byte.
            held &= int.from_bytes(bits[at : at + width], "little") >> (7 - (place & 7))
            if not held:
                return []
        found = held.to_bytes(width, "little")
        return [at for at in range(width) if found[at]]
