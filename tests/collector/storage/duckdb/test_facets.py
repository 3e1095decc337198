"""Steps in which facets are counted."""

from typing import Any, cast

import duckdb
import pytest

from collector.storage.duckdb.commit_ranges import Stretch
from collector.storage.duckdb.database import Database
from collector.storage.duckdb.facets import Counts, count_in_steps

QUIET, BUSY, EACH = 1000, 100, 2000
"""The newest commits without rows, those before them, and rows of each of these."""
LAST = QUIET + BUSY - 1


class Table:
    """A table whose rows are all in the older commits."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        self._connection.execute(
            f"CREATE TABLE t AS SELECT c AS seq FROM range({BUSY}) c(c), range({EACH})"  # noqa: S608
        )

    def read(self, sql: str) -> list[Any]:
        return self._connection.execute(sql).fetchall()


@pytest.fixture
def database() -> Database:
    return cast("Database", Table())


def steps(database: Database, *, has_time: bool) -> tuple[list[int], int | None]:
    """The first commit of each step that is counted, and how far the counts reach."""
    counted: list[int] = []

    def count(stretch: Stretch) -> Counts:
        assert stretch.last == LAST
        counted.append(stretch.first)
        return {}

    _, reached = count_in_steps(database, "t", LAST, lambda _: not has_time, count)
    return counted, reached


def test_no_step_leaps_over_a_quiet_time(database: Database) -> None:
    """16 times as many rows as in the step before at most, and everything in the end."""
    counted, reached = steps(database, has_time=True)
    rows = [EACH * max(0, BUSY - first) for first in counted]
    assert (rows[-1], reached) == (EACH * BUSY, None)
    for before, now in zip([0, *rows], rows, strict=False):
        assert now <= 16 * max(before, 2000)


def test_time_that_is_over_ends_behind_a_few_rows(database: Database) -> None:
    (first,), reached = steps(database, has_time=False)
    assert reached == first
    assert 0 < EACH * (BUSY - first) <= 32_000
