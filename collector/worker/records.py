"""Evaluations: records, their profile and their spans become rows, many at a time."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypedDict, cast

from collector.store.rows import EvaluationRow, RecordRow, TaskRow
from collector.worker.profiles import RegisteredProfile
from collector.worker.ready import Ready, Rerun
from collector.worker.scores import result_of
from collector.worker.stored_values import MOST_TOGETHER, Keeper, most_characters, size_of
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.judged import Known, evaluate_deferred
from scouter.evaluate.engine.plan import Plan
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.attributes import QUEUE_EVENT, QUEUE_RECORD, RESOURCE_TAGS
from scouter.model.ids import uuid7
from scouter.model.record import EvalRecord
from scouter.model.span import NO_RESOURCE, Resource, struct

_UNANSWERED: Final = frozenset({Reason.PROVIDER.value, Reason.BUDGET.value})


def _never() -> bool:
    return False


@struct
class TraceView:
    """One trace as the evaluations on its records see it."""

    tree: SpanTree
    emitters: Mapping[str, Resource]
    """By uid of a record: the process whose span carries the record's event."""

    @staticmethod
    def of(tree: SpanTree) -> "TraceView":
        """Look at a trace once for all of its records."""
        emitters: dict[str, Resource] = {}
        for span in tree.spans:
            for event in span.events:
                if event.name == QUEUE_EVENT:
                    uid = event.attributes.get(QUEUE_RECORD)
                    if isinstance(uid, str):
                        emitters.setdefault(uid, span.resource)
        return TraceView(tree=tree, emitters=emitters)

    def resource_of(self, uid: str) -> Resource:
        """The process that emitted a record; the first root's where no span has its event."""
        if not self.tree.spans:
            return NO_RESOURCE
        found = self.emitters.get(uid)
        if found is not None:
            return found
        first = self.tree.spans[0]
        if first.parent_span_id is None:  # it saves looking for the parents of all
            return first.resource
        return (self.tree.roots or self.tree.spans)[0].resource


@struct
class Judged:
    """A record's result, as the engine and as the store has it."""

    result: RecordResult
    tasks: tuple[TaskRow, ...]

    @staticmethod
    def of(result: RecordResult, most: int | None = None) -> "Judged":
        """Write a result as the store keeps it.

        Args:
            result: Of all tasks that were run.
            most: Characters of a value, where the evaluation has more tasks than these.
        """
        most = most_characters(len(result.tasks)) if most is None else most
        return Judged(result=result, tasks=task_rows(result.tasks, most))


NO_TRACE: Final = TraceView(tree=SpanTree(), emitters={})


def judge(
    items: Sequence[Ready],
    registered: RegisteredProfile,
    traces: Mapping[str, TraceView],
    *,
    seq: int,
    now_ns: int,
    earlier: Mapping[str, EvaluationRow] | None = None,
    is_late: Callable[[], bool] = _never,
) -> list[EvaluationRow]:
    """Run a profile's tasks on records; those that need a judge are pending.

    Args:
        items: Whole records, and how complete their traces are; or scores, and no others.
        registered: The profile that judges them.
        traces: By trace id; one that is not here has no spans.
        seq: Last commit whose spans are in the traces.
        now_ns: The time, nanoseconds since the epoch.
        earlier: By uid the latest evaluation, of whatever version of the profile: what a judge said
            of the same question holds.
        is_late: Says that no further record is to be started.

    Returns:
        One evaluation per record, in their order; of the first ones, if it became late or their
        values are very large.

    Cost: linear in records and tasks.
    """
    records = [ready.record for ready in items]
    if records[0].is_score:
        results = scored(records, registered, traces)
    else:
        results = run(registered.plan, records, traces, earlier, is_late=is_late)
    found: list[EvaluationRow] = []
    size = 0
    for ready, made in zip(items, results, strict=False):  # fewer where it became late
        resource = resource_of(ready.record, registered, traces)
        found.append(evaluation_of(ready, registered, resource, made, seq=seq, now_ns=now_ns))
        size += size_of(made.tasks)
        if size >= MOST_TOGETHER:
            break
    return found


def judge_again(
    items: Sequence[tuple[Ready, EvaluationRow]],
    registered: RegisteredProfile,
    rerun: Rerun,
    traces: Mapping[str, TraceView],
    *,
    seq: int,
    now_ns: int,
    is_late: Callable[[], bool] = _never,
) -> list[EvaluationRow]:
    """Run the tasks again that spans can change, and take over the other results.

    A judge task among them keeps its evaluation where its question is the same; else it is pending.

    Args:
        items: Whole records, each with its latest evaluation.
        registered: The profile of these evaluations.
        rerun: The tasks that run again.
        traces: By trace id.
        seq: Last commit whose spans are in the traces.
        now_ns: The time, nanoseconds since the epoch.
        is_late: Says that no further record is to be started.

    Returns:
        The next revision of each evaluation, in their order; of the first ones, if it became late.
    """
    records = [ready.record for ready, _ in items]
    found: list[EvaluationRow] = []
    known = {earlier.record_uid: earlier for _, earlier in items}
    most = most_characters(len(rerun.order))
    again = run(rerun.plan, records, traces, known=known, most=most, is_late=is_late)
    for (ready, earlier), made in zip(items, again, strict=False):  # fewer where it became late
        tasks = rerun.merge(earlier.tasks, made.tasks)
        if tasks is None:
            (whole,) = run(registered.plan, [ready.record], traces, known=known)
            tasks = whole.tasks
        resource = resource_of(ready.record, registered, traces)
        merged = Judged(result=made.result, tasks=tasks)
        row = evaluation_of(ready, registered, resource, merged, seq=seq, now_ns=now_ns)
        # Rows have outcomes as results have them.
        outcome = record_outcome(cast(Iterable[EvalTaskResult], tasks))
        found.append(replace(row, outcome=outcome, **follows(earlier, now_ns)))
    return found


class Place(TypedDict):
    """Fields that give an evaluation its place among those on its record, and in time."""

    revision: int
    was_decided: bool
    is_backfill: bool
    evaluated_ns: int


def follows(earlier: EvaluationRow | None, now_ns: int) -> Place:
    """The place behind an evaluation; the first where there is none.

    Args:
        earlier: The evaluation before; behind a backfill all have its time.
        now_ns: The time, nanoseconds since the epoch.
    """
    if earlier is None:
        return {
            "revision": 1, "was_decided": False, "is_backfill": False, "evaluated_ns": now_ns,
        }  # fmt: skip
    return {
        "revision": earlier.revision + 1,
        "was_decided": earlier.has_decision,
        "is_backfill": earlier.is_backfill,
        "evaluated_ns": earlier.evaluated_ns if earlier.is_backfill else now_ns,
    }


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


def run(
    plan: Plan,
    rows: Sequence[RecordRow],
    traces: Mapping[str, TraceView],
    known: Mapping[str, EvaluationRow] | None = None,
    most: int | None = None,
    is_late: Callable[[], bool] = _never,
) -> Iterator[Judged]:
    """Evaluate records one after the other, as each is needed: a result may be large.

    It ends once it is late, but for the first ones; whatever was worked out is given out.
    """
    records = list(map(eval_record, rows))
    trees = trees_of(plan, rows, traces)
    earlier = known or {}
    for at, record in enumerate(records):
        if at and is_late():
            return
        tree = trees.get(record.trace_id or "")
        if plan.has_judges:
            yield judge_now(plan, record, tree, earlier.get(record.uid), most)
        else:
            yield Judged.of(evaluate_record(plan, record, tree), most)


def scored(
    rows: Iterable[RecordRow], registered: RegisteredProfile, traces: Mapping[str, TraceView]
) -> Iterator[Judged]:
    """Turn scores from outside into results."""
    for row in rows:
        tree = traces.get(row.trace_id or "", NO_TRACE).tree
        yield Judged.of(result_of(row, registered, tree))


def trees_of(
    plan: Plan, rows: Sequence[RecordRow], traces: Mapping[str, TraceView]
) -> dict[str, SpanTree]:
    """By trace id the spans that a plan reads; none if it reads none."""
    if not plan.reads_spans:
        return {}
    ids = {row.trace_id or "" for row in rows}
    return {trace_id: traces.get(trace_id, NO_TRACE).tree for trace_id in ids}


def judge_now(
    plan: Plan,
    record: EvalRecord,
    spans: SpanTree | None,
    earlier: EvaluationRow | None,
    most: int | None = None,
) -> Judged:
    """Run all tasks that need no judge on one record, or on what stands for a session.

    Args:
        plan: From a profile.
        record: The record.
        spans: That it sees.
        earlier: Its latest evaluation; what a judge said there of the same question holds.
        most: Characters of a value, where the evaluation has more tasks than the plan.
    """
    rows = {} if earlier is None else {row.task_id: row for row in earlier.tasks if _holds(row)}
    specs = {spec.task_id: spec for spec in plan.specs}
    known = {
        task_id: Known(
            question=row.question,
            result=EvalTaskResult(
                specs[task_id], row.outcome, None if row.reason is None else Reason(row.reason),
                row.expected, row.actual, row.message,
            ).scored(row.stated_score),
            answer=row.answer,
        )
        for task_id, row in rows.items()
        if task_id in specs
    }  # fmt: skip
    began = time.perf_counter_ns()
    found = evaluate_deferred(plan, record, spans, known)
    result = RecordResult(
        record.uid, record.record_id, record.session_id, record.trace_id,
        record_outcome(found.results), found.results, record.created_ns,
        time.perf_counter_ns() - began,
    )  # fmt: skip
    made = Judged.of(result, most)
    if not found.retained:
        return made
    tasks = [
        rows[row.task_id] if at in found.retained else row for at, row in enumerate(made.tasks)
    ]
    return Judged(result=result, tasks=tuple(tasks))


def _holds(row: TaskRow) -> bool:
    """Say whether a judge answered: a task that nobody answered for is requested again."""
    is_decided = row.outcome is not Outcome.PENDING
    return bool(row.question) and is_decided and row.reason not in _UNANSWERED


def resource_of(
    row: RecordRow, registered: RegisteredProfile, traces: Mapping[str, TraceView]
) -> Resource:
    """The process that emitted a record, if its profile looks at spans."""
    if not (registered.profile.plan.reads_spans or row.is_derived or row.is_score):
        return NO_RESOURCE
    return traces.get(row.trace_id or "", NO_TRACE).resource_of(row.uid)


def evaluation_of(
    ready: Ready,
    registered: RegisteredProfile,
    resource: Resource,
    made: Judged,
    *,
    seq: int,
    now_ns: int,
) -> EvaluationRow:
    """The first evaluation on a record.

    Args:
        ready: The record.
        registered: The profile that judged it.
        resource: The process that emitted it.
        made: Its result.
        seq: Last commit whose spans the result has seen.
        now_ns: The time, nanoseconds since the epoch.
    """
    row, profile = ready.record, registered.profile
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
        outcome=made.result.outcome,
        completeness=ready.completeness,
        missing_parents=ready.missing_parents,
        reads_spans=not row.is_score and (profile.plan.reads_spans or row.is_derived),
        service_name=resource.service_name,
        service_version=resource.service_version,
        environment=resource.environment,
        tags=row.tags,
        created_ns=row.created_ns,
        evaluated_ns=now_ns,
        duration_ns=made.result.duration_ns,
        input_seq=seq,
        tasks=made.tasks,
    )


def named_by_tags(row: EvaluationRow) -> EvaluationRow:
    """An evaluation with the process that its tags name, where no span does."""
    if row.service_name or not row.tags:
        return row
    service, version, environment = (row.tags.get(name, "") for name in RESOURCE_TAGS)
    if not (service or version or environment):
        return row
    return replace(row, service_name=service, service_version=version, environment=environment)


def task_rows(tasks: Iterable[EvalTaskResult], most: int) -> tuple[TaskRow, ...]:
    """Results as the store keeps them.

    Args:
        tasks: The results.
        most: Characters of a value; see `most_characters`.
    """
    keeper = Keeper(most)
    return tuple(
        [
            TaskRow(
                task_id=(spec := task.spec).task_id,
                task_type=spec.task_type,
                outcome=task.outcome,
                reason=None if task.reason is None else task.reason.value,
                expected=keeper.value(task.expected),
                actual=keeper.value(task.actual),
                message=keeper.message(task.message),
                operator=spec.operator,
                condition=spec.condition,
                stage=spec.stage,
                usage=task.usage,
                span_ids=task.span_ids,
                stated_score=task.stated_score,
            )
            for task in tasks
        ]
    )
