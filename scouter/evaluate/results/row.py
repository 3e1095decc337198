"""One record of an evaluation, as readers of results see it."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.annotations import EMPTY as NO_ANNOTATIONS
from scouter.evaluate.results.annotations import RecordAnnotations, Vector
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.task_result import EvalTaskResult, Window

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(slots=True, eq=False, repr=False)
class EvalSet:
    """The task results of one record, and their counts.

    `total_tasks`, `passed_tasks`, `failed_tasks` and `pass_rate` leave gates out; an errored task
    counts as failed, a skipped one counts for nothing.
    """

    _record: RecordResult
    _window: Window | None = None
    """Begin and end of the evaluation, where known."""

    @property
    def records(self) -> tuple[EvalTaskResult, ...]:
        """One result per task, in the tasks' order; skipped ones too.

        They know their record and when they were evaluated. `RecordResult.tasks` are the same
        without that, and quicker to read.
        """
        uid, window = self._record.record_uid, self._window
        return tuple([task.seen_in(uid, window) for task in self._record.tasks])

    def _counted(self) -> list[EvalTaskResult]:
        return [
            task
            for task in self._record.tasks
            if not task.condition and task.outcome is not Outcome.SKIPPED
        ]

    @property
    def record_uid(self) -> str:
        """The record's key."""
        return self._record.record_uid

    @property
    def total_tasks(self) -> int:
        """Tasks that ran and are no gates."""
        return len(self._counted())

    @property
    def passed_tasks(self) -> int:
        """Number of passed tasks, gates left out."""
        return sum(task.passed for task in self._counted())

    @property
    def failed_tasks(self) -> int:
        """Number of tasks that failed or errored, gates left out."""
        return sum(not task.passed for task in self._counted())

    @property
    def pass_rate(self) -> float:
        """Passed of total, in [0, 1]; 0.0 where no task ran."""
        counted = self._counted()
        return sum(task.passed for task in counted) / len(counted) if counted else 0.0

    @property
    def duration_ms(self) -> int:
        """Length of the record's evaluation, in whole milliseconds."""
        return self._record.duration_ns // 1_000_000

    @property
    def created_at(self) -> datetime.datetime:
        """Time at which the record was made, in UTC."""
        return _EPOCH + datetime.timedelta(microseconds=self._record.created_ns // 1000)

    def __repr__(self) -> str:
        return f"EvalSet({self.passed_tasks} of {self.total_tasks} passed)"


@dataclass(frozen=True, slots=True)
class EvalResultSet:
    """The results of some records, without a dataset around them: those of `compute_drift`."""

    records: tuple[EvalSet, ...]
    """One for each record, in the records' order."""

    def record(self, id: str) -> EvalSet | None:
        """Find the results of a record by its uid; None if there are none.

        Cost: linear.
        """
        return next((found for found in self.records if found.record_uid == id), None)


@dataclass(slots=True, eq=False, repr=False)
class ResultRow:
    """One record of an evaluation."""

    record: RecordResult
    scenario_id: str | None = None
    """The scenario that the record came from, in a replay."""
    attempt: int = 0
    """Number of the attempt at the scenario, from 0."""
    annotations: RecordAnnotations = NO_ANNOTATIONS
    """Annotations that an `EvaluationConfig` asked for."""
    window: Window | None = None
    """Begin and end of the evaluation, where known."""

    @property
    def record_uid(self) -> str:
        """The record's key."""
        return self.record.record_uid

    @property
    def record_id(self) -> str:
        """The user's name for the record, maybe empty."""
        return self.record.record_id

    @property
    def outcome(self) -> Outcome:
        """Outcome of the record over all of its tasks."""
        return self.record.outcome

    @property
    def eval_set(self) -> EvalSet:
        """Task results and counts."""
        return EvalSet(self.record, self.window)

    @property
    def success(self) -> bool:
        """True if every task could be decided, passed or not."""
        return not self.record.has_error

    @property
    def error_message(self) -> str | None:
        """Message of the first errored task, if there is one."""
        for task in self.record.tasks:
            if task.outcome is Outcome.ERRORED:
                return f"task {task.task_id!r}: {task.message}"
        return None

    @property
    def embeddings(self) -> Mapping[str, Vector]:
        """Vector of the embedder, by target."""
        return self.annotations.embeddings

    @property
    def mean_embeddings(self) -> Mapping[str, float]:
        """Mean of the vector's components, by target."""
        return self.annotations.mean_embeddings

    @property
    def similarity_scores(self) -> Mapping[str, float]:
        """Cosine similarity, in [-1, 1], by pair of targets."""
        return self.annotations.similarity_scores

    @property
    def task_count(self) -> int:
        """Tasks that ran, gates included; those that a closed gate skipped are not counted."""
        return sum(task.outcome is not Outcome.SKIPPED for task in self.record.tasks)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.record!r})"
