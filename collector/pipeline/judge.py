"""One verdict: a record, its profile and its spans become a row."""

from collections.abc import Iterable

from collector.pipeline.join import Ready
from collector.pipeline.profiles import RegisteredProfile
from collector.storage.rows import EvaluationRow, RecordRow, TaskRow
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.task_result import EvalTaskResult
from scouter.model.attributes import QUEUE_EVENT, QUEUE_RECORD
from scouter.model.ids import uuid7
from scouter.model.record import EvalRecord
from scouter.model.span import NO_RESOURCE, Resource


def judge(
    ready: Ready, registered: RegisteredProfile, tree: SpanTree | None, *, seq: int, now_ns: int
) -> EvaluationRow:
    """Run a profile's tasks on a record.

    Args:
        ready: The record, and how complete its trace is.
        registered: The profile that judges it.
        tree: The spans of its trace; None if the profile reads none.
        seq: Last commit whose spans are in the tree.
        now_ns: The time, nanoseconds since the epoch.
    """
    row, profile = ready.record, registered.profile
    record = eval_record(row)
    result = evaluate_record(profile.plan, record, tree)
    resource = resource_of(row.uid, tree)
    return EvaluationRow(
        space=row.space,
        evaluation_id=uuid7(now_ns),
        record_uid=row.uid,
        record_id=row.record_id,
        session_id=row.session_id,
        trace_id=row.trace_id,
        profile_uid=registered.uid,
        profile_digest=profile.digest,
        profile_name=profile.name,
        alias=profile.alias,
        outcome=result.outcome,
        completeness=ready.completeness,
        missing_parents=ready.missing_parents,
        reads_spans=profile.plan.reads_spans,
        service_name=resource.service_name,
        service_version=resource.service_version,
        environment=resource.environment,
        tags=row.tags,
        created_ns=row.created_ns,
        evaluated_ns=now_ns,
        duration_ns=result.duration_ns,
        input_seq=seq,
        tasks=_task_rows(result.tasks),
    )


def eval_record(row: RecordRow) -> EvalRecord:
    """The record as the engine takes it."""
    return EvalRecord(
        row.context if row.context is not None else {},
        id=row.record_id,
        session_id=row.session_id,
        trace_id=row.trace_id,
        tags=row.tags,
        uid=row.uid,
        created_ns=row.created_ns,
    )


def resource_of(uid: str, tree: SpanTree | None) -> Resource:
    """The process that emitted a record: the one whose span carries the record's event.

    Returns:
        That span's resource; the first root's where no span has the event.
    """
    if tree is None or not tree.spans:
        return NO_RESOURCE
    for span in tree.spans:
        for event in span.events:
            if event.name == QUEUE_EVENT and event.attributes.get(QUEUE_RECORD) == uid:
                return span.resource
    return (tree.roots or tree.spans)[0].resource


def _task_rows(tasks: Iterable[EvalTaskResult]) -> tuple[TaskRow, ...]:
    return tuple(
        TaskRow(
            task_id=task.task_id,
            task_type=task.task_type,
            outcome=task.outcome,
            reason=None if task.reason is None else task.reason.value,
            expected=task.expected,
            actual=task.actual,
            # A record may hold half a character, which no column can.
            message=task.message.encode("utf-8", "replace").decode(),
            operator=task.operator,
            condition=task.condition,
            stage=task.stage,
        )
        for task in tasks
    )
