"""Results of many records, held by column: a byte and a reference per task and record.

An object per task and record would cost a hundred bytes each, and the garbage collector would walk
over all of them again and again. So results lie in columns, and objects are made while somebody
reads.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Final, overload

from pydantic import JsonValue

from scouter.evaluate.outcome import OUT_OF_RATE, Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult, Records
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
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
