"""Function tasks, compiled: the number that a function gives, or the reason why there is none."""

import math

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.compiled_task import MAX_MESSAGE, CompiledTask, Subject
from scouter.evaluate.engine.metric import Measured, Metric
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.judge.shorten import shorten
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.function import FunctionTask
from scouter.model.json_value import to_json_value

_NO_SCORE = "its function gave no score"


def compile_function(task: FunctionTask, subject: Subject) -> CompiledTask:
    """Turn a function task into a function from record to result.

    Args:
        task: The task.
        subject: Fields that its results share.

    Raises:
        ConfigError: A pattern or a template that can never work.
    """
    metric = Metric.of(subject)

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
