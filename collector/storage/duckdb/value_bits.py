"""Distinct keys counted by the values of their rows, in one pass.

Each value has a bit, and each key the union of its rows' bits. A `count(DISTINCT key)` for each
column takes three times as long.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from collector.storage.duckdb.database import Database

# All SQL is put together from the package's own words; values always travel as parameters.
# ruff: noqa: S608

MOST_VALUES: Final = 62
"""Of one name: the bits of a number that DuckDB computes with fast."""


class Valued(Protocol):
    """A name with its values, as many as there are bits at most."""

    @property
    def name(self) -> str:
        """Of the counts."""
        ...

    @property
    def values(self) -> Sequence[str]:
        """In the order of their bits."""
        ...

    def mark(self, first: int) -> tuple[str, list[object]]:
        """SQL for the bit of a row's value, 0 where it has none, and the parameters in it.

        Args:
            first: The bit of the first value.
        """
        ...


class Texts(NamedTuple):
    """The values of some columns: each row has that of the first column with one of them."""

    name: str
    columns: Sequence[str]
    values: Sequence[str]

    def mark(self, first: int) -> tuple[str, list[object]]:
        """See `Valued`. DuckDB looks up each value of a block once, not that of each row."""
        bits = [1 << (first + n) for n in range(len(self.values))]
        found = (f"map(?::VARCHAR[], ?::BIGINT[])[{each}]" for each in self.columns)
        return f"coalesce({', '.join(found)}, 0)", [self.values, bits] * len(self.columns)


class Numbers(NamedTuple):
    """The values of a column that numbers them from 0 on."""

    name: str
    column: str
    values: Sequence[str]

    def mark(self, first: int) -> tuple[str, list[object]]:
        """See `Valued`."""
        return f"coalesce(1::BIGINT << ({first} + {self.column}), 0)", []


def count_keys(
    database: Database, key: str, rows: str, given: Sequence[object], all_values: Sequence[Valued]
) -> dict[str, dict[str, int]]:
    """Count the keys that have a row with a value, by name and value.

    Args:
        database: The open file.
        key: SQL for the key of a row.
        rows: SQL from FROM on.
        given: Its values.
        all_values: What to count by; values that no row has are left out.
    """
    words: list[list[str]] = []
    places: list[tuple[int, int, str, str]] = []
    parameters: list[object] = []
    used = 0
    for each in all_values:
        if not words or used + len(each.values) > MOST_VALUES:
            words.append([])
            used = 0
        sql, values = each.mark(used)
        words[-1].append(sql)
        parameters += values
        for value in each.values:
            places.append((len(words) - 1, used, each.name, value))
            used += 1
    if not places:
        return {}
    unions = (f"bit_or({' | '.join(marks)}) AS word{n}" for n, marks in enumerate(words))
    names = ", ".join(f"word{n}" for n in range(len(words)))
    sums = (f"sum(n) FILTER (word{word} & {1 << bit} <> 0)" for word, bit, _, _ in places)
    (row,) = database.read(
        f"SELECT {', '.join(sums)} FROM (SELECT {names}, count(*) AS n FROM ("
        f"SELECT {', '.join(unions)} {rows} GROUP BY {key}) GROUP BY ALL)",
        [*parameters, *given],
    )
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (_, _, name, value), count in zip(places, row, strict=True):
        if count:
            counts[name][value] = int(count)
    return dict(counts)
