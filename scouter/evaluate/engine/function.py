"""Function tasks, compiled: the number that a function gives, or the reason why there is none."""

import math

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.compiled_task import MAX_MESSAGE, CompiledTask, Subject
from scouter.evaluate.engine.metric import Measured, Metric
from scouter.evaluate.judge.shorten import shorten
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
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

    def result(outcome: Outcome, reason: Reason, message: str) -> EvalTaskResult:
        return EvalTaskResult(metric.spec, outcome, reason, subject.expected, None, message)

    def run(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        del spans, base
        try:
            given = to_json_value(task.function(dict(scope) if isinstance(scope, dict) else scope))
            score = _score_in(given, task.id)
        except Exception as error:  # noqa: BLE001 — a user's function may raise anything
            text = shorten(f"{type(error).__name__}: {error}", MAX_MESSAGE)
            return result(Outcome.ERRORED, Reason.TYPE, text)
        if score is None:
            return result(Outcome.SKIPPED, Reason.NOT_APPLICABLE, _NO_SCORE)
        actual = given if isinstance(given, dict) else None
        return metric.result(Measured(score=score, actual=actual), scope)

    return CompiledTask(run, metric.spec)


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
