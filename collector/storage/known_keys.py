"""Which keys are stored already, answered from memory for everything that is new."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from collector.storage.span_codec import Preference

_BITS: Final = 1 << 25
_MASK: Final = _BITS - 1

TraceKey = tuple[str, str]
"""Space and trace id."""


def text_hash(text: str) -> int:
    """A signed 64-bit number that stays the same between processes."""
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True
    )


class SeenFilter:
    """Says "never seen" or "maybe seen" of 64-bit hashes, in 4 MiB; in none while it is empty.

    Three bits for each hash: with a million hashes 1 in 1,600 new ones is a "maybe", which costs
    one look into the store.

    Args:
        bits: What a query of `sql` gave; None for an empty filter.

    Source: Bloom 1970, doi:10.1145/362686.362692.
    """

    def __init__(self, bits: bytes | None = None) -> None:
        self._bits = bytearray(bits or b"")

    @staticmethod
    def sql(number: str, rows: str) -> str:
        """A query for the bits of a filter; its one value is NULL if there are no rows.

        Args:
            number: Expression for a hash, signed or not.
            rows: What follows FROM.

        Cost: 40 ns for each row, outside of the interpreter.
        """
        places = f"[n & {_MASK}, (n >> 19) & {_MASK}, (n >> 39) & {_MASK}]"
        return (
            f"SELECT bitstring_agg(place::BIGINT, 0, {_BITS - 1})::BLOB"  # noqa: S608 our own words
            f" FROM (SELECT unnest({places}) AS place FROM (SELECT {number} AS n FROM {rows}))"
        )

    def add_all(self, numbers: Iterable[int]) -> None:
        """Remember hashes."""
        for number in numbers:
            if not self._bits:
                self._bits = bytearray(_BITS // 8)
            bits = self._bits
            for place in (number & _MASK, number >> 19 & _MASK, number >> 39 & _MASK):
                bits[place >> 3] |= 0x80 >> (place & 7)

    def maybe(self, number: int) -> bool:
        """False if the hash was certainly never added."""
        bits = self._bits
        if not bits:
            return False
        for place in (number & _MASK, number >> 19 & _MASK, number >> 39 & _MASK):
            if not bits[place >> 3] & 0x80 >> (place & 7):
                return False
        return True

    def among(self, numbers: Iterable[int]) -> list[int]:
        """The hashes that may have been added."""
        bits = self._bits
        if not bits:
            return []
        return [
            number
            for number in numbers
            if bits[(number & _MASK) >> 3] & 0x80 >> (number & 7) and self.maybe(number)
        ]

    def merge(self, other: "SeenFilter") -> None:
        """Take over everything that another filter remembers."""
        if other._bits and self._bits:
            both = int.from_bytes(self._bits) | int.from_bytes(other._bits)
            self._bits[:] = both.to_bytes(len(self._bits))
        elif other._bits:
            self._bits[:] = other._bits


class RecentTraces:
    """All stored spans of the traces touched last: exact, least recently touched go first.

    Args:
        limit: Spans to remember, about 300 bytes each.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._count = limit, 0
        self._traces: OrderedDict[TraceKey, dict[str, Preference]] = OrderedDict()

    def get(self, key: TraceKey) -> Mapping[str, Preference] | None:
        """The trace's spans, or None if it is not remembered."""
        found = self._traces.get(key)
        if found is not None:
            self._traces.move_to_end(key)
        return found

    def put(self, key: TraceKey, spans: dict[str, Preference]) -> None:
        """Remember a trace.

        Args:
            key: The trace.
            spans: All spans of it; belongs to this object from now on.
        """
        self._count += len(spans) - len(self._traces.get(key, ()))
        self._traces[key] = spans
        self._traces.move_to_end(key)
        while self._count > self._limit and len(self._traces) > 1:
            self._count -= len(self._traces.popitem(last=False)[1])
