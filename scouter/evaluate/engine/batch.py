"""Run a plan on many records, a task at a time over a stretch of them.

The same results as `evaluate_record` one by one, which a property test holds it to. Where every
value of a stretch can be read and compared without a fault, reading and comparing are loops inside
the interpreter; where one cannot, the stretch is halved until the fault is alone.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import repeat
from operator import itemgetter
from typing import Final, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.compiled_task import PlainComparison, Run
from scouter.evaluate.engine.context import are_plain, plain_context
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import Plan
from scouter.evaluate.responses.parse import shared_responses
from scouter.evaluate.results.columns import RecordColumns, TaskColumn
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.record import EvalRecord

_STRETCH: Final = 512
"""Records that are worked on together; their contexts stay in the processor's cache."""
_SHORT_STRETCH: Final = 8
"""Records that are worked on together where a task reads spans or is run record by record.

That takes some milliseconds per record, so a longer stretch gains little; a caller that is late has
to wait for the end of a stretch, and what tasks make of their records is in memory until then.
"""
_ALONE: Final = 16
"""A stretch this short is evaluated record by record: columns cost more than they save."""

Keys = tuple[str, ...]


def never() -> bool:
    """Say that it is not late: all records are judged."""
    return False


def evaluate_batch(
    plan: Plan,
    records: Sequence[EvalRecord],
    trees: Mapping[str, SpanTree],
) -> RecordColumns:
    """Judge many records by all tasks of a plan.

    Args:
        plan: From `compile_plan`; without judge tasks.
        records: Not changed; their results keep this order.
        trees: Spans by trace id; each record sees those of its own trace.

    Returns:
        One result per record. A record's duration is its part of its stretch's.

    Cost: linear in records.
    """
    columns = _columns(plan)
    for stretch in _stretches(records):
        seen = [trees.get(record.trace_id or "") for record in stretch]
        if not _judged_together(plan, columns, stretch, seen):
            for record, tree in zip(stretch, seen, strict=True):
                columns.append(evaluate_record(plan, record, tree))
    return columns


def evaluate_in_turn(
    plan: Plan,
    records: Sequence[EvalRecord],
    trees: Mapping[str, SpanTree],
    is_late: Callable[[], bool] = never,
) -> Iterator[RecordResult]:
    """Judge as `evaluate_batch` does, for a caller who lets go of each result before the next.

    Then no more is in memory than the results of one record where tasks make texts of its values,
    of eight where they make lists of them, and of some hundred where they only compare them.

    Args:
        plan: From `compile_plan`; without judge tasks.
        records: Not changed; their results come in this order.
        trees: Spans by trace id; each record sees those of its own trace.
        is_late: Ends it, but for the first records. Asked only where nothing is thrown away: what
            was worked out is given out.
    """
    has_begun = False
    is_quick = not plan.reads_spans and all(each is not None for each in plan.plain)
    for stretch in _stretches(records, _STRETCH if is_quick else _SHORT_STRETCH):
        if has_begun and is_late():
            return
        seen = [trees.get(record.trace_id or "") for record in stretch]
        columns = _columns(plan)
        if _judged_together(plan, columns, stretch, seen):
            yield from columns
        else:
            del columns
            for at, result in enumerate(map(evaluate_record, repeat(plan), stretch, seen), 1):
                yield result
                if at < len(stretch) and is_late():
                    return
        has_begun = True


def _columns(plan: Plan) -> RecordColumns:
    return RecordColumns(plan.specs, [task.expected_value for task in plan.tasks])


def _stretches(
    records: Sequence[EvalRecord], size: int = _STRETCH
) -> Iterator[Sequence[EvalRecord]]:
    return (records[start : start + size] for start in range(0, len(records), size))


def _judged_together(
    plan: Plan,
    columns: RecordColumns,
    stretch: Sequence[EvalRecord],
    trees: Sequence[SpanTree | None],
) -> bool:
    """Evaluate a stretch by column; False, and nothing is taken, where it has to be one by one."""
    began = time.perf_counter_ns()
    if not plan.is_flat or plan.makes_texts:
        return False
    if len(stretch) <= _ALONE and not plan.reads_spans:
        return False
    contexts = _contexts(stretch)
    if contexts is None:
        return False
    followed: dict[Keys, list[JsonValue]] = {(): contexts}
    with shared_responses() if plan.shares_responses else nullcontext():
        for run, plain, column in zip(plan.runs, plan.plain, columns.tasks, strict=True):
            if plain is None:
                _one_by_one(column, run, contexts, trees)
            elif not _compare(column, plain, followed):
                _halves(column, run, plain, contexts, trees)
    columns.extend(stretch, (time.perf_counter_ns() - began) // len(stretch))
    return True


def _contexts(records: Sequence[EvalRecord]) -> list[JsonValue] | None:
    """The plain contexts of a stretch; None if one has no JSON form."""
    contexts = [record.context for record in records]
    if are_plain(contexts):
        return contexts
    try:
        return list(map(plain_context, records))
    except DataError:
        return None


def _one_by_one(
    column: TaskColumn,
    run: Run,
    contexts: list[JsonValue],
    trees: Sequence[SpanTree | None],
) -> None:
    for context, tree in zip(contexts, trees, strict=True):
        column.append(run(context, tree, context))


def _halves(
    column: TaskColumn,
    run: Run,
    plain: PlainComparison,
    contexts: list[JsonValue],
    trees: Sequence[SpanTree | None],
) -> None:
    """Fill a column with the results of a stretch in which there is a fault."""
    if len(contexts) <= _ALONE:
        _one_by_one(column, run, contexts, trees)
        return
    middle = len(contexts) // 2
    for half in (slice(None, middle), slice(middle, None)):
        if not _compare(column, plain, {(): contexts[half]}):
            _halves(column, run, plain, contexts[half], trees[half])


def _compare(
    column: TaskColumn, plain: PlainComparison, followed: dict[Keys, list[JsonValue]]
) -> bool:
    """Compare the values of a stretch; False, and nothing is taken, where one has a fault.

    Args:
        column: Column of the task.
        plain: The task.
        followed: Values of paths in each of the contexts; `()` are the contexts. Paths with a
            common beginning share it.
    """
    try:
        values = _follow(plain.keys, followed)
        measure = plain.comparison.measure
        actuals = values if measure is None else list(map(measure, values))
        codes = bytes(map(plain.comparison.check, actuals))
    except Exception:  # noqa: BLE001 — the task's own way finds out whose fault it is
        return False
    column.extend(codes, actuals)
    return True


def _follow(keys: Keys, followed: dict[Keys, list[JsonValue]]) -> list[JsonValue]:
    """Follow plain keys in all contexts.

    Raises:
        KeyError: A key is missing somewhere.
        TypeError: A key meets something else than an object.
    """
    for length in range(1, len(keys) + 1):
        way = keys[:length]
        if way not in followed:
            parents = cast("list[dict[str, JsonValue]]", followed[way[:-1]])
            followed[way] = list(map(itemgetter(way[-1]), parents))
    return followed[keys]
