"""Filters of keys, in memory and as the database makes them."""

import tracemalloc

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.storage.duckdb.database import run
from collector.storage.duckdb.known_keys import SeenFilter

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)


def of(numbers: list[int]) -> SeenFilter:
    found = SeenFilter()
    found.add_all(numbers)
    return found


@given(NUMBERS, NUMBERS)
@settings(max_examples=50)
def test_a_filter_never_forgets(some: list[int], more: list[int]) -> None:
    """Whether numbers were added at once, or came by merging; in either direction."""
    ways = [of([*some, *more]), of(some), of(more)]
    ways[1].merge(of(more))
    ways[2].merge(of(some))
    for each in ways:
        assert each.among([*some, *more]) == [*some, *more]


def test_nothing_added_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        filters = [of([]) for _ in range(5)]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert not any(each.maybe(0) for each in filters)


def test_a_filter_knows_what_is_new() -> None:
    """With 1,000 numbers 1 of 1.4 billion new ones is a "maybe"."""
    known = of([n * 0x9E3779B97F4A7C15 % 2**63 for n in range(1, 1_001)])
    assert known.among([n * 0x9E3779B97F4A7C15 % 2**63 for n in range(1_001, 11_001)]) == []
    assert SeenFilter().among([0, 1]) == []
    assert not SeenFilter().maybe(0)


@pytest.mark.parametrize("kind", ["BIGINT", "UBIGINT"])
@given(numbers=NUMBERS)
@settings(max_examples=10, deadline=None)
def test_the_database_makes_the_same_filter(kind: str, numbers: list[int]) -> None:
    """From signed numbers, and from the same bits without a sign."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t (n {kind})")
    stored = numbers if kind == "BIGINT" else [n % 2**64 for n in numbers]
    connection.executemany("INSERT INTO t VALUES (?)", [[n] for n in stored] or [[None]])
    made = SeenFilter.load(lambda sql, values: run(connection, sql, values), "n", "t")
    connection.close()
    assert made.among(numbers) == numbers
    probes = [n ^ 1 << bit for n in numbers for bit in (0, 30, 50, 63)]
    expected = of(numbers)
    assert made.among(probes) == expected.among(probes)


def test_a_filter_is_made_in_little_memory() -> None:
    """A collector's start must not need more than its daily work does."""
    connection = duckdb.connect(config={"memory_limit": "16MB", "threads": 2})
    numbers = "(SELECT hash(range) AS n FROM range(1000000))"
    made = SeenFilter.load(lambda sql, values: run(connection, sql, values), "n", numbers)
    some = run(connection, f"SELECT n FROM {numbers} USING SAMPLE 1000")  # noqa: S608
    connection.close()
    known = [number for (number,) in some]
    assert made.among(known) == known
    new = [number ^ 0x5555555555555555 for number in known]
    assert len(made.among(new)) < 20  # 1,000 / 1,600 are expected
