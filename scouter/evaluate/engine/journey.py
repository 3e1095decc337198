"""A journey as a compiled task: its measure is the score."""

from collections.abc import Sequence
from typing import Any, Final, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.compiled_task import CompiledTask, Subject
from scouter.evaluate.engine.doubt import doubting_growth
from scouter.evaluate.engine.metric import Measured, compile_metric
from scouter.evaluate.journey.case import Case
from scouter.evaluate.journey.fuzzy import FuzzyChain
from scouter.evaluate.journey.message import (
    TEXT,
    JourneyMessage,
    messages_of_spans,
    read_messages,
)
from scouter.evaluate.journey.result import JourneyResult
from scouter.evaluate.journey.routing import Agents
from scouter.evaluate.journey.sound import calls_of, evaluate_soundly
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.responses.read import work_of_spans
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.journey import JourneyTask

MOST_PAIRS: Final = 20_000
"""Goals times calls and texts that are compared."""
_GROWING: Final = frozenset(("success", "completion", "recall"))
"""Measures that more calls cannot lower."""


def compile_journey(task: JourneyTask, subject: Subject) -> CompiledTask:
    """Turn a journey task into a function from record to result."""
    case = task.case
    path = None if task.messages is None else Path(task.messages)

    def measure(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> Measured:
        if path is None:
            work_of_spans(spans)  # says what is wrong with the spans
            messages = messages_of_spans(spans.spans if spans else ())
        else:
            messages = _read(path, scope)
        _check_size(case, messages)
        chain = FuzzyChain(None, None, task.similarity_threshold, task.enable_fuzzy_matching)
        return _measured(task, evaluate_soundly(case, messages, None, chain, Agents()))

    compiled = compile_metric(subject, measure)
    if path is not None:
        return compiled
    is_steady = task.measure in _GROWING and not case.of_type(TEXT)

    def is_settled(result: EvalTaskResult) -> bool:
        """Calls that are not here cannot take back what is met; the last answer may be another."""
        return is_steady and result.score == 1

    return doubting_growth(compiled, is_settled)


def _read(path: Path, scope: JsonValue) -> Sequence[JourneyMessage]:
    found = path.get(scope)
    if not isinstance(found, list):
        raise TaskFault(Reason.TYPE, f"path {path.text!r}: expected a list of messages")
    try:
        return read_messages(cast("list[Any]", found))
    except DataError as error:
        raise TaskFault(Reason.TYPE, f"path {path.text!r}: {error}") from error


def _check_size(case: Case, messages: Sequence[JourneyMessage]) -> None:
    """Charge for the comparisons before they are made."""
    texts = sum(message.type == TEXT for message in messages)
    pairs = len(case.goals) * (len(calls_of(messages)) + texts)
    if pairs > MOST_PAIRS:
        raise TaskFault(
            Reason.LIMIT,
            f"{len(case.goals)} goals and the calls and texts of this conversation make "
            f"{pairs:,} pairs; at most {MOST_PAIRS:,} are compared",
        )


def _measured(task: JourneyTask, result: JourneyResult) -> Measured:
    value = {
        "success": result.success,
        "completion": result.completion,
        "recall": result.recall,
        "precision": result.precision,
        "parameter_f1": result.parameter_f1,
    }[task.measure]
    if result.success is None:
        raise TaskFault(Reason.TYPE, f"undecided: {'; '.join(result.problems)}")
    if value is None:
        raise TaskFault(Reason.TYPE, f"{task.measure} does not apply: no goal calls a tool")
    return Measured(score=float(value), told=result.message)
