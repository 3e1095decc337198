"""Results by record, as data and as readers see them, with embeddings, and counts made of them."""

import datetime
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Self, TypeAlias

from pydantic import Field, GetCoreSchemaHandler, GetPydanticSchema, JsonValue, TypeAdapter
from pydantic_core import CoreSchema, core_schema

from scouter.evaluate.outcome import DECIDED, Outcome
from scouter.evaluate.results.provenance import Provenance
from scouter.evaluate.results.record_result import (
    MissingKeyError,
    RecordResult,
    rate_of,
)
from scouter.evaluate.results.task_result import EvalTaskResult, Window
from scouter.model.visible import some_of

Finite = Annotated[float, Field(allow_inf_nan=False)]
Vector: TypeAlias = "array[float]"
"""Doubles side by side: a third of the memory of a list, and numpy reads them without a copy."""


def _as_list(_: object, handler: GetCoreSchemaHandler) -> CoreSchema:
    return core_schema.no_info_after_validator_function(
        lambda values: array("d", values),
        handler.generate_schema(list[Finite]),
        serialization=core_schema.plain_serializer_function_ser_schema(list),
    )


if TYPE_CHECKING:
    _Stored: TypeAlias = Vector
else:
    _Stored = Annotated[array, GetPydanticSchema(_as_list)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAnnotations:
    """Embeddings and similarities of one record's texts.

    A target without an embedding is in none of the mappings, and `problems` says why.
    """

    embeddings: Mapping[str, _Stored] = field(default_factory=dict[str, Vector])
    """Vector of the embedder, by target."""
    mean_embeddings: Mapping[str, Finite] = field(default_factory=dict[str, float])
    """Mean of the vector's components, by target."""
    similarity_scores: Mapping[str, Finite] = field(default_factory=dict[str, float])
    """Cosine similarity, in [-1, 1], by `{target}_{target}` in the targets' order."""
    problems: tuple[str, ...] = ()
    """Reasons why an embedding or a similarity is missing, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Distribution of the values in one column, over bins of equal width."""

    bin_edges: tuple[Finite, ...]
    """One more than there are bins, rising. A bin holds its lower edge, the last one both."""
    bin_counts: tuple[int, ...]
    """Values per bin; they sum to `total`."""
    total: int
    """Values counted."""
    missing: int = 0
    """Records without such a value; they are in no bin."""

    def __post_init__(self) -> None:
        edges, bins = len(self.bin_edges), len(self.bin_counts)
        if edges != bins + 1:
            raise ValueError(f"{edges} edges for {bins} bins; expected one more")

    @property
    def bins(self) -> tuple[float, ...]:
        """The lower edge of each bin."""
        return self.bin_edges[:-1]

    @property
    def num_bins(self) -> int:
        """Number of bins."""
        return len(self.bin_counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """Additions that an `EvaluationConfig` requested, beside the results."""

    records: tuple[RecordAnnotations, ...] | None = None
    """One per record, in the records' order; None where nothing was to be embedded."""
    histograms: Mapping[str, Histogram] | None = None
    """Histograms by column; see `scouter.evaluate.annotate.config`. None where not wanted."""


NO_ANNOTATIONS: Final = RecordAnnotations()
"""Annotations of a record of which nothing was embedded."""


@cache
def _form() -> TypeAdapter[Annotations]:
    return TypeAdapter(Annotations)


def dump_annotations(annotations: Annotations) -> dict[str, JsonValue]:
    """Write annotations as plain JSON values, as a field of this type in a model reads them."""
    found: dict[str, JsonValue] = _form().dump_python(annotations, mode="json")
    return found


_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(slots=True, eq=False, repr=False)
class EvalSet:
    """The task results of one record, and their counts.

    `total_tasks`, `passed_tasks`, `failed_tasks` and `pass_rate` leave gates out; an errored task
    counts as failed, a skipped one counts for nothing.
    """

    _record: RecordResult
    _window: Window | None = None
    """Begin and end of the evaluation, where known."""

    @property
    def records(self) -> tuple[EvalTaskResult, ...]:
        """One result per task, in the tasks' order; skipped ones too.

        They know their record and when they were evaluated. `RecordResult.tasks` are the same
        without that, and quicker to read.
        """
        uid, window = self._record.record_uid, self._window
        return tuple([task.seen_in(uid, window) for task in self._record.tasks])

    def _counted(self) -> list[EvalTaskResult]:
        return [
            task
            for task in self._record.tasks
            if not task.condition and task.outcome is not Outcome.SKIPPED
        ]

    @property
    def record_uid(self) -> str:
        """The record's key."""
        return self._record.record_uid

    @property
    def total_tasks(self) -> int:
        """Tasks that ran and are no gates."""
        return len(self._counted())

    @property
    def passed_tasks(self) -> int:
        """Number of passed tasks, gates left out."""
        return sum(task.passed for task in self._counted())

    @property
    def failed_tasks(self) -> int:
        """Number of tasks that failed or errored, gates left out."""
        return sum(not task.passed for task in self._counted())

    @property
    def pass_rate(self) -> float:
        """Passed of total, in [0, 1]; 0.0 where no task ran."""
        counted = self._counted()
        return sum(task.passed for task in counted) / len(counted) if counted else 0.0

    @property
    def duration_ms(self) -> int:
        """Length of the record's evaluation, in whole milliseconds."""
        return self._record.duration_ns // 1_000_000

    @property
    def created_at(self) -> datetime.datetime:
        """Time at which the record was made, in UTC."""
        return _EPOCH + datetime.timedelta(microseconds=self._record.created_ns // 1000)

    def __repr__(self) -> str:
        return f"EvalSet({self.passed_tasks} of {self.total_tasks} passed)"


@dataclass(frozen=True, slots=True)
class EvalResultSet:
    """The results of some records, without a dataset around them: those of `compute_drift`."""

    records: tuple[EvalSet, ...]
    """One for each record, in the records' order."""

    def record(self, id: str) -> EvalSet | None:
        """Find the results of a record by its uid; None if there are none.

        Cost: linear.
        """
        return next((found for found in self.records if found.record_uid == id), None)


@dataclass(slots=True, eq=False, repr=False)
class ResultRow:
    """One record of an evaluation."""

    record: RecordResult
    scenario_id: str | None = None
    """The scenario that the record came from, in a replay."""
    attempt: int = 0
    """Number of the attempt at the scenario, from 0."""
    annotations: RecordAnnotations = NO_ANNOTATIONS
    """Annotations that an `EvaluationConfig` requested."""
    window: Window | None = None
    """Begin and end of the evaluation, where known."""

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
        """Outcome of the record over all of its tasks."""
        return self.record.outcome

    @property
    def eval_set(self) -> EvalSet:
        """Task results and counts."""
        return EvalSet(self.record, self.window)

    @property
    def success(self) -> bool:
        """True if every task could be decided, passed or not."""
        return not self.record.has_error

    @property
    def error_message(self) -> str | None:
        """Message of the first errored task, if there is one."""
        for task in self.record.tasks:
            if task.outcome is Outcome.ERRORED:
                return f"task {task.task_id!r}: {task.message}"
        return None

    @property
    def embeddings(self) -> Mapping[str, Vector]:
        """Vector of the embedder, by target."""
        return self.annotations.embeddings

    @property
    def mean_embeddings(self) -> Mapping[str, float]:
        """Mean of the vector's components, by target."""
        return self.annotations.mean_embeddings

    @property
    def similarity_scores(self) -> Mapping[str, float]:
        """Cosine similarity, in [-1, 1], by pair of targets."""
        return self.annotations.similarity_scores

    @property
    def task_count(self) -> int:
        """Tasks that ran, gates included; those that a closed gate skipped are not counted."""
        return sum(task.outcome is not Outcome.SKIPPED for task in self.record.tasks)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.record!r})"


_SHOWN: Final = 10


class ResultRows:
    """The data of `EvalResults`."""

    row_type: ClassVar[type[ResultRow]] = ResultRow
    """The class of the rows that are given out."""

    def __init__(
        self,
        records: Iterable[RecordResult],
        scenario_ids: Sequence[str | None] | None = None,
        attempts: Sequence[int] | None = None,
        annotations: Annotations | None = None,
        provenance: Provenance | Callable[[], Provenance] | None = None,
        window: Window | None = None,
    ) -> None:
        self.records = tuple(records)
        """The results themselves, without any wrapping."""
        if scenario_ids is not None and len(scenario_ids) != len(self.records):
            raise ValueError(f"{len(scenario_ids)} scenario ids for {len(self.records)} records")
        self.scenario_ids: tuple[str | None, ...] | None = (
            None if scenario_ids is None else tuple(scenario_ids)
        )
        if attempts is not None and len(attempts) != len(self.records):
            raise ValueError(f"{len(attempts)} attempts for {len(self.records)} records")
        self.attempts: tuple[int, ...] | None = None if attempts is None else tuple(attempts)
        self.annotations = annotations
        self._provenance = provenance
        if window is None and isinstance(provenance, Provenance) and provenance.ended_ns:
            window = provenance.started_ns, provenance.ended_ns
        self.window = window

    @cached_property
    def provenance(self) -> Provenance | None:
        """Versions, revision, times and digests.

        None for the parts of a replay, which has its own.
        """
        found = self._provenance
        return found() if callable(found) else found

    def with_annotations(self, annotations: Annotations) -> Self:
        """Make a copy of the results with the additions that an `EvaluationConfig` requested."""
        return type(self)(
            self.records,
            self.scenario_ids,
            self.attempts,
            annotations,
            self._provenance,
            self.window,
        )

    def with_sessions(self, sessions: Iterable[RecordResult]) -> Self:
        """Make a copy with results of sessions behind the records; they have no annotations."""
        rows = (*self.records, *sessions)
        annotations = self.annotations
        if annotations is not None and annotations.records is not None:
            more = (NO_ANNOTATIONS,) * (len(rows) - len(self.records))
            annotations = replace(annotations, records=(*annotations.records, *more))
        return type(self)(
            rows, self.scenario_ids, self.attempts, annotations, self._provenance, self.window
        )

    @property
    def sessions(self) -> list[RecordResult]:
        """The rows that are about a session, where tasks have that scope."""
        return [each for each in self.records if each.scope == "session"]

    @property
    def aligned_results(self) -> Sequence[ResultRow]:
        """One object per record, in order."""
        return list(self)

    @property
    def histograms(self) -> Mapping[str, Histogram] | None:
        """Histograms of the values, by column; None where no `EvaluationConfig` requested them."""
        return None if self.annotations is None else self.annotations.histograms

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[ResultRow]:
        annotated = None if self.annotations is None else self.annotations.records
        return map(
            self.row_type,
            self.records,
            self.scenario_ids or repeat(None),
            self.attempts or repeat(0),
            annotated or repeat(NO_ANNOTATIONS),
            repeat(self.window),
        )

    def _row(self, at: int) -> ResultRow:
        annotated = None if self.annotations is None else self.annotations.records
        return self.row_type(
            self.records[at],
            None if self.scenario_ids is None else self.scenario_ids[at],
            0 if self.attempts is None else self.attempts[at],
            NO_ANNOTATIONS if annotated is None else annotated[at],
            self.window,
        )

    def __getitem__(self, key: str) -> ResultRow:
        """Find a record by its `record_id`, or else by its uid.

        Raises:
            KeyError: No record has this id, or several have; says which ids there are.

        Cost: linear the first time, then constant.
        """
        found = self._by_id.get(key, [])
        if len(found) == 1:
            return self._row(found[0])
        if found:
            uids = ", ".join(repr(self.records[at].record_uid) for at in found[:_SHOWN])
            raise MissingKeyError(f"{len(found)} records have the id {key!r}; ask by uid: {uids}")
        ids = dict.fromkeys(each.record_id or each.record_uid for each in self.records)
        shown = some_of([*map(repr, ids)], _SHOWN) or "none"
        raise MissingKeyError(f"Missing key: {key}; the records are {shown}")

    @cached_property
    def _by_id(self) -> Mapping[str, Sequence[int]]:
        """Places of the records with an id, or with a uid that is nobody's id."""
        ids = {each.record_id for each in self.records}
        found: defaultdict[str, list[int]] = defaultdict(list)
        for at, each in enumerate(self.records):
            if each.record_id:
                found[each.record_id].append(at)
            if each.record_uid not in ids:
                found[each.record_uid].append(at)
        return dict(found)

    @property
    def successful_count(self) -> int:
        """Records of which every task could be decided, passed or not."""
        return len(self.records) - self.failed_count

    @property
    def failed_count(self) -> int:
        """Records with at least one errored task."""
        return sum(each.has_error for each in self.records)

    @property
    def errored_tasks(self) -> list[str]:
        """Uids of the records with an errored task."""
        return [each.record_uid for each in self.records if each.has_error]

    @property
    def counts(self) -> dict[Outcome, int]:
        """Task results by outcome, over all records."""
        found = Counter(str(task.outcome) for each in self.records for task in each.tasks)
        return {outcome: found[outcome] for outcome in DECIDED}

    @property
    def pass_rate(self) -> float:
        """Passed of all task results, of those skipped only those that a gate did; in [0, 1]."""
        return rate_of(task for each in self.records for task in each.tasks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ResultRows):
            return NotImplemented
        return (
            len(self) == len(other)
            and self.records == other.records
            and self.scenario_ids == other.scenario_ids
            and self.attempts == other.attempts
        )

    __hash__ = None  # type: ignore[assignment]  # equal by content, which may hold lists

    def __repr__(self) -> str:
        rows, tasks = Counter(each.outcome for each in self.records), self.counts
        total = f"{sum(tasks.values()):,} task results"
        return (
            f"{type(self).__name__}({self.size_text}: {_counted(rows)}; {total}: {_counted(tasks)})"
        )

    @property
    def size_text(self) -> str:
        """Number of records and, if any, of sessions, in words."""
        sessions = len(self) - self.record_count
        also = f", {sessions:,} sessions" if sessions else ""
        return f"{self.record_count:,} records{also}"

    @property
    def record_count(self) -> int:
        """Number of rows about records; the other rows are about sessions."""
        return len(self) - len(self.sessions)


def _counted(counts: Mapping[Outcome, int]) -> str:
    return ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in DECIDED)
