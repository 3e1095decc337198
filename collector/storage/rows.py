"""What goes into the store and what comes out: plain rows, no behaviour."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from pydantic import JsonValue

from scouter.evaluate.judge_usage import JudgeUsage
from scouter.evaluate.outcome import Outcome
from scouter.model.span import Span
from scouter.model.struct import struct


class Completeness(StrEnum):
    """How much of its trace an evaluation had seen."""

    COMPLETE = "complete"
    """Everything that was stamped or pointed to was there (or the tasks read no spans)."""
    QUIET = "quiet"
    """Something was missing, and nothing more came for the quiet period."""
    DEADLINE = "deadline"
    """Something was missing, and the record had waited as long as it may."""


class LetterKind(StrEnum):
    """What a dead letter is a letter of."""

    SPAN = "span"
    RECORD = "record"
    LOG = "log"
    SPANS_MESSAGE = "spans_message"
    RECORDS_MESSAGE = "records_message"


class AlertState(StrEnum):
    """Where an alert stands."""

    INACTIVE = "inactive"
    FIRING = "firing"
    RESOLVED = "resolved"


def _no_tags() -> Mapping[str, str]:
    return {}


@struct
class RecordRow:
    """A record as it was accepted; its key is (space, uid)."""

    space: str
    uid: str
    digest: str
    """Over everything that the sender said, so that a re-delivery is told from a conflict."""
    profile_ref: str
    """Digest, uid or alias, as the sender named its profile."""
    profile_uid: str = ""
    """The registered profile that this meant when the record was accepted; empty if none."""
    profile_name: str = ""
    alias: str = ""
    record_id: str = ""
    session_id: str = ""
    trace_id: str | None = None
    created_ns: int
    received_ns: int
    context: JsonValue = None
    tags: Mapping[str, str] = field(default_factory=_no_tags)


@struct
class TaskRow:
    """The result of one task for one record."""

    task_id: str
    task_type: str
    outcome: Outcome
    reason: str | None = None
    expected: JsonValue = None
    actual: JsonValue = None
    message: str = ""
    operator: str = ""
    condition: bool = False
    stage: int = 0
    usage: JudgeUsage | None = None
    """What a judge's answers took; None where none was asked."""
    question: str = ""
    """Digest of all that a judge task's verdict follows from but the answers; see `deferred`."""
    answer: JsonValue = None
    """A judge's whole answer, which dependent tasks read."""


class Scope(StrEnum):
    """What a verdict is about."""

    RECORD = "record"
    SESSION = "session"
    """All records of a session that one profile judges; the verdict's `record_uid` is made of
    profile and session, its trace is None."""


@struct
class EvaluationRow:
    """The verdict on one record or session, with all that it is filtered and counted by."""

    space: str
    evaluation_id: str
    record_uid: str
    revision: int = 1
    record_id: str
    session_id: str
    trace_id: str | None
    profile_uid: str
    profile_digest: str
    profile_name: str
    alias: str
    outcome: Outcome
    completeness: Completeness
    missing_parents: int = 0
    reads_spans: bool = False
    service_name: str = ""
    service_version: str = ""
    environment: str = ""
    tags: Mapping[str, str] = field(default_factory=_no_tags)
    created_ns: int
    """When the record was made: the event's time."""
    evaluated_ns: int
    duration_ns: int = 0
    input_seq: int = 0
    """Last commit whose spans the evaluation had seen; later spans of the trace are late."""
    scope: Scope = Scope.RECORD
    was_decided: bool = False
    """True if an earlier revision was decided, so that this one is not the first that counts."""
    tasks: tuple[TaskRow, ...]

    @property
    def pending(self) -> int:
        """Tasks that a judge has yet to answer for."""
        return sum(task.outcome is Outcome.PENDING for task in self.tasks)

    @property
    def has_decision(self) -> bool:
        """True if this verdict or an earlier one is decided; the next one's `was_decided`."""
        return self.was_decided or self.outcome is not Outcome.PENDING

    @property
    def is_first_decided(self) -> bool:
        """True for the first verdict on its record or session that is not pending."""
        return self.outcome is not Outcome.PENDING and not self.was_decided


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """A session with records that its latest verdict has not seen, and one of their traces."""

    space: str
    profile_uid: str
    session_id: str
    trace_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Something that could not be used, kept with the reason."""

    space: str
    kind: LetterKind
    reason: str
    """One word, for counting."""
    message: str
    """A sentence, for people."""
    source: str
    """Where it came in: `http`, or `kafka:TOPIC:PARTITION:OFFSET`."""
    payload: bytes
    uid: str = ""
    received_ns: int
    was_accepted: bool = False
    """True for a record that had been accepted: the letter is then its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """A trace and what was decided about it."""

    spans: list[Span]
    """In no order; empty where none is stored."""
    verdicts: tuple[EvaluationRow, ...]
    """The latest on each record, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLetter:
    """A dead letter and its place in the store."""

    letter_id: str
    seq: int
    letter: DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterQuery:
    """Which dead letters to list; None means any."""

    space: str
    reason: str | None = None
    kind: LetterKind | None = None
    letter_id: str | None = None
    uid: str | None = None
    was_accepted: bool | None = None
    limit: int = 100
    before: tuple[int, str] | None = None
    """Continue below this position: (commit, letter id)."""


class RecordPlace(NamedTuple):
    """Where a record is in the order of acceptance."""

    seq: int
    """Number of the commit that accepted it."""
    space: str = ""
    uid: str = ""


START: Final = RecordPlace(0)
"""Before all records."""


class ResultPlace(NamedTuple):
    """Where a verdict is in the order in which verdicts became durable."""

    seq: int
    """Number of the commit."""
    ordinal: int
    """Position in it."""


FIRST_RESULT: Final = ResultPlace(0, -1)
"""Before all verdicts."""


@struct
class PendingVerdict:
    """The latest verdict on a record or session, of which some tasks are pending."""

    place: ResultPlace
    verdict: EvaluationRow
    context_bytes: int
    """Size of the record's context as JSON; of a session that of all its records."""


@struct
class WaitingRecord:
    """An accepted record that nothing was decided about, without its context."""

    place: RecordPlace
    record: RecordRow
    context_bytes: int
    """Size of the context as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersRemoved:
    """Dead letters that were taken out of the store."""

    seq: int
    letter_ids: tuple[str, ...]
    """Those that were still there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertEvent:
    """An alert changed its state."""

    space: str
    profile_uid: str
    state: AlertState
    at_ns: int
    passed: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """A registered profile."""

    space: str
    uid: str
    digest: str
    name: str
    alias: str
    body: str
    """What `AgentEvalProfile.model_dump_json` wrote."""
    registered_ns: int = 0
    is_active: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpansAppended:
    """What became of a batch of spans."""

    space: str
    seq: int
    stored: tuple[Span, ...]
    """The spans that are new, or better than what was there."""
    stored_bytes: int
    """Of those, as they are stored."""
    duplicates: int
    known_traces: frozenset[str]
    """Traces of the batch that already had spans in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsAppended:
    """What became of a batch of records, by their position in it."""

    seq: int
    accepted: tuple[RecordRow, ...]
    duplicates: tuple[int, ...]
    conflicts: tuple[int, ...]
    new_traces: frozenset[str] = frozenset()
    """Traces of accepted records of which the store certainly had no span before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationQuery:
    """Which evaluations to list; None means any."""

    space: str
    profile: str | None = None
    """Alias, name, uid or digest."""
    record_id: str | None = None
    """Or its uid."""
    session_id: str | None = None
    """Or the uid of a record without one, which is a session of its own."""
    trace_id: str | None = None
    outcome: Outcome | None = None
    task_id: str | None = None
    """Only verdicts with such a task; with `task_outcome`, with that outcome of it."""
    task_outcome: Outcome | None = None
    service_name: str | None = None
    """Of the verdict, or where it looked at no spans, of a span of its trace; so the next two."""
    service_version: str | None = None
    environment: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    """Keys and values that are all among the verdict's tags."""
    since_ns: int | None = None
    until_ns: int | None = None
    as_of: int | None = None
    """As it was after this commit, so that pages read over a long time hold each record once."""
    limit: int = 100
    before: tuple[int, int] | None = None
    """Continue below this position: (commit, ordinal in it)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPage:
    """Evaluations, newest first, and where the next page begins."""

    items: tuple[EvaluationRow, ...]
    next_before: tuple[int, int] | None


class RecordState(StrEnum):
    """What became of an accepted record; each has exactly one state."""

    WAITING = "waiting"
    EVALUATED = "evaluated"
    SKIPPED = "skipped"
    EXPIRED = "expired"
    DEAD_LETTERED = "dead_lettered"
    ERASED = "erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuery:
    """Which accepted records to list; None means any."""

    space: str
    profile: str | None = None
    """Alias, name, uid or digest."""
    record_id: str | None = None
    """Or its uid."""
    session_id: str | None = None
    """Or the uid of a record without one, which is a session of its own."""
    trace_id: str | None = None
    state: RecordState | None = None
    since_ns: int | None = None
    """Received from then on."""
    until_ns: int | None = None
    as_of: int | None = None
    """Only what was accepted up to this commit."""
    limit: int = 100
    before: tuple[int, int] | None = None
    """Continue below this position: (commit, hash of the uid)."""


@struct
class RecordSummary:
    """An accepted record without its context, and its state."""

    place: tuple[int, int]
    """Commit and hash of the uid: the order of listings."""
    record: RecordRow
    context_bytes: int
    """Size of the context as JSON."""
    state: RecordState
    outcome: Outcome | None
    """Of the latest verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """Records, newest first, and where the next page begins."""

    items: tuple[RecordSummary, ...]
    next_before: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHistory:
    """A record and everything that was decided about it."""

    record: RecordRow
    state: RecordState
    verdicts: tuple[EvaluationRow, ...]
    """Every revision, newest first."""
    letter: StoredLetter | None
    """Where the record is dead-lettered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """Which sessions to list."""

    space: str
    limit: int = 100
    before: tuple[int, int] | None = None
    """Continue with those whose last record is below this place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """The records of a session, counted."""

    session_id: str
    records: int
    traces: int
    first_ns: int
    """When its first record was made."""
    last_ns: int
    passed: int
    failed: int
    errored: int
    skipped: int
    undecided: int
    """Records without a verdict: waiting, pending or dead-lettered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """Sessions, the one with the newest record first."""

    items: tuple[SessionSummary, ...]
    next_before: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Which task results to count; None means any."""

    space: str
    profile: str | None = None
    service_version: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCounts:
    """Outcomes of one task of one profile."""

    profile_uid: str
    profile_digest: str
    profile_name: str
    alias: str
    task_id: str
    passed: int
    failed: int
    errored: int
    skipped: int
    gated: int
    """Of `skipped`, those skipped by a gate; they count in the pass rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuery:
    """Which task results to count, bucket by bucket; None means any."""

    space: str
    profile: str | None = None
    task_id: str | None = None
    service_version: str | None = None
    since_ns: int
    until_ns: int
    bucket_ns: int
    """Buckets begin at multiples of it since 1970; the first and the last may be cut."""
    limit: int = 50_000
    """So many items at most, the first ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesItem:
    """Outcomes of one task in one bucket."""

    start_ns: int
    counts: TaskCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSheet:
    """Every accepted record in exactly one state; `accepted` is counted on its own."""

    accepted: int
    waiting: int
    evaluated: int
    skipped: int
    expired: int
    dead_lettered: int
    erased: int
    duplicates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanSheet:
    """What became of spans; `accepted` is counted on its own."""

    accepted: int
    stored: int
    duplicates: int
    late: int
    dead_lettered: int
    expired: int = 0
    """Accepted ones that retention took out."""
    erased: int = 0
    """Accepted ones that somebody had erased: `accepted` is `stored` with both of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conservation:
    """The sheet that shows that nothing vanished."""

    records: RecordSheet
    spans: SpanSheet
    dead_letters: Mapping[str, int]
    """All dead letters by reason, those never accepted included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseTarget:
    """What is to be erased; exactly one of the four is given."""

    space: str
    session_id: str | None = None
    trace_id: str | None = None
    record_uid: str | None = None
    tag: tuple[str, str] | None = None
    """Key and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What went, with the keys by which memory has to forget it too."""

    space: str
    seq: int
    uids: frozenset[str]
    """Of the records."""
    traces: frozenset[str]
    """Traces that lost spans."""
    spans: int
    evaluations: int
    """Verdicts, every revision of each."""
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRow:
    """What is known of a judge; of no space, as entries and judges are the collector's."""

    digest: str
    """SHA-256 of the body, in hex."""
    body: str
    """What `Calibration.model_dump_json` wrote."""
    added_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldVerdict:
    """How a judge decided a gold item: one whose right verdict people have given.

    It is about no record: no rate, sheet, total or series of an agent counts it.
    """

    space: str
    alias: str
    task_id: str
    judge: str
    """Digest of what was asked; another judge's verdicts are not held against these."""
    slot: int
    """Which place in the schedule; of one judge each is taken once."""
    item: str
    """Digest of the item."""
    is_good: bool
    """As people say."""
    outcome: Outcome
    reason: str | None
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldQuery:
    """The gold verdicts of one judge."""

    space: str
    alias: str
    task_id: str
    judge: str
    since_slot: int = 0
    """The first slot."""
