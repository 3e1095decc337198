"""Evaluations of records whose spans memory let go before their trace was settled."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from collector.pipeline.join.joined_trace import EarlyResult
from collector.pipeline.join.ready import Ready
from collector.store.rows import EvaluationRow, RecordRow
from collector.worker.kept_values import Keeper, most_characters
from collector.worker.profiles import RegisteredProfile
from collector.worker.records import (
    Judged,
    TraceView,
    eval_record,
    evaluation_of,
    resource_of,
    run,
    session_of_row,
    trees_of,
)
from scouter.evaluate.engine.batch import evaluate_in_turn, never
from scouter.evaluate.results.record_result import RecordResult

_RESULT_BYTES: Final = 200
_TASK_BYTES: Final = 150
_IS_CUT: Final = sys.maxsize
"""Characters of a value, where all were cut before."""
_SMALL: Final = frozenset({int, float, bool})


def judge(
    items: Sequence[Ready],
    registered: RegisteredProfile,
    traces: Mapping[str, TraceView],
    *,
    seq: int,
    now_ns: int,
    is_late: Callable[[], bool] = never,
) -> list[EvaluationRow]:
    """Run a profile's tasks on records; of those with an early result that stands."""
    missing = [ready.record for ready in items if ready.early is None]
    results = run(registered.plan, missing, traces, registered.ways, is_late=is_late)
    found: list[EvaluationRow] = []
    for ready in items:
        if ready.early is not None:
            made, resource = Judged.of(ready.early.result, _IS_CUT), ready.early.resource
        elif (result := next(results, None)) is not None:
            made, resource = result, resource_of(ready.record, registered, traces)
        else:  # it became late
            break
        found.append(evaluation_of(ready, registered, resource, made, seq=seq, now_ns=now_ns))
    return found


def judge_early(
    records: Sequence[RecordRow],
    registered: RegisteredProfile,
    traces: Mapping[str, TraceView],
    is_late: Callable[[], bool] = never,
) -> list[EarlyResult]:
    """Run a profile's tasks on records that still wait, in their order.

    Their values are cut to what an evaluation keeps, as soon as they are there.

    Args:
        records: Whole records.
        registered: The profile that judges them.
        traces: By trace id.
        is_late: Says that no further record is to be begun.

    Returns:
        Results of the first records; of all, if it did not become late.
    """
    plan = registered.plan
    most = most_characters(len(plan.tasks))
    results: Iterable[RecordResult]
    if plan.has_judges:
        results = (made.result for made in run(plan, records, traces, is_late=is_late))
    else:  # as the engine has them: the store's rows of them are larger, and made in time
        trees = trees_of(plan, records, traces)
        named = list(map(eval_record, records))
        results = evaluate_in_turn(plan, named, trees, registered.ways, is_late)
    found: list[EarlyResult] = []
    for record, whole in zip(records, results, strict=False):  # fewer where it became late
        result = Keeper(most).result(whole)
        resource = resource_of(record, registered, traces)
        size_bytes = _rough_bytes(result)
        early = EarlyResult(
            result=result,
            resource=resource,
            size_bytes=size_bytes,
            session_id=session_of_row(record, traces),
        )
        found.append(early)
    return found


def _rough_bytes(result: RecordResult) -> int:
    """About what a result takes in memory."""
    size = _RESULT_BYTES
    for task in result.tasks:
        size += _TASK_BYTES
        for value in (task.actual, task.expected, task.given_message):
            if value is not None and type(value) not in _SMALL:
                size += len(value) if type(value) is str else len(repr(value))
    return size
