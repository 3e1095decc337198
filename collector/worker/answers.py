"""The next revision of a pending evaluation, from a judge's answers."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from collector.store.rows import EvaluationRow, TaskRow
from collector.worker.records import follows
from scouter.evaluate.results.record_result import record_outcome
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.ids import uuid7


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Next revision of an evaluation, once it is certain that none is later."""

    before: EvaluationRow
    """The evaluation with pending tasks."""
    tasks: tuple[TaskRow, ...]
    """All of its tasks, in the same order."""
    read_seq: int
    """Last commit before the evaluation and its record were read; later erasures are not in it."""
    duration_ns: int
    """Nanoseconds that the question to the judge took."""

    @property
    def key(self) -> tuple[str, str]:
        """Space and uid."""
        return self.before.space, self.before.record_uid

    def revision(self, now_ns: int) -> EvaluationRow:
        """The next evaluation: as the one before, but for what was pending."""
        before = self.before
        return replace(
            before,
            evaluation_id=uuid7(now_ns),
            # Rows have outcomes as results have them.
            outcome=record_outcome(cast(Iterable[EvalTaskResult], self.tasks)),
            evaluated_ns=now_ns,
            duration_ns=before.duration_ns + self.duration_ns,
            **follows(before),
            tasks=self.tasks,
        )
