"""Filters of keys: none that was added is called new, and few new ones are not."""

import tracemalloc

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.key_filter import KeyFilter, places_sql

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)
BITS = 1 << 16


def of(numbers: list[int], bits: int = BITS) -> KeyFilter:
    found = KeyFilter(bits)
    found.add_all(numbers)
    return found


def among(seen: KeyFilter, numbers: list[int]) -> list[int]:
    return [each for each in numbers if seen.maybe(each)]


@given(NUMBERS, NUMBERS)
@settings(max_examples=50)
def test_a_filter_never_forgets(some: list[int], more: list[int]) -> None:
    """Numbers that were added at once, or behind a copy."""
    ways = [of([*some, *more]), of(some).copy()]
    ways[1].add_all(more)
    for each in ways:
        assert among(each, [*some, *more]) == [*some, *more]


def test_nothing_added_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        filters = [of([], 1 << 25) for _ in range(5)]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert not any(each.maybe(0) for each in filters)


def test_a_filter_knows_what_is_new() -> None:
    """With one number for 24 bits, 1 of 9,000 new ones is a "maybe"."""
    bits, count = 1 << 18, (1 << 18) // 24
    numbers = [n * 0x9E3779B97F4A7C15 % 2**64 for n in range(1, count + 20_001)]
    known = of(numbers[:count], bits)
    assert among(known, numbers[:count]) == numbers[:count]
    assert len(among(known, numbers[count:])) < 12  # 2 are expected


@pytest.mark.parametrize("kind", ["BIGINT", "UBIGINT"])
@given(numbers=NUMBERS)
@settings(max_examples=10, deadline=None)
def test_the_database_sets_the_same_bits(kind: str, numbers: list[int]) -> None:
    """From signed numbers, and from the same bits without a sign."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t (n {kind})")
        stored = numbers if kind == "BIGINT" else [n % 2**64 for n in numbers]
        connection.executemany("INSERT INTO t VALUES (?)", [[n] for n in stored] or [[None]])
        ((data,),) = connection.execute(
            f"SELECT bitstring_agg(n::BIGINT, 0, {BITS - 1})::BLOB"  # noqa: S608 our own words
            f" FROM (SELECT unnest({places_sql('n', BITS)}) AS n FROM t)"
        ).fetchall()
    made, expected = KeyFilter(BITS, data), of(numbers)
    assert among(made, numbers) == numbers
    probes = [n ^ 1 << bit for n in numbers for bit in (0, 30, 50, 63)]
    assert among(made, probes) == among(expected, probes)
