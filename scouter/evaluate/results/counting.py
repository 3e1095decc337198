"""Task results in a pass rate: those that count, and their rate."""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from scouter.evaluate.outcome import Outcome, Reason, is_in_rate
from scouter.evaluate.results.record_result import pass_rate


class Ended(Protocol):
    """The part of a task's result that a rate reads."""

    @property
    def outcome(self) -> Outcome:
        """One of four."""
        ...

    @property
    def reason(self) -> Reason | None:
        """Reason why the task errored or was skipped; None if it did not."""
        ...


def is_counted(task: Ended) -> bool:
    """Tell whether a task belongs into a pass rate, as `scouter.evaluate.outcome` says."""
    return is_in_rate(task.outcome, task.reason)


def rate_of(tasks: Iterable[Ended]) -> float:
    """Compute the `pass_rate` of those tasks that count."""
    return pass_rate(Counter(task.outcome for task in tasks if is_counted(task)))
