"""Buckets of time: of a length that is asked for, or of one that suits what is stored."""

import time
from typing import Final, NamedTuple, Self

from collector.api.parameters import read_bucket
from collector.problem import ProblemError
from collector.store.rates import TaskQuery
from collector.store.store import Store

_S: Final = 10**9
_HOUR_NS: Final = 3_600 * _S
_MOST_BUCKETS: Final = 2_000
_USUAL: Final = 24
_STEPS: Final = tuple(
    seconds * _S
    for seconds in (
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200,
        86_400, 2 * 86_400, 7 * 86_400,
    )
)  # fmt: skip
"""Lengths to choose from."""
_SHORT_NS: Final = 2 * _HOUR_NS
_FEW: Final = 10_000
"""Results that may be read one by one in a longer time; buckets of whole hours need none."""


class Buckets(NamedTuple):
    """A time that is cut into buckets."""

    since_ns: int
    until_ns: int
    bucket_ns: int

    @classmethod
    def read(cls, bucket: str, since_ns: int | None, until_ns: int | None) -> Self:
        """Read the length of buckets, and find the time that is not given.

        Raises:
            ProblemError: 400; it is no length, or there are too many buckets.
        """
        bucket_ns = read_bucket(bucket)
        if until_ns is None:
            until_ns = (time.time_ns() // bucket_ns + 1) * bucket_ns
        if since_ns is None:
            since_ns = max(0, (-(-until_ns // bucket_ns) - _USUAL) * bucket_ns)
        buckets = cls(since_ns, until_ns, bucket_ns)
        if buckets.number > _MOST_BUCKETS:
            raise ProblemError(
                400,
                f"bucket: {buckets.number:,} buckets of {bucket}; at most {_MOST_BUCKETS:,} are "
                "computed: take longer buckets, or a later since",
            )
        return buckets

    @classmethod
    def chosen(cls, store: Store, query: TaskQuery, points: int) -> Self:
        """Cut the time from the first result on into so many buckets at most.

        Args:
            store: Has the results.
            query: Its results.
            points: At most, and as many as that allows.

        Raises:
            ProblemError: 400; no `since_ns` is given.

        Cost: that of `Store.extent`.
        """
        if query.since_ns is None:
            raise ProblemError(400, "points: a rate over time needs since, too")
        until_ns = time.time_ns() if query.until_ns is None else query.until_ns
        extent = store.extent(query, _FEW)
        since_ns = max(query.since_ns, extent.first_ns if extent else 0)
        length_ns = max(0, until_ns - since_ns)
        bucket_ns = next((each for each in _STEPS if length_ns <= (points - 1) * each), _STEPS[-1])
        if extent and extent.results > _FEW and length_ns > _SHORT_NS:
            bucket_ns = max(bucket_ns, _HOUR_NS)
        since_ns = max(since_ns // bucket_ns * bucket_ns, query.since_ns)
        if query.until_ns is None:
            until_ns = (until_ns // bucket_ns + 1) * bucket_ns
        return cls(since_ns, until_ns, bucket_ns)

    @property
    def number(self) -> int:
        """The number of buckets, those that are cut included."""
        return -(-self.until_ns // self.bucket_ns) - self.since_ns // self.bucket_ns
