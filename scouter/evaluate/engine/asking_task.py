"""Compiled tasks that ask a judge: questions come out, replies go in, an outcome ends it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias, TypeVar

from pydantic import JsonValue

from scouter.evaluate.engine.compiled_task import errored
from scouter.evaluate.judge.port import NO_JUDGE, JudgeError, JudgeReply, JudgeRequest
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.paths.templates import has_template
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.function import FunctionTask
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.report import ReportTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask

Reply: TypeAlias = JudgeReply | JudgeError
ResultAndAnswer: TypeAlias = tuple[EvalTaskResult, JsonValue]
"""A task's result, and the answer that dependent tasks read."""
Asking: TypeAlias = Generator[Sequence[JudgeRequest], Sequence[Reply], ResultAndAnswer]
"""Yields questions that can be put at the same time, gets their replies in the same order."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingTask(ABC):
    """A task that is decided by the answers of a judge."""

    spec: TaskSpec
    task: LLMJudgeTask | ReportTask | TrajectoryTask | FunctionTask | JourneyTask

    @property
    def max_retries(self) -> int:
        """Most further tries of a question where the provider failed."""
        return self.task.max_retries

    @abstractmethod
    def ask(
        self, scope: JsonValue, record_uid: str, base: JsonValue, spans: SpanTree | None
    ) -> Asking:
        """Ask about one record until there is an outcome; may end without a question.

        Args:
            scope: The record's context and what the task depends on; anything but an object can
                be read as `${context}`.
            record_uid: Key of the record.
            base: The record's own context.
            spans: Those of the record's trace, as far as they are here.

        Raises:
            TaskFault: Something to be asked about is not there; raised before anything is asked.
        """

    def basis(self, scope: JsonValue, base: JsonValue) -> Sequence[JsonValue]:
        """All that an outcome follows from, beside the task, the questions and the answers."""
        del base
        return [scope] if has_template(self.task.expected_value) else []

    def is_sampled(self, record_uid: str) -> bool:
        """Tell whether the task judges a record; the same in every process and at any time."""
        rate = self.task.sample_rate
        if rate >= 1.0:
            return True
        key = f"{len(record_uid)}:{record_uid}{self.task.id}".encode("utf-8", "surrogatepass")
        drawn = int.from_bytes(blake2b(key, digest_size=8).digest())
        return drawn < rate * 2.0**64

    def not_sampled(self) -> EvalTaskResult:
        """The result of a record that is not among those judged."""
        rate = self.task.sample_rate
        text = f"not among the {rate:.3%} of the records that this task judges"
        if not rate:
            text = "judges are not asked about this record"
        return self._skipped(Reason.SAMPLED, text)

    def fault(self, error: Exception) -> EvalTaskResult:
        """The result where the question could not even be put."""
        return errored(self.spec, self.task.expected_value, None, error)

    def run(self, scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        """The result where nobody is there to answer."""
        return self._errored(Reason.PROVIDER, NO_JUDGE)

    def _errored(self, reason: Reason, message: str) -> EvalTaskResult:
        return EvalTaskResult(
            self.spec, Outcome.ERRORED, reason, self.task.expected_value, None, message
        )

    def _skipped(self, reason: Reason, message: str) -> EvalTaskResult:
        return EvalTaskResult(
            self.spec, Outcome.SKIPPED, reason, self.task.expected_value, None, message
        )


def together(
    asking: Mapping[K, Asking], fault: Callable[[K, Exception], EvalTaskResult]
) -> Generator[Sequence[tuple[K, JudgeRequest]], Sequence[Reply], dict[K, ResultAndAnswer]]:
    """Let several tasks ask together, until each has its outcome.

    A task that asks more than once does so in rounds. In each round, the questions of all tasks
    that are not done are put at the same time.

    Args:
        asking: By a key of each.
        fault: The result of one that raises.

    Returns:
        An outcome for each key.
    """
    outcomes: dict[K, ResultAndAnswer] = {}
    waiting: dict[K, Sequence[JudgeRequest]] = {}

    def go_on(key: K, replies: Sequence[Reply] | None) -> None:
        waiting.pop(key, None)
        try:
            steps = asking[key]
            waiting[key] = next(steps) if replies is None else steps.send(replies)
        except StopIteration as end:
            outcomes[key] = end.value
        except Exception as error:  # noqa: BLE001 — one never touches another
            outcomes[key] = fault(key, error), None

    for key in asking:
        go_on(key, None)
    while waiting:
        counts = [(key, len(requests)) for key, requests in waiting.items()]
        replies = yield [(key, request) for key, each in waiting.items() for request in each]
        given = iter(replies)
        for key, count in counts:
            go_on(key, [next(given) for _ in range(count)])
    return outcomes
