"""Function tasks that ask: questions of the user's own function, and the score that it gives."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, cast

from pydantic import JsonValue

from scouter.evaluate.engine.asking_task import Asking, AskingTask
from scouter.evaluate.engine.compiled_task import Subject
from scouter.evaluate.engine.function import raised, result_of
from scouter.evaluate.engine.metric import Metric
from scouter.evaluate.judge.ask import Reply
from scouter.evaluate.judge.port import JudgeReply, JudgeRequest, Message
from scouter.evaluate.judge.talk import JudgeTalk
from scouter.evaluate.judge.usage import JudgeUsage, sum_of
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.function import FunctionTask


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingFunction(AskingTask):
    """Runs the function of a task until it has a score, and puts its questions."""

    task: FunctionTask
    metric: Metric

    @staticmethod
    def of(task: FunctionTask, subject: Subject) -> "AskingFunction":
        """Prepare for many records.

        Args:
            task: The task.
            subject: Fields that the task's results share.

        Raises:
            ConfigError: A pattern or a template that can never work.
        """
        metric = Metric.of(subject)
        return AskingFunction(spec=metric.spec, task=task, metric=metric)

    def ask(
        self, scope: JsonValue, record_uid: str, base: JsonValue, spans: SpanTree | None
    ) -> Asking:
        """Run the function about one record; what it raises is the task's error."""
        del base, spans
        said = _Said(record_uid)
        try:
            given = self.task.function(dict(scope) if isinstance(scope, dict) else scope)
            if isawaitable(given):
                given = yield from said.put(given.__await__())
            result = result_of(self.task, self.metric, given, scope)
        except Exception as error:  # noqa: BLE001 — a user's function may raise anything
            result = raised(self.task, self.spec, error)
        return said.added_to(result), result.actual


@dataclass(slots=True)
class _Said:
    """The questions about one record, and what became of them."""

    record_uid: str
    question: Sequence[Message] | None = None
    """The first one."""
    answer: JsonValue = None
    """The last one."""
    usages: list[JudgeUsage] = field(default_factory=list[JudgeUsage])

    def put(
        self, steps: Generator[Any, Any, object]
    ) -> Generator[Sequence[JudgeRequest], Sequence[Reply], object]:
        """Put the questions that a function waits for, until it ends."""
        replies: Sequence[Reply] | None = None
        try:
            while True:
                asked = cast("Sequence[JudgeRequest]", steps.send(replies))
                replies = yield [replace(each, record_uid=self.record_uid) for each in asked]
                self._note(asked, replies)
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    def _note(self, asked: Sequence[JudgeRequest], replies: Sequence[Reply]) -> None:
        if self.question is None and asked:
            self.question = asked[0].messages
        self.usages += [each.taken for each in replies]
        for each in replies:
            if isinstance(each, JudgeReply):
                self.answer = each.response

    def added_to(self, result: EvalTaskResult) -> EvalTaskResult:
        """Add the first question, the last answer, and the cost to a result."""
        if self.question is None:
            return result
        return result.using(sum_of(self.usages), JudgeTalk.of(self.question, self.answer))
