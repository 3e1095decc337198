"""What evaluation gives back: results by record, and what is counted from them."""

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.task_result import EvalTaskResult

if TYPE_CHECKING:
    from scouter.evaluate.comparison_results import ComparisonResults

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SHOWN: Final = 10
_FAILED: Final = Outcome.FAILED
_ERRORED: Final = Outcome.ERRORED
_SKIPPED: Final = Outcome.SKIPPED


class MissingKeyError(DataError, KeyError, RuntimeError):
    """No record, or no single one, has the id that was asked for.

    It is a KeyError, and a RuntimeError for those who catch what the original raised.
    """

    def __str__(self) -> str:
        return str(self.args[0])


class RecordResult:
    """How all tasks of a profile ended for one record, in the tasks' order.

    Args:
        record_uid: The record's key.
        record_id: The user's name for the record, maybe empty.
        session_id: Conversation that the record belongs to.
        trace_id: Trace of the record, if it has one.
        outcome: `record_outcome` of the tasks.
        tasks: One result per task.
        created_ns: When the record was made, nanoseconds since the epoch.
        duration_ns: How long the evaluation took.
    """

    __slots__ = (
        "created_ns", "duration_ns", "outcome", "record_id", "record_uid", "session_id", "tasks",
        "trace_id",
    )  # fmt: skip

    def __init__(
        self,
        record_uid: str,
        record_id: str,
        session_id: str,
        trace_id: str | None,
        outcome: Outcome,
        tasks: tuple[EvalTaskResult, ...],
        created_ns: int,
        duration_ns: int,
    ) -> None:
        self.record_uid = record_uid
        self.record_id = record_id
        self.session_id = session_id
        self.trace_id = trace_id
        self.outcome = outcome
        self.tasks = tasks
        self.created_ns = created_ns
        self.duration_ns = duration_ns

    def __getitem__(self, task_id: str) -> EvalTaskResult:
        wanted = task_id.lower()  # as ids are everywhere
        for task in self.tasks:
            if task.task_id == wanted:
                return task
        known = ", ".join(repr(task.task_id) for task in self.tasks)
        raise MissingKeyError(f"no task {task_id!r}; the tasks are {known}")

    def to_json(self) -> dict[str, JsonValue]:
        """Write all fields as plain JSON."""
        return {
            "record_uid": self.record_uid,
            "record_id": self.record_id,
            "session_id": self.session_id,
            "trace_id": self.trace_id,
            "outcome": str(self.outcome),
            "created_ns": self.created_ns,
            "duration_ns": self.duration_ns,
            "tasks": [cast(JsonValue, task.to_json()) for task in self.tasks],
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordResult):
            return NotImplemented
        return self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # equal by content, which may hold lists

    def __repr__(self) -> str:
        name = self.record_id or self.record_uid
        return f"RecordResult({name!r}: {self.outcome}, {len(self.tasks)} tasks)"


def record_outcome(results: Iterable[EvalTaskResult]) -> Outcome:
    """Sum up the tasks of one record.

    Returns:
        Errored if any task is, else failed if any task is, else passed; skipped only if all tasks
        are, and if there are none.
    """
    # Compared by identity with names of this module: looking a member of an enum up, and hashing
    # it, are calls of Python code, and this runs for every record.
    worst = _SKIPPED
    for result in results:
        outcome = result.outcome
        if outcome is _ERRORED:
            return outcome
        if outcome is _FAILED or worst is _SKIPPED:
            worst = outcome
    return worst


def pass_rate(counts: Mapping[Outcome, int]) -> float:
    """Compute passed / (passed + failed + errored + skipped by a gate).

    Args:
        counts: Task results by outcome; of the skipped ones only those that a gate skipped.

    Returns:
        A rate in [0, 1]; 0.0 where nothing was counted, as nothing has passed.
    """
    total = sum(counts.values())
    return counts.get(Outcome.PASSED, 0) / total if total else 0.0


def count_outcomes(results: Iterable[EvalTaskResult]) -> dict[Outcome, int]:
    """Count task results by outcome; all four are there."""
    outcomes = [str(result.outcome) for result in results]
    return {outcome: outcomes.count(outcome) for outcome in Outcome}


class EvalSet:
    """The task results of one record, and their counts.

    `total_tasks`, `passed_tasks`, `failed_tasks` and `pass_rate` leave gates out; an errored task
    counts as failed, a skipped one counts for nothing.
    """

    __slots__ = ("_record",)

    def __init__(self, record: RecordResult) -> None:
        self._record = record

    @property
    def records(self) -> tuple[EvalTaskResult, ...]:
        """One result per task, in the tasks' order; skipped ones too."""
        return self._record.tasks

    def _counted(self) -> list[EvalTaskResult]:
        return [
            task
            for task in self._record.tasks
            if not task.condition and task.outcome is not Outcome.SKIPPED
        ]

    @property
    def total_tasks(self) -> int:
        """Tasks that ran and are no gates."""
        return len(self._counted())

    @property
    def passed_tasks(self) -> int:
        """Those of them that passed."""
        return sum(task.passed for task in self._counted())

    @property
    def failed_tasks(self) -> int:
        """Those of them that did not pass."""
        return self.total_tasks - self.passed_tasks

    @property
    def pass_rate(self) -> float:
        """Passed of total, in [0, 1]; 0.0 where no task ran."""
        return self.passed_tasks / total if (total := self.total_tasks) else 0.0

    @property
    def duration_ms(self) -> int:
        """How long the record's evaluation took, in whole milliseconds."""
        return self._record.duration_ns // 1_000_000

    @property
    def created_at(self) -> datetime.datetime:
        """When the record was made, in UTC."""
        return _EPOCH + datetime.timedelta(microseconds=self._record.created_ns // 1000)

    def __repr__(self) -> str:
        return f"EvalSet({self.passed_tasks} of {self.total_tasks} passed)"


class AlignedEvalResult:
    """One record of an evaluation.

    Args:
        record: Its results.
        scenario_id: The scenario that the record came from, in a replay.
        attempt: Which repeat of the scenario, from 0.
    """

    __slots__ = ("attempt", "record", "scenario_id")

    def __init__(
        self, record: RecordResult, scenario_id: str | None = None, attempt: int = 0
    ) -> None:
        self.record = record
        self.scenario_id = scenario_id
        self.attempt = attempt

    @property
    def record_uid(self) -> str:
        """The record's key."""
        return self.record.record_uid

    @property
    def record_id(self) -> str:
        """The user's name for the record, maybe empty."""
        return self.record.record_id

    @property
    def outcome(self) -> Outcome:
        """How the record ended as a whole."""
        return self.record.outcome

    @property
    def eval_set(self) -> EvalSet:
        """Task results and counts."""
        return EvalSet(self.record)

    @property
    def success(self) -> bool:
        """True if every task could be decided, passed or not."""
        return self.record.outcome is not Outcome.ERRORED

    @property
    def error_message(self) -> str | None:
        """Message of the first errored task, if there is one."""
        for task in self.record.tasks:
            if task.outcome is Outcome.ERRORED:
                return f"task {task.task_id!r}: {task.message}"
        return None

    @property
    def task_count(self) -> int:
        """Tasks, gates and skipped ones included."""
        return len(self.record.tasks)

    def __repr__(self) -> str:
        return f"AlignedEvalResult({self.record!r})"


class EvalResults:
    """All records of an evaluation, in the records' order.

    Args:
        records: One result per record.
        scenario_ids: The scenario of each record, in a replay; as many as records.
        attempts: Which repeat of its scenario each record is from, counted from 0; as many.
    """

    def __init__(
        self,
        records: Iterable[RecordResult],
        scenario_ids: Sequence[str | None] | None = None,
        attempts: Sequence[int] | None = None,
    ) -> None:
        self.records: Sequence[RecordResult] = (
            records if isinstance(records, Sequence) else tuple(records)
        )
        """The results themselves, without any wrapping; those of a batch are made when read."""
        if scenario_ids is not None and len(scenario_ids) != len(self.records):
            raise ValueError(f"{len(scenario_ids)} scenario ids for {len(self.records)} records")
        self.scenario_ids: tuple[str | None, ...] | None = (
            None if scenario_ids is None else tuple(scenario_ids)
        )
        if attempts is not None and len(attempts) != len(self.records):
            raise ValueError(f"{len(attempts)} attempts for {len(self.records)} records")
        self.attempts: tuple[int, ...] | None = None if attempts is None else tuple(attempts)

    @property
    def aligned_results(self) -> list[AlignedEvalResult]:
        """One object per record, in order."""
        return [self._aligned(at) for at in range(len(self.records))]

    def _aligned(self, at: int) -> AlignedEvalResult:
        scenario_id = None if self.scenario_ids is None else self.scenario_ids[at]
        attempt = 0 if self.attempts is None else self.attempts[at]
        return AlignedEvalResult(self.records[at], scenario_id, attempt)

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[AlignedEvalResult]:
        return iter(self.aligned_results)

    def __getitem__(self, key: str) -> AlignedEvalResult:
        """Find a record by its `record_id`, or else by its uid.

        Raises:
            KeyError: No record has this id, or several have; says which ids there are.

        Cost: linear the first time, then constant.
        """
        found = self._places.get(key, [])
        if len(found) == 1:
            return self._aligned(found[0])
        if found:
            uids = ", ".join(repr(self.records[at].record_uid) for at in found[:_SHOWN])
            raise MissingKeyError(f"{len(found)} records have the id {key!r}; ask by uid: {uids}")
        ids = dict.fromkeys(record.record_id or record.record_uid for record in self.records)
        shown = ", ".join(map(repr, list(ids)[:_SHOWN])) or "none"
        more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        raise MissingKeyError(f"Missing key: {key}; the records are {shown}{more}")

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Positions by record id, and by uid where that is nobody's record id."""
        by_id: dict[str, list[int]] = {}
        for at, record in enumerate(self.records):
            if record.record_id:
                by_id.setdefault(record.record_id, []).append(at)
        by_uid: dict[str, list[int]] = {}
        for at, record in enumerate(self.records):
            by_uid.setdefault(record.record_uid, []).append(at)
        return {**by_uid, **by_id}

    @property
    def successful_count(self) -> int:
        """Records of which every task could be decided, passed or not."""
        return len(self.records) - self.failed_count

    @property
    def failed_count(self) -> int:
        """Records with at least one errored task."""
        return sum(record.outcome is Outcome.ERRORED for record in self.records)

    @property
    def errored_tasks(self) -> list[str]:
        """Uids of the records with an errored task."""
        return [r.record_uid for r in self.records if r.outcome is Outcome.ERRORED]

    @property
    def counts(self) -> dict[Outcome, int]:
        """Task results by outcome, over all records."""
        return count_outcomes(task for record in self.records for task in record.tasks)

    @property
    def pass_rate(self) -> float:
        """Passed of all task results, those that a gate skipped included; in [0, 1]."""
        return pass_rate(self.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EvalResults):
            return NotImplemented
        return (
            self.records == other.records
            and self.scenario_ids == other.scenario_ids
            and self.attempts == other.attempts
        )

    __hash__ = None  # type: ignore[assignment]  # equal by content, which may hold lists

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items())
        return f"EvalResults({len(self.records)} records: {counts})"

    def model_dump(self) -> dict[str, JsonValue]:
        """Write everything as plain JSON values; see `scouter.evaluate.results_file`."""
        from scouter.evaluate.results_file import dump  # it builds objects of this module

        return dump(self)

    def model_dump_json(self) -> str:
        """Write everything as JSON, with the number of the format."""
        from scouter.evaluate.results_file import dump_json  # it builds objects of this module

        return dump_json(self)

    @staticmethod
    def model_validate_json(text: str | bytes) -> "EvalResults":
        """Read what `model_dump_json` wrote.

        Raises:
            ConfigError: Not such a text, or a format of a later version; names the field.
        """
        from scouter.evaluate.results_file import load_json  # it builds objects of this module

        return load_json(text)

    def compare_to(
        self, baseline: "EvalResults", regression_threshold: float = 0.05
    ) -> "ComparisonResults":
        """Hold these results against earlier ones, record by record.

        Args:
            baseline: The earlier results.
            regression_threshold: Drop of a record's pass rate, in [0, 1], that is a regression.
        """
        from scouter.evaluate.compare import compare_results  # it reads results itself

        return compare_results(baseline, self, regression_threshold)

    def to_dataframe(self, polars: bool = False) -> Any:  # noqa: ANN401 — pandas or polars
        """Make a data frame with one row per task result; see `scouter.evaluate.results_frame`.

        Args:
            polars: A polars frame instead of a pandas one.

        Raises:
            ConfigError: The library is not installed; says how to install it.
        """
        from scouter.evaluate.results_frame import frame  # pandas and polars load on demand

        return frame(self, polars)

    def as_table(self, show_tasks: bool = False) -> None:
        """Print a table to the standard output.

        Args:
            show_tasks: One row per task result instead of one per record.
        """
        from scouter.evaluate.results_table import print_table  # rich loads on demand

        print_table(self, show_tasks)
