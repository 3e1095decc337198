"""Outcomes of requests: which of their items were taken, and why others were not."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Reason that one item of a request was not accepted."""

    index: int
    uid: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Counts of the accepted records and duplicates of a request, and all problems."""

    accepted: int = 0
    duplicates: int = 0
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A request on its way to where it is durable."""

    futures: "tuple[Future[Any], ...]" = ()
    """All have to be done before the request may be acknowledged."""
    outcome: Callable[[], Outcome] = Outcome
    """Sums up, once every future is done."""
    ignored: int = 0
    """Log records of which nothing is stored."""
