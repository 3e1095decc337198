"""Outcomes of all tasks for one record, and the rules that sum tasks up."""

import gc
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.outcome import Outcome, is_in_rate
from scouter.evaluate.results.task_result import EvalTaskResult

_FAILED: Final = Outcome.FAILED
_ERRORED: Final = Outcome.ERRORED
_SKIPPED: Final = Outcome.SKIPPED
_PENDING: Final = Outcome.PENDING


@contextmanager
def collector_paused() -> Generator[None]:
    """Keep Python's cycle collector from looking through all results again and again.

    With one object per task result that took two thirds of the time of a comparison of 500,000
    results, and two fifths of that of reading 100,000.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class MissingKeyError(DataError, KeyError):
    """No record, or no single one, has the id that was requested."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(slots=True, eq=False, repr=False)
class RecordResult:
    """Results of all tasks of a profile for one record, in the tasks' order."""

    record_uid: str
    """The record's key."""
    record_id: str
    """The user's name for the record, maybe empty."""
    session_id: str
    """Conversation that the record belongs to."""
    trace_id: str | None
    outcome: Outcome
    """`record_outcome` of the tasks."""
    tasks: tuple[EvalTaskResult, ...]
    created_ns: int
    """Time at which the record was made, in nanoseconds since the epoch."""
    duration_ns: int
    """Length of the evaluation, in nanoseconds."""

    scope: ClassVar[str] = "record"
    """Kind of thing that was evaluated: `record`, or `session` (see `SessionResult`)."""

    def __getitem__(self, task_id: str) -> EvalTaskResult:
        wanted = task_id.lower()  # as ids are everywhere
        for task in self.tasks:
            if task.task_id == wanted:
                return task
        known = ", ".join(repr(task.task_id) for task in self.tasks)
        raise MissingKeyError(f"no task {task_id!r}; the tasks are {known}")

    @property
    def has_error(self) -> bool:
        """True if a task errored; such a record may be a failed one."""
        return any(task.outcome is _ERRORED for task in self.tasks)

    def with_tasks(self, tasks: tuple[EvalTaskResult, ...]) -> Self:
        """Make a copy with other results, and the outcome that follows from them."""
        return replace(self, tasks=tasks, outcome=record_outcome(tasks))

    def to_json(self) -> dict[str, JsonValue]:
        """Write all fields as plain JSON."""
        return {
            "record_uid": self.record_uid,
            "record_id": self.record_id,
            "session_id": self.session_id,
            "trace_id": self.trace_id,
            "outcome": str(self.outcome),
            "created_ns": self.created_ns,
            "duration_ns": self.duration_ns,
            "tasks": [cast(JsonValue, task.to_json()) for task in self.tasks],
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordResult):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __repr__(self) -> str:
        name = self.record_id or self.record_uid
        return f"RecordResult({name!r}: {self.outcome}, {len(self.tasks)} tasks)"


class SessionResult(RecordResult):
    """Results of all session-scoped tasks of a profile for one session.

    `record_uid` is made of the fields that identify the session. `record_id` is a name for people.
    `trace_id` is None, as a session may have many traces. `created_ns` is that of its first record.
    """

    __slots__ = ()

    scope: ClassVar[str] = "session"

    def to_json(self) -> dict[str, JsonValue]:
        """Write all fields as plain JSON."""
        return {"scope": self.scope, **super().to_json()}


def record_outcome(results: Iterable[EvalTaskResult]) -> Outcome:
    """Sum up the tasks of one record.

    Returns:
        Pending if any task is, else failed if any task is, else errored if any task is, else
        passed; skipped only if all tasks are, and if there are none.
    """
    # Compared by identity with names of this module: looking a member of an enum up, and hashing
    # it, are calls of Python code, and this runs for every record.
    worst = _SKIPPED
    for result in results:
        outcome = result.outcome
        if outcome is _PENDING:
            return outcome
        if worst is _FAILED:
            continue
        if outcome is _FAILED or outcome is _ERRORED or worst is _SKIPPED:
            worst = outcome
    return worst


def pass_rate(counts: Mapping[Outcome, int]) -> float:
    """Compute passed / (passed + failed + errored + skipped by a gate).

    Args:
        counts: Task results by outcome; of the skipped ones only those that a gate skipped.

    Returns:
        A rate in [0, 1]; 0.0 where nothing was counted, as nothing has passed.
    """
    total = sum(counts.values())
    return counts.get(Outcome.PASSED, 0) / total if total else 0.0


def is_counted(task: EvalTaskResult) -> bool:
    """Tell whether a task belongs into a pass rate, as `scouter.evaluate.outcome` says."""
    return is_in_rate(task.outcome, task.reason)


def rate_of(tasks: Iterable[EvalTaskResult]) -> float:
    """Compute the `pass_rate` of those tasks that count."""
    return pass_rate(Counter(task.outcome for task in tasks if is_counted(task)))
