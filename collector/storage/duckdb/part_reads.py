"""Reading rows with long texts a few at a time, within a bound of bytes.

DuckDB stores two thousand rows together. It holds the texts of all rows that a query finds among
them, with any LIMIT. With texts of megabytes that takes the memory that commits need, too. DuckDB
can tell the length of a text only by reading it.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from collector.storage.duckdb.database import NoMemoryError

_FIRST: Final = 4
_MOST: Final = 50
_GROWTH: Final = 4
_PART_BYTES: Final = 2 * 2**20

Place = TypeVar("Place")


class LongRow(NamedTuple):
    """A row that was found, and how long its text is."""

    place: tuple[int, int]
    text: str
    values: Sequence[object] = ()


def read_within(
    places: Sequence[Place],
    read: Callable[[Sequence[Place]], Sequence[LongRow]],
    max_bytes: int,
) -> tuple[list[LongRow], int]:
    """Read the rows at some places in parts that shrink where texts are long, or memory is short.

    Args:
        places: In the order in which they are read.
        read: Reads the rows at some of them, in any order; those that went are left out.
        max_bytes: Stops behind the part with which the texts are so long.

    Returns:
        The rows, and the number of places that were read.

    Raises:
        NoMemoryError: There is no memory even for one row.
    """
    found: list[LongRow] = []
    done, size, count = 0, 0, _FIRST
    while done < len(places) and size < max_bytes:
        part = places[done : done + count]
        try:
            rows = read(part)
        except NoMemoryError:
            if len(part) == 1:
                raise
            count = max(1, len(part) // _GROWTH)
            continue
        found += rows
        done += len(part)
        longest = max((len(row.text) for row in rows), default=0)
        size += sum(len(row.text) for row in rows)
        count = max(1, min(_MOST, count * _GROWTH, _PART_BYTES // max(1, longest)))
    return found, done
