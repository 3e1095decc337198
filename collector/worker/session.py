"""Evaluations on sessions: their records and the spans of all their traces become one row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collector.store.rows import Completeness, EvaluationRow, RecordRow, Scope
from collector.worker.profiles import RegisteredProfile
from collector.worker.records import Judged, TraceView, eval_record, follows, judge_now
from collector.worker.session_join import DueSession
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


def uid_of(profile_uid: str, session_id: str) -> str:
    """The `record_uid` of a session's evaluations."""
    return session_uid(profile_uid, session_id)


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
    uid = uid_of(key.profile_uid, key.session_id)
    name = f"session {key.session_id}"
    session = session_of(map(eval_record, whole.records), key.session_id, uid=uid, name=name)
    lost = next((whole.lost[id] for id in session.trace_ids if id in whole.lost), "")
    tree = session.tree(whole.spans, lost)
    made = _judged(whole, session.record, tree)
    result = made.result
    completeness, missing_parents = _completeness(whole, session.trace_ids)
    first = min(whole.records, key=lambda row: (row.created_ns, row.uid))
    resource = TraceView.of(tree).resource_of(first.uid) if whole.plan.reads_spans else NO_RESOURCE
    return EvaluationRow(
        space=key.space,
        evaluation_id=uuid7(now_ns),
        record_uid=uid,
        **follows(whole.earlier),
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
        evaluated_ns=now_ns,
        duration_ns=result.duration_ns,
        input_seq=seq,
        scope=Scope.SESSION,
        tasks=made.tasks,
    )


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
