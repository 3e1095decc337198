"""Which keys are stored already, answered from memory for everything that is new."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final, Self

from collector.storage.duckdb.paged_bytes import PagedBytes
from collector.storage.log.span_codec import Preference

_BITS: Final = 1 << 25
_MASK: Final = _BITS - 1
_PARTS: Final = 4
_IN_PART: Final = _BITS // _PARTS - 1
_PART: Final = _MASK - _IN_PART
_PLACES: Final = 6
_FULL: Final = int(0.22 * _BITS)
"""Bits that are set after 1.4 million hashes."""

Read = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""Runs a query with its parameters and gives the rows."""
TraceKey = tuple[str, str]
"""Space and trace id."""


def text_hash(text: str) -> int:
    """A signed 64-bit number that stays the same between processes."""
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True
    )


class SeenFilter:
    """Says "never seen" or "maybe seen" of 64-bit hashes, in 4 MiB; in none while it is empty.

    Six bits for each hash, all in the quarter that its two highest bits name: with a million
    hashes 1 in 50,000 new ones is a "maybe", with 1.4 million, when it is full, 1 in 9,000; with
    ten million every third one.

    Args:
        bits: The parts that `load` read; None for an empty filter.

    Source: Bloom 1970, doi:10.1145/362686.362692; Putze, Sanders, Singler 2009,
    doi:10.1145/1498698.1594230, for the parts; Kirsch, Mitzenmacher 2006,
    doi:10.1007/11841036_42, for making all places from two numbers.
    """

    def __init__(self, bits: bytes | None = None) -> None:
        self._bits: bytearray | memoryview = bytearray(bits or b"")
        self._ones = int.from_bytes(self._bits).bit_count()

    @classmethod
    def load(cls, read: Read, number: str, rows: str, parameters: Sequence[object] = ()) -> Self:
        """Let the database make a filter, a part after the other: it needs 12 MB for that.

        Args:
            read: Runs a query with its parameters.
            number: Expression for a hash, signed or not.
            rows: What follows FROM; read once for each part.
            parameters: Of `rows`.

        Cost: 0.1 µs for each row, outside of the interpreter.
        """
        step = f"((n & {_IN_PART}) * 2 + 1)"
        places = ", ".join(f"((n >> 39) + {at} * {step}) & {_IN_PART}" for at in range(_PLACES))
        made: list[bytes | None] = []
        for part in range(_PARTS):
            numbers = f"SELECT {number} AS n FROM {rows}"  # noqa: S608 our own words
            ((bits,),) = read(
                f"SELECT bitstring_agg(place::BIGINT, 0, {_IN_PART})::BLOB FROM"  # noqa: S608
                f" (SELECT unnest([{places}]) AS place FROM ({numbers})"
                f" WHERE (n >> 62) & {_PARTS - 1} = {part})",
                parameters,
            )
            made.append(bits)
        none = bytes(_BITS // _PARTS // 8)
        return cls(b"".join(bits or none for bits in made) if any(made) else None)

    @property
    def is_full(self) -> bool:
        """True once more hashes would make too many new ones a "maybe"."""
        return self._ones >= _FULL

    def has_room(self, other: "SeenFilter") -> bool:
        """Say whether another filter's hashes fit in."""
        return self._ones + other._ones <= _FULL

    def add_all(self, numbers: Iterable[int]) -> None:
        """Remember hashes."""
        for number in numbers:
            if not self._bits:
                self._bits = bytearray(_BITS // 8)
            bits = self._bits
            for place in _places(number):
                at, bit = place >> 3, 0x80 >> (place & 7)
                if not bits[at] & bit:
                    bits[at] |= bit
                    self._ones += 1

    def maybe(self, number: int) -> bool:
        """False if the hash was certainly never added."""
        bits = self._bits
        if not bits or not bits[(number >> 39 & _MASK) >> 3] & 0x80 >> (number >> 39 & 7):
            return False
        return all(bits[place >> 3] & 0x80 >> (place & 7) for place in _places(number))

    def among(self, numbers: Iterable[int]) -> list[int]:
        """The hashes that may have been added."""
        bits = self._bits
        if not bits:
            return []
        return [
            number
            for number in numbers
            if bits[(number >> 39 & _MASK) >> 3] & 0x80 >> (number >> 39 & 7) and self.maybe(number)
        ]

    def merge(self, other: "SeenFilter") -> None:
        """Take over everything that another filter remembers."""
        if other._bits and self._bits:
            both = int.from_bytes(self._bits) | int.from_bytes(other._bits)
            self._bits[:] = both.to_bytes(len(self._bits))
            self._ones = both.bit_count()
        elif other._bits:
            self._bits, self._ones = bytearray(other._bits), other._ones

    def freeze(self, paged: PagedBytes) -> None:
        """Add nothing more, and let the system take the memory back when it has to."""
        if self._bits:
            with suppress(OSError):  # the disk is full; memory does no harm
                self._bits = paged.keep(bytes(self._bits))


def _places(number: int) -> list[int]:
    first = number >> 39 & _MASK
    part, step = first & _PART, (number & _IN_PART) * 2 + 1  # odd: every place is another one
    return [part | (first + n * step & _IN_PART) for n in range(_PLACES)]


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
