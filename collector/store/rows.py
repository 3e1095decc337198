"""Rows that go into the store and come out of it: plain data, no behaviour."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from pydantic import JsonValue

from scouter.evaluate.judge.port import JudgeUsage
from scouter.evaluate.outcome import NOT_CALLED, Outcome
from scouter.evaluate.results.task_result import ASSERTIONS, own_score, score_of
from scouter.evaluate.spans.derived import is_derived_uid
from scouter.model.score import is_score_uid
from scouter.model.span import Span, struct


class Completeness(StrEnum):
    """Degree to which the trace was complete when a record was judged."""

    COMPLETE = "complete"
    """Everything that was stamped or pointed to was there (or the tasks read no spans)."""
    QUIET = "quiet"
    """Something was missing, and nothing more came for the quiet period."""
    DEADLINE = "deadline"
    """Something was missing, and the record had waited as long as it may."""


class RecordState(StrEnum):
    """State of an accepted record; each has exactly one."""

    WAITING = "waiting"
    EVALUATED = "evaluated"
    SKIPPED = "skipped"
    EXPIRED = "expired"
    DEAD_LETTERED = "dead_lettered"
    ERASED = "erased"


class AlertState(StrEnum):
    """The state of an alert."""

    INACTIVE = "inactive"
    FIRING = "firing"
    RESOLVED = "resolved"


PAST: Final = "backfill"
"""Digest of a record that was derived for a backfill."""
NO_TAGS: Final[Mapping[str, str]] = {}
"""One for all that have none; nobody writes to it."""


def _no_tags() -> Mapping[str, str]:
    return NO_TAGS


@struct
class RecordRow:
    """A record as it was accepted; its key is (space, uid)."""

    space: str
    uid: str
    digest: str
    """Over everything that the sender said, so that a re-delivery is no conflict."""
    profile_ref: str
    """Digest, uid or alias, as the sender named its profile."""
    profile_uid: str = ""
    """The registered profile that this meant when the record was accepted; empty if none: then it
    is the first one that it means from then on."""
    profile_name: str = ""
    alias: str = ""
    record_id: str = ""
    session_id: str = ""
    trace_id: str | None = None
    created_ns: int
    received_ns: int
    context: JsonValue = None
    tags: Mapping[str, str] = field(default_factory=_no_tags)
    seq: int = field(default=0, compare=False, repr=False)
    """Number of the commit that accepted it, where it was read from the store."""
    is_dated: bool = field(default=True, compare=False, repr=False)
    """False if `created_ns` is when it came, as its sender did not say; the store does not know."""

    @property
    def is_derived(self) -> bool:
        """True if nobody sent it: it was made of a trace that a profile watches."""
        return is_derived_uid(self.uid)

    @property
    def is_past(self) -> bool:
        """True if it was derived for a backfill."""
        return self.is_derived and self.digest == PAST

    @property
    def is_score(self) -> bool:
        """True if it carries a score from outside."""
        return is_score_uid(self.uid)

    @property
    def lacks_session(self) -> bool:
        """True if its trace says which session it belongs to, if anything does."""
        return not self.session_id and self.trace_id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledRecord:
    """Values of an accepted record that its trace has reported since."""

    space: str
    uid: str
    seq: int
    """A commit that is not behind the one that accepted it; 0 if nobody knows."""
    session_id: str
    context: JsonValue = None
    has_context: bool = False
    """True if the context takes the place of the one before, as that of a derived record may."""


TraceKey = tuple[str, str]
"""Space and trace id."""


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
    """Tokens and cost of a judge's answers; None if no judge was called."""
    question: str = ""
    """Digest of all that a judge task's evaluation follows from but the answers; see `deferred`."""
    answer: JsonValue = None
    """A judge's whole answer, which dependent tasks read."""
    span_ids: tuple[str, ...] = ()
    """The first spans that it is about, in time order."""
    stated_score: float | None = None
    """The score where it does not follow from the rest."""

    @property
    def score(self) -> float | None:
        """The number beside the outcome, as `EvalTaskResult.score`."""
        return score_of(self.task_type, self.outcome, self.actual, self.stated_score)

    @property
    def own_score(self) -> float | None:
        """A score that says more than the outcome; None for assertions, which most tasks are."""
        return None if self.task_type in ASSERTIONS else own_score(self.score, self.outcome)


class Scope(StrEnum):
    """Subject of an evaluation."""

    RECORD = "record"
    SESSION = "session"
    """All records of a session that one profile judges; the evaluation's `record_uid` is made of
    profile and session, its trace is None."""


@struct
class EvaluationRow:
    """The evaluation on one record or session, with all that it is filtered and counted by."""

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
    """Time at which the record was made: the event's time."""
    evaluated_ns: int
    duration_ns: int = 0
    input_seq: int = 0
    """Last commit whose spans the evaluation had seen; later spans of the trace are late."""
    scope: Scope = Scope.RECORD
    was_decided: bool = False
    """True if an earlier revision was decided, so that this one is not the first that counts."""
    is_backfill: bool = False
    """True if it was made long after its time, on purpose: a reference for what comes, and no news.
    `evaluated_ns` is the event's time then, so that it counts where it belongs."""
    tasks: tuple[TaskRow, ...]

    @property
    def pending(self) -> int:
        """Tasks that a judge has yet to answer for."""
        return sum(task.outcome is Outcome.PENDING for task in self.tasks)

    @property
    def has_decision(self) -> bool:
        """True if this evaluation or an earlier one is decided; the next one's `was_decided`."""
        return self.was_decided or self.outcome is not Outcome.PENDING

    @property
    def is_score(self) -> bool:
        """True if it is a score from outside, of one task and of no whole record."""
        return is_score_uid(self.record_uid)

    @property
    def is_partial(self) -> bool:
        """True if it says nothing of a whole record.

        It is a score, or a judge was not called, for its budget or its sample.
        """
        return self.is_score or any(
            task.outcome is Outcome.SKIPPED and task.reason in NOT_CALLED for task in self.tasks
        )

    @property
    def is_first_decided(self) -> bool:
        """True for the first evaluation on its record or session that is not pending, as news."""
        is_news = not (self.was_decided or self.is_backfill)
        return self.outcome is not Outcome.PENDING and is_news


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """A session with records that its latest evaluation has not seen, and one of their traces."""

    space: str
    profile_uid: str
    session_id: str
    trace_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """A trace and what was decided about it."""

    spans: list[Span]
    """In no order; empty where none is stored."""
    evaluations: tuple[EvaluationRow, ...]
    """The latest on each record, newest first."""


class ResultPlace(NamedTuple):
    """Place of an evaluation in the order in which evaluations became durable."""

    seq: int
    """Number of the commit."""
    ordinal: int
    """Position in it."""


FIRST_RESULT: Final = ResultPlace(0, -1)
"""Before all evaluations."""


@struct
class PendingEvaluation:
    """The latest evaluation on a record or session, of which some tasks are pending."""

    place: ResultPlace
    evaluation: EvaluationRow
    context_bytes: int
    """Size of the record's context as JSON; of a session that of all its records."""


class WaitingSpace(NamedTuple):
    """Records of a space that nothing was decided about, or tasks that wait for their judge."""

    space: str
    waiting: int
    uid: str
    """Of the record that has waited for longest."""
    since_ns: int
    """Time at which that was accepted, or its evaluation made; the largest there is where all are
    backfills."""


class AlertEvent(NamedTuple):
    """An alert changed its state."""

    space: str
    profile_uid: str
    state: AlertState
    at_ns: int
    passed: int
    total: int


class ProfileRow(NamedTuple):
    """A registered profile."""

    space: str
    uid: str
    digest: str
    name: str
    alias: str
    body: str
    """Text that `AgentEvalProfile.model_dump_json` wrote."""
    registered_ns: int = 0
    is_active: bool = False


class ProfileChange(NamedTuple):
    """A profile was registered, activated or deactivated, or got another body."""

    seq: int
    """Number of the commit."""
    space: str
    uid: str
    digest: str
    name: str
    alias: str
    is_active: bool
    """True if it is its alias' active one from then on."""


class RollupKey(NamedTuple):
    """Key by which decided tasks are counted: the columns of the table in order."""

    space: str
    hour_ns: int
    """Beginning of the hour in which the evaluation was made."""
    profile_uid: str
    profile_digest: str
    profile_name: str
    alias: str
    service_version: str
    environment: str
    task_id: str
    position: int
    outcome: str
    gated: int
    """1 for a task that a gate skipped; it counts in the pass rate."""
    score: float | None
    """None where the outcome says it."""
