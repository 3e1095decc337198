"""Bases of jobs: data that is stored together, and the future that is answered after the commit."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

RowT = TypeVar("RowT")


def _future() -> "Future[Any]":
    return Future()


@dataclass(slots=True, kw_only=True)
class Job:
    """Data of any shape."""

    future: "Future[Any]" = field(default_factory=_future)
    """Answered after the commit."""


@dataclass(slots=True, kw_only=True)
class RowsJob(Job, Generic[RowT]):
    """Rows of one kind."""

    rows: Sequence[RowT]

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.rows)
