"""Labels: what people say of stored records."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRow:
    """Label of one person on one record, for one task."""

    space: str
    uid: str
    """Uid of the record."""
    record_id: str
    alias: str
    """Alias of the profile."""
    task_id: str
    rater: str
    """The person, as they call themselves."""
    is_good: bool | None
    """True if the record is good, as the task asks; None takes an earlier label back.

    Of a score, whether the task passed with it when it was given.
    """
    notes: str
    at_ns: int
    by: str
    """Id of the token that it came with; empty where none was asked for."""
    score: float | None = None
    """The person's number on the task's scale, where they gave one."""
    is_blind: bool | None = None
    """False where they had seen the outcome or other labels before; None where nobody said."""
    order: str | None = None
    """Order of the queue that the record came from; None if from none."""
    stratum: str | None = None
    """Records that it was drawn from at random: `passed`, `failed` or `all`."""
    size: int | None = None
    """Number of records in the stratum at that moment."""
    place: tuple[int, int] = (0, 0)
    """Commit and ordinal in it, where it was read from the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelQuery:
    """Labels to list; None means any."""

    space: str
    alias: str | None = None
    task_id: str | None = None
    rater: str | None = None
    uid: str | None = None
    limit: int = 1_000
    before: tuple[int, int] | None = None
    """Continue below this place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCount:
    """Labels that count, on one task."""

    alias: str
    task_id: str
    records: int
    """Records with a label."""
    raters: int
    """People who gave one."""


class LabelStore(Protocol):
    """Labels go with their record, whoever takes it out."""

    def append_labels(self, labels: Sequence[LabelRow]) -> "Future[int]":
        """Keep labels; the last one of a person on a task and record counts.

        One on a record that was erased meanwhile is dropped.
        """
        ...

    def labels(self, query: LabelQuery) -> Sequence[LabelRow]:
        """Labels that count, the newest first."""
        ...

    def label_raters(self, space: str) -> Sequence[str]:
        """Names that people labelled under, by their first use.

        Names that differ in case or outer spaces alone are one, as it was spelt first.
        """
        ...

    def label_counts(self, space: str) -> Sequence[LabelCount]:
        """Count the labels on each task that has one, in any order."""
        ...
