"""Evaluations on sessions: their records and the spans of all their traces become one row."""

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from collector.store.rows import Completeness, EvaluationRow, RecordRow, Scope, TraceKey
from collector.worker.open_trace import JoinTimes, Needed
from collector.worker.profiles import RegisteredProfile
from collector.worker.records import (
    Judged,
    TraceView,
    eval_record,
    follows,
    judge_now,
    named_by_tags,
)
from collector.worker.trace_facts import TraceFacts
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import Plan
from scouter.evaluate.engine.sessions import session_of, session_uid
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.ids import uuid7
from scouter.model.record import EvalRecord
from scouter.model.span import NO_RESOURCE, Span


class SessionKey(NamedTuple):
    """Key of a session: the records of one session that one profile judges."""

    space: str
    profile_uid: str
    session_id: str

    @property
    def uid(self) -> str:
        """The `record_uid` of its evaluations."""
        return session_uid(self.profile_uid, self.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSession:
    """A session that waits no longer."""

    key: SessionKey
    is_quiet: bool
    """False if it was only its deadline that came."""
    waited_s: float
    due_since: float = 0.0
    late_seq: int = 0
    """The oldest commit with late spans that it waited for; 0 without any."""


class _Session:
    """Times of arrival of the parts of a session, and the traces that it is known to have."""

    __slots__ = ("first_arrival", "last_arrival", "late_seq", "scheduled", "traces")

    def __init__(self, now: float) -> None:
        self.first_arrival = self.last_arrival = now
        self.scheduled: float | None = None
        self.traces: set[str] = set()
        self.late_seq = 0
        """The oldest commit with late spans; 0 without any."""


class SessionJoin:
    """Holds the sessions of which something has no evaluation yet.

    Args:
        times: Waiting times.
    """

    def __init__(self, times: JoinTimes) -> None:
        self._quiet_s, self._deadline_s = times.session_quiet_s, times.session_deadline_s
        self._sessions: dict[SessionKey, _Session] = {}
        self._by_trace: dict[TraceKey, set[SessionKey]] = {}
        self._heap: list[tuple[float, int, SessionKey]] = []
        self._tie: Final = itertools.count()
        self._needed: Final = Needed()

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, key: SessionKey) -> bool:
        return key in self._sessions

    def add(
        self, key: SessionKey, now: float, trace_id: str | None = None, late_seq: int = 0
    ) -> None:
        """Let a session wait, or go on waiting: something of it came.

        Args:
            key: The session.
            now: The time.
            trace_id: A trace whose spans it has to wait for, too.
            late_seq: The commit with spans of it that its evaluation has not seen; 0 if it is not
                these that came.
        """
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = _Session(now)
        session.last_arrival = now
        if late_seq and not session.late_seq:
            session.late_seq = late_seq
            self._needed.add(late_seq)
        if trace_id is not None and trace_id not in session.traces:
            session.traces.add(trace_id)
            self._by_trace.setdefault((key.space, trace_id), set()).add(key)
        self._schedule(key, session)

    def low_seq(self, other: int) -> int:
        """The oldest commit with late spans that a session waits for, unless `other` is older."""
        return self._needed.lowest(other)

    def spans_came(self, space: str, trace_ids: Iterable[str], now: float) -> None:
        """Let the sessions of some traces wait on."""
        if not self._by_trace:
            return
        for trace_id in trace_ids:
            for key in self._by_trace.get((space, trace_id), ()):
                self._sessions[key].last_arrival = now

    def due(self, now: float) -> list[DueSession]:
        """Take out the sessions that wait no longer."""
        found: list[DueSession] = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heapq.heappop(self._heap)
            session = self._sessions.get(key)
            if session is None or session.scheduled != at:
                continue
            session.scheduled = None
            is_quiet = now >= session.last_arrival + self._quiet_s
            if is_quiet or now >= session.first_arrival + self._deadline_s:
                self._forget(key, session)
                waited_s = now - session.first_arrival
                found.append(
                    DueSession(
                        key=key,
                        is_quiet=is_quiet,
                        waited_s=waited_s,
                        due_since=now,
                        late_seq=session.late_seq,
                    )
                )
            else:
                self._schedule(key, session)
        return found

    def next_due(self) -> float | None:
        """Time at which `due` should be called again: never after anything becomes due."""
        return self._heap[0][0] if self._heap else None

    def _schedule(self, key: SessionKey, session: _Session) -> None:
        """Look at the session at its next possible time; an earlier appointment stays."""
        if session.scheduled is not None:
            return  # times only move on
        at = min(session.last_arrival + self._quiet_s, session.first_arrival + self._deadline_s)
        session.scheduled = at
        heapq.heappush(self._heap, (at, next(self._tie), key))

    def _forget(self, key: SessionKey, session: _Session) -> None:
        del self._sessions[key]
        if session.late_seq:
            self._needed.remove(session.late_seq)
        for trace_id in session.traces:
            keys = self._by_trace[key.space, trace_id]
            keys.discard(key)
            if not keys:
                del self._by_trace[key.space, trace_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSession:
    """A session that waits no longer, with all that is stored of it."""

    due: DueSession
    registered: RegisteredProfile
    plan: Plan
    """The profile's plan for sessions."""
    records: Sequence[RecordRow]
    """At least one."""
    spans: Mapping[str, Sequence[Span]]
    """By trace id; other traces may be here, too."""
    earlier: EvaluationRow | None
    """The latest evaluation on it, if there is one."""
    lost: Mapping[str, str] = field(default_factory=dict[str, str])
    """By trace why a span of it was refused, where one was."""
    too_large: str = ""
    """Reason that its tasks are errored: not all records were read; empty if all were."""


def judge_session(whole: WholeSession, *, seq: int, now_ns: int) -> EvaluationRow:
    """Run a profile's session-scoped tasks; those that need a judge are pending.

    Args:
        whole: The session.
        seq: Last commit of which everything is in it.
        now_ns: The time, nanoseconds since the epoch.

    Returns:
        The first evaluation, or the next revision.

    Cost: linear in records, spans and tasks.
    """
    key, profile = whole.due.key, whole.registered.profile
    name = f"session {key.session_id}"
    session = session_of(map(eval_record, whole.records), key.session_id, uid=key.uid, name=name)
    lost = next((whole.lost[id] for id in session.trace_ids if id in whole.lost), "")
    tree = session.tree(whole.spans, lost)
    made = _judged(whole, session.record, tree)
    result = made.result
    completeness, missing_parents = _completeness(whole, session.trace_ids)
    first = min(whole.records, key=lambda row: (row.created_ns, row.uid))
    resource = TraceView.of(tree).resource_of(first.uid) if whole.plan.reads_spans else NO_RESOURCE
    found = EvaluationRow(
        space=key.space,
        evaluation_id=uuid7(now_ns),
        record_uid=key.uid,
        **follows(whole.earlier, now_ns),
        record_id=result.record_id,
        session_id=key.session_id,
        trace_id=None,
        profile_uid=whole.registered.uid,
        profile_digest=profile.digest,
        profile_name=profile.name,
        alias=profile.alias,
        outcome=result.outcome,
        completeness=completeness,
        missing_parents=missing_parents,
        reads_spans=whole.plan.reads_spans,
        service_name=resource.service_name,
        service_version=resource.service_version,
        environment=resource.environment,
        tags=_common_tags(whole.records),
        created_ns=first.created_ns,
        duration_ns=result.duration_ns,
        input_seq=seq,
        scope=Scope.SESSION,
        tasks=made.tasks,
    )
    if whole.earlier is None and all(row.is_past for row in whole.records):
        found = replace(found, is_backfill=True, evaluated_ns=first.created_ns)
    return named_by_tags(found)


def _judged(whole: WholeSession, record: EvalRecord, tree: SpanTree) -> Judged:
    if whole.too_large:
        return Judged.of(_errored(whole, record))
    if whole.plan.has_judges:
        return judge_now(whole.plan, record, tree, whole.earlier)
    return Judged.of(evaluate_record(whole.plan, record, tree))


def _errored(whole: WholeSession, record: EvalRecord) -> RecordResult:
    tasks = tuple(
        EvalTaskResult(spec, Outcome.ERRORED, Reason.LIMIT, None, None, whole.too_large)
        for spec in whole.plan.specs
    )
    return RecordResult(
        record.uid, record.record_id, record.session_id, record.trace_id, record_outcome(tasks),
        tasks, record.created_ns, 0,
    )  # fmt: skip


def _completeness(whole: WholeSession, trace_ids: Sequence[str]) -> tuple[Completeness, int]:
    """Say how much was here, and how many parents were missing."""
    facts: list[TraceFacts] = []
    for trace_id in trace_ids if whole.plan.reads_spans else ():
        facts.append(TraceFacts())
        for span in whole.spans.get(trace_id, ()):
            facts[-1].add(span)
    missing = sum(each.missing_parents for each in facts)
    if not whole.due.is_quiet:
        return Completeness.DEADLINE, missing
    is_complete = all(each.is_complete for each in facts)
    return (Completeness.COMPLETE if is_complete else Completeness.QUIET), missing


def _common_tags(records: Sequence[RecordRow]) -> dict[str, str]:
    """The tags that all records have, with the same text."""
    first, *rest = (row.tags for row in records)
    return {key: text for key, text in first.items() if all(tags.get(key) == text for tags in rest)}
