"""Buckets that suit what is stored: by hand, on a store that only counts."""

from typing import cast

import pytest

from collector.api.tasks import Buckets
from collector.store.rates import Extent, TaskQuery
from collector.store.store import Store

S = 10**9
HOUR = 3_600 * S
DAY = 24 * HOUR
NOW = 1_800_000_000 * S


class Counting:
    """A store whose first result is so old, and that has so many."""

    def __init__(self, first_ns: int | None, results: int) -> None:
        self._first_ns, self._results = first_ns, results

    def extent(self, query: TaskQuery, few: int) -> Extent | None:
        assert (query.space, few) == ("s", 10_000)
        return None if self._first_ns is None else Extent(self._first_ns, self._results)


def chosen(age_ns: int | None, results: int, points: int = 60) -> tuple[int, int]:
    """Seconds of a bucket, and the number of buckets until now."""
    first_ns = None if age_ns is None else NOW - age_ns
    query = TaskQuery(space="s", since_ns=NOW - 30 * DAY, until_ns=NOW)
    store = cast("Store", Counting(first_ns, results))
    found = Buckets.chosen(store, query, points)
    return found.bucket_ns // S, found.number


@pytest.mark.parametrize(
    ("age_ns", "results", "bucket_s", "number"),
    [
        pytest.param(118 * S, 80, 2, 59, id="two-minutes"),
        pytest.param(HOUR, 10**6, 120, 30, id="an-hour-of-many"),
        pytest.param(10 * HOUR, 10_000, 900, 40, id="ten-hours-of-few"),
        pytest.param(10 * HOUR, 50_001, 3_600, 10, id="ten-hours-of-many"),
        pytest.param(30 * DAY, 10**6, 86_400, 31, id="a-month-started-within-a-bucket"),
        pytest.param(None, 0, 86_400, 31, id="nothing"),
    ],
)
def test_the_length_is_chosen_by_the_time_from_the_first_result(
    age_ns: int | None, results: int, bucket_s: int, number: int
) -> None:
    """NOW is 08:00 UTC, so that days are cut at both ends: 30 of them lie in 31 buckets."""
    assert chosen(age_ns, results) == (bucket_s, number)
