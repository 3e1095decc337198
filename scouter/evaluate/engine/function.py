"""Tasks that call a function, compiled: a user's own, one that asks a judge, or a check."""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.evaluate.engine.asking_task import Asking, AskingTask
from scouter.evaluate.engine.checks import GROUP, check_names, run_check
from scouter.evaluate.engine.compiled_task import (
    MAX_MESSAGE,
    CompiledTask,
    Measured,
    Metric,
    Subject,
    compile_metric,
)
from scouter.evaluate.engine.doubt import doubting_growth
from scouter.evaluate.judge.ask import Reply
from scouter.evaluate.judge.port import (
    JudgeError,
    JudgeReply,
    JudgeRequest,
    JudgeUsage,
    Message,
    sum_of,
)
from scouter.evaluate.judge.shorten import JudgeExchange, shorten
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.function import CodeTask, FunctionTask
from scouter.model.json_value import to_json_value
from scouter.model.span import Span

_NO_SCORE = "its function gave no score"


def compile_function(task: FunctionTask, subject: Subject) -> "CompiledTask | AskingFunction":
    """Turn a function task into a function from record to result, or into one that asks.

    Raises:
        ConfigError: A pattern or a template that can never work.
    """
    metric = Metric.of(subject)
    if task.prompt is not None:
        return AskingFunction(spec=metric.spec, task=task, metric=metric)

    def run(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        del spans, base
        try:
            given = task.function(dict(scope) if isinstance(scope, dict) else scope)
            return result_of(task, metric, given, scope)
        except Exception as error:  # noqa: BLE001 — a user's function may raise anything
            return raised(task, metric.spec, error)

    return CompiledTask(run, metric.spec)


def result_of(
    task: FunctionTask, metric: Metric, found: object, scope: JsonValue
) -> EvalTaskResult:
    """Make the result of what a function gave.

    Args:
        task: The task.
        metric: The comparison of its score.
        found: The number, the object that has it, or None.
        scope: What the function read.

    Raises:
        DataError: It is none of these.
    """
    given = to_json_value(found)
    score = _score_in(given, task.id)
    actual = given if isinstance(given, dict) else None
    if score is not None:
        return metric.result(Measured(score=score, actual=actual), scope)
    why = None if actual is None else actual.get("reason")
    return EvalTaskResult(
        metric.spec, Outcome.SKIPPED, Reason.NOT_APPLICABLE, task.expected_value, None,
        shorten(why, MAX_MESSAGE) if isinstance(why, str) and why else _NO_SCORE,
    )  # fmt: skip


def raised(task: FunctionTask, spec: TaskSpec, error: Exception) -> EvalTaskResult:
    """Make the result of a function that raised."""
    if isinstance(error, TaskFault | JudgeError):
        reason, text = error.reason, error.message
    else:
        reason, text = Reason.TYPE, f"{type(error).__name__}: {error}"
    outcome = Outcome.SKIPPED if reason is Reason.BUDGET else Outcome.ERRORED
    return EvalTaskResult(
        spec, outcome, reason, task.expected_value, None, shorten(text, MAX_MESSAGE)
    )


def score_key(given: dict[str, JsonValue], task_id: str) -> str:
    """Find the key of the score in what a function gave.

    Raises:
        DataError: There is none; names the keys.
    """
    named = (key for key in given if key.lower() == task_id)
    key = next(named, "score")
    if key not in given:
        raise DataError(f"it gave the keys {', '.join(given)}; expected {task_id!r}")
    return key


def _score_in(given: JsonValue, task_id: str) -> float | None:
    key = score_key(given, task_id) if isinstance(given, dict) else ""
    value = given[key] if isinstance(given, dict) else given
    if value is None:
        return None
    if not isinstance(value, bool | int | float) or not math.isfinite(value):
        raise DataError(f"{repr(key) if key else 'it'} is no number but {type(value).__name__}")
    return float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingFunction(AskingTask):
    """Runs the function of a task until it has a score, and puts its questions."""

    task: FunctionTask
    metric: Metric

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
                requests = cast("Sequence[JudgeRequest]", steps.send(replies))
                replies = yield [replace(each, record_uid=self.record_uid) for each in requests]
                self._note(requests, replies)
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    def _note(self, requests: Sequence[JudgeRequest], replies: Sequence[Reply]) -> None:
        if self.question is None and requests:
            self.question = requests[0].messages
        self.usages += [each.taken for each in replies]
        for each in replies:
            if isinstance(each, JudgeReply):
                self.answer = each.response

    def added_to(self, result: EvalTaskResult) -> EvalTaskResult:
        """Add the first question, the last answer, and the cost to a result."""
        if self.question is None:
            return result
        return result.using(sum_of(self.usages), JudgeExchange.of(self.question, self.answer))


def compile_code(task: CodeTask, subject: Subject) -> CompiledTask:
    """Turn a code task into a function from record to result.

    With missing spans the task is errored: nobody knows what the check would say of them.

    Raises:
        ConfigError: There is no such check; names those that there are.
    """
    known = check_names()
    if task.check not in known:
        found = f"there are {', '.join(map(repr, known))}" if known else "there is none"
        raise ConfigError(
            f"check: no check is called {task.check!r}, {found}; checks are entry points of the "
            f"group {GROUP!r} of installed packages, and offline functions of --checks MODULE"
        )

    def measure(scope: JsonValue, spans: SpanTree | None, _: JsonValue) -> Measured:
        seen = _spans_of(spans) if task.reads_spans else ()
        value, message = run_check(task.check, scope, seen, task.timeout_s)
        return Measured(score=float(value), detail=message)

    compiled = compile_metric(subject, measure)
    return doubting_growth(compiled, lambda _: False) if task.reads_spans else compiled


def _spans_of(tree: SpanTree | None) -> tuple[Span, ...]:
    if tree is not None and tree.unread:
        raise TaskFault(Reason.LIMIT, tree.unread)
    if not tree:
        raise TaskFault(Reason.NO_SPANS, "the record's trace has no spans here")
    return tree.spans
