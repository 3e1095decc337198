"""Questions that count outcomes of tasks, and the counts that answer them."""

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Filter of the task results to count; None means any."""

    space: str
    profile: str | None = None
    service_version: str | None = None
    environment: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None


class Scores(NamedTuple):
    """The scores of some results in a few numbers."""

    n: int
    """Results that have a score: those that passed or failed."""
    mean: float | None
    """None of none."""
    sd: float | None
    """The standard deviation, with n - 1; None of fewer than two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCounts:
    """Outcomes of one task of one profile, and what its scores sum up to."""

    profile_uid: str
    profile_digest: str
    profile_name: str
    alias: str
    task_id: str
    passed: int
    failed: int
    errored: int
    skipped: int
    gated: int
    """Part of `skipped` that a gate skipped; it counts in the pass rate."""
    own: int = 0
    """Results with a score of their own; that of all others is their outcome's, 1 or 0."""
    own_passed: int = 0
    own_mean: float = 0.0
    own_squares: float = 0.0
    """Sum of the squared distances of those scores from their mean."""

    @property
    def scores(self) -> Scores:
        """Mean and standard deviation of all scores.

        Source: two groups joined as by Chan, Golub and LeVeque 1979, Updating formulae.
        """
        n = self.passed + self.failed
        if not n:
            return Scores(0, None, None)
        others = n - self.own
        mean_of_others = (self.passed - self.own_passed) / others if others else 0.0
        apart = self.own_mean - mean_of_others
        mean = mean_of_others + apart * self.own / n
        squares = self.own_squares + others * mean_of_others * (1.0 - mean_of_others)
        squares += apart * apart * self.own * others / n
        return Scores(n, mean, math.sqrt(squares / (n - 1)) if n > 1 else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuery:
    """Filter of the task results to count in each bucket of time; None means any."""

    space: str
    profile: str | None = None
    task_id: str | None = None
    service_version: str | None = None
    environment: str | None = None
    since_ns: int
    until_ns: int
    bucket_ns: int
    """Buckets begin at multiples of it since 1970; the first and the last may be cut."""
    limit: int = 50_000
    """Most items; the first ones are taken. Lines of rates have no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesItem:
    """Outcomes of one task in one bucket."""

    start_ns: int
    counts: TaskCounts


class RateLine(NamedTuple):
    """The rate of one task over time, in columns: one place for each bucket with a rate."""

    profile_uid: str
    task_id: str
    start_ns: list[int]
    """Beginnings of the buckets, in order."""
    passed: list[int]
    total: list[int]
    """Results that the rate counts, 1 at least."""


class Extent(NamedTuple):
    """The time that has results, and how many there are."""

    first_ns: int
    """Of the first one; where there are many, the begin of its hour."""
    results: int
