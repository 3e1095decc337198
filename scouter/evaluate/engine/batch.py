"""Run a plan on many records, a task at a time over a stretch of them."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, repeat
from operator import itemgetter
from typing import Final, cast, overload

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.compiled_task import PlainComparison, Run
from scouter.evaluate.engine.context import are_plain, plain_context
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import Plan
from scouter.evaluate.outcome import OUT_OF_RATE, Outcome, Reason
from scouter.evaluate.responses.parse import shared_responses
from scouter.evaluate.results.record_result import RecordResult, Records
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.record import EvalRecord

OUTCOMES: Final = (Outcome.FAILED, Outcome.PASSED, Outcome.ERRORED, Outcome.SKIPPED)
"""Outcomes by their code; the first two are False and True, as a comparison gives them."""

_FAILED, _PASSED, _ERRORED, _SKIPPED = range(4)
_CODES: Final = {str(outcome): code for code, outcome in enumerate(OUTCOMES)}
_outcome: Final = OUTCOMES.__getitem__

Rest = tuple[Reason | None, JsonValue, str | None, float | None]
"""Reason, expected value, message and score of a result that do not follow from its column."""


class TaskColumn:
    """All results of one task, in the records' order.

    Args:
        spec: Fields that the results share.
        expected: The expected value, where it is the same for all.
    """

    __slots__ = ("actuals", "codes", "expected", "rest", "span_ids", "spec")

    def __init__(self, spec: TaskSpec, expected: JsonValue) -> None:
        self.spec = spec
        self.expected = expected
        self.codes = bytearray()
        """One index into `OUTCOMES` per record."""
        self.actuals: list[JsonValue] = []
        self.rest: dict[int, Rest] = {}
        """Further fields of a result beside outcome and actual value, by row; most have none."""
        self.span_ids: list[tuple[str, ...]] = []
        """One item per record up to the last that has some; none for tasks that read no spans."""

    def append(self, result: EvalTaskResult) -> None:
        """Take the next record's result."""
        message = result.given_message
        reason, score = result.reason, result.stated_score
        if (
            message is not None
            or reason is not None
            or score is not None
            or result.expected is not self.expected
        ):
            self.rest[len(self.codes)] = (reason, result.expected, message, score)
        if result.span_ids:
            if len(self.span_ids) < len(self.codes):
                self._fill_span_ids()
            self.span_ids.append(result.span_ids)
        self.codes.append(_CODES[result.outcome])
        self.actuals.append(result.actual)

    def extend(self, codes: bytes, actuals: list[JsonValue]) -> None:
        """Take results of the next records that were compared with the shared expected value."""
        self.codes += codes
        self.actuals += actuals

    def result(self, row: int) -> EvalTaskResult:
        """Make the object for one record."""
        reason, expected, message, score = self.rest.get(row, (None, self.expected, None, None))
        span_ids = self.span_ids[row] if row < len(self.span_ids) else ()
        outcome = OUTCOMES[self.codes[row]]
        actual = self.actuals[row]
        made = EvalTaskResult(self.spec, outcome, reason, expected, actual, message, span_ids)
        return made if score is None else made.scored(score)

    def results(self) -> Iterator[EvalTaskResult]:
        """Make the objects for all records, one after the other."""
        if self.rest:
            return map(self.result, range(len(self.codes)))
        return map(
            EvalTaskResult,
            repeat(self.spec),
            map(_outcome, self.codes),
            repeat(None),
            repeat(self.expected),
            self.actuals,
            repeat(None),
            chain(self.span_ids, repeat(())),
        )

    def _fill_span_ids(self) -> None:
        """Let the span ids be as long as the column, for the next record's to be added."""
        missing = len(self.codes) - len(self.span_ids)
        if missing:
            self.span_ids += repeat((), missing)


class RecordColumns(Records):
    """The results of a batch; a sequence whose items are made when they are read.

    Args:
        specs: One per task, in the tasks' order.
        expected: The tasks' expected values.
    """

    def __init__(self, specs: Sequence[TaskSpec], expected: Sequence[JsonValue]) -> None:
        self.tasks = tuple(map(TaskColumn, specs, expected))
        """One column per task."""
        self._parts = [(c, c.spec, c.expected, c.codes, c.actuals) for c in self.tasks]
        self._codes = bytearray()
        """`record_outcome` of each record, an index into `OUTCOMES`."""
        self._uids: list[str] = []
        self._ids: list[str] = []
        self._sessions: list[str] = []
        self._traces: list[str | None] = []
        self._created: list[int] = []
        self._durations: list[int] = []

    def append(self, result: RecordResult) -> None:
        """Take one record's results, one per task in the tasks' order."""
        self._uids.append(result.record_uid)
        self._ids.append(result.record_id)
        self._sessions.append(result.session_id)
        self._traces.append(result.trace_id)
        self._created.append(result.created_ns)
        self._durations.append(result.duration_ns)
        self._codes.append(_CODES[result.outcome])
        for column, task in zip(self.tasks, result.tasks, strict=True):
            column.append(task)

    def extend(self, records: Sequence[EvalRecord], duration_ns: int) -> None:
        """Take what is known of the next records, after their tasks' columns were filled.

        Args:
            records: The records.
            duration_ns: Duration of the evaluation of one of them.
        """
        start = len(self._uids)
        self._uids += [record.uid for record in records]
        self._ids += [record.record_id for record in records]
        self._sessions += [record.session_id for record in records]
        self._traces += [record.trace_id for record in records]
        self._created += [record.created_ns for record in records]
        self._durations += repeat(duration_ns, len(records))
        if not self.tasks:  # all of the profile's tasks are those of sessions
            self._codes += bytes([_SKIPPED]) * len(records)
            return
        self._codes += bytes(
            map(_worst, zip(*(column.codes[start:] for column in self.tasks), strict=True))
        )

    @property
    def ids(self) -> Sequence[str]:
        """The records' ids, as users gave them."""
        return self._ids

    @property
    def uids(self) -> Sequence[str]:
        """The records' keys."""
        return self._uids

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """The records' outcomes."""
        return list(map(_outcome, self._codes))

    @property
    def has_errors(self) -> Sequence[bool]:
        """True for each record of which a task errored."""
        columns = [column.codes for column in self.tasks if _ERRORED in column.codes]
        if not columns:
            return [False] * len(self)
        return [_ERRORED in codes for codes in zip(*columns, strict=True)]

    @property
    def sessions(self) -> list[RecordResult]:
        """None: a batch is of records."""
        return []

    @property
    def counts(self) -> dict[Outcome, int]:
        """Task results by outcome; all four are there."""
        return {
            outcome: sum(column.codes.count(code) for column in self.tasks)
            for code, outcome in enumerate(OUTCOMES)
        }

    @property
    def rated(self) -> dict[Outcome, int]:
        """The same of those task results that are in a rate; of the others all are skipped."""
        reasons = (rest[0] for column in self.tasks for rest in column.rest.values())
        outside = sum(reason in OUT_OF_RATE for reason in reasons)
        counts = self.counts
        return {**counts, Outcome.SKIPPED: counts[Outcome.SKIPPED] - outside}

    def __len__(self) -> int:
        return len(self._uids)

    @overload
    def __getitem__(self, index: int) -> RecordResult: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RecordResult, ...]: ...
    def __getitem__(self, index: int | slice) -> RecordResult | tuple[RecordResult, ...]:
        if isinstance(index, slice):
            return tuple(map(self.record, range(*index.indices(len(self)))))
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"record {index} of {len(self)}")
        return self.record(row)

    def record(self, row: int) -> RecordResult:
        """Make the object for one record.

        Args:
            row: From 0; not checked.
        """
        tasks = [
            column.result(row)
            if column.rest or column.span_ids
            else EvalTaskResult(spec, OUTCOMES[codes[row]], None, expected, actuals[row])
            for column, spec, expected, codes, actuals in self._parts
        ]
        return RecordResult(
            self._uids[row],
            self._ids[row],
            self._sessions[row],
            self._traces[row],
            OUTCOMES[self._codes[row]],
            tuple(tasks),
            self._created[row],
            self._durations[row],
        )

    def __iter__(self) -> Iterator[RecordResult]:
        tasks: Iterable[tuple[EvalTaskResult, ...]]
        tasks = (
            zip(*(column.results() for column in self.tasks), strict=True)
            if self.tasks
            else repeat((), len(self))
        )
        return map(
            RecordResult,
            self._uids,
            self._ids,
            self._sessions,
            self._traces,
            map(_outcome, self._codes),
            tasks,
            self._created,
            self._durations,
        )


def _worst(codes: tuple[int, ...]) -> int:
    """`record_outcome` by codes."""
    if _FAILED in codes:
        return _FAILED
    if _ERRORED in codes:
        return _ERRORED
    return _PASSED if _PASSED in codes else _SKIPPED


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
