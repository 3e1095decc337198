"""The newest results of one task: whom people are asked about."""

from dataclasses import dataclass

from collector.store.rows import TaskRow
from scouter.evaluate.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestResultsQuery:
    """Results to read."""

    space: str
    alias: str
    task_id: str
    outcome: Outcome | None = None
    """None means any but `pending` and `skipped`."""
    limit: int
    has_values: bool = False
    """True reads the expected and the actual value, too, where they are numbers or flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestResult:
    """The latest result of a task on a record."""

    uid: str
    """Uid of the record."""
    task: TaskRow
    """Without texts: no message, no answer."""
