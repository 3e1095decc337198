"""Labels: what people say of stored records, and whom to ask next."""

import time
from typing import Annotated, Self

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from collector.access.caller import Caller
from collector.api.labelled import (
    Alias,
    TaskId,
    label_item,
    label_scale,
    queue_item,
    task_of,
)
from collector.api.parameters import (
    NOT_FOUND,
    Cursor,
    Labeller,
    Limit,
    Reader,
    Text,
    api_router,
    read_cursor,
    write_cursor,
)
from collector.api.parts import TheParts
from collector.labelling.agreement import known_name
from collector.labelling.question import is_readable, question_line, question_of, scale_for
from collector.labelling.queue import Order, TaskOf, ToLabel, origin_of, queue_of
from collector.problem import ProblemError
from collector.store.labels import LabelQuery, LabelRow
from collector.store.rows import EvaluationRow, TaskRow
from collector.store.store import Store
from scouter.client.models.answer import Page
from scouter.client.models.labels import LabelItem, LabelQueue, LabelTask, LabelTasks
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task

_Rater = Annotated[str, Query(max_length=100, description="The person who labels.")]


class LabelBody(BaseModel):
    """Label that a person gives a record, for one task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uid: str = Field(min_length=1, max_length=512, description="Of the record.")
    task_id: str = Field(min_length=1, max_length=512)
    label: bool | None = Field(
        default=None,
        description="Is the record good, as the task asks? Null without a score takes an earlier "
        "label back.",
    )
    score: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="In place of the label: a number on the scale of the task.",
    )
    rater: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(
        min_length=1,
        max_length=100,
        description="The person. Case is ignored: a name stays as it was spelt first.",
    )
    notes: str = Field(default="", max_length=2000)
    is_blind: bool | None = Field(
        default=None,
        description="False if they had seen the outcome or other labels before; null: not said.",
    )
    order: Order | None = Field(
        default=None,
        description="Order of the queue that the record came from; null: from none. A label in "
        "place of another one keeps the order of that one.",
    )

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.label is not None and self.score is not None:
            raise ValueError("label and score are there; expected one of them")
        if not self.model_fields_set & {"label", "score"}:
            raise ValueError("label and score are missing; expected one of them")
        return self


router = api_router(tag="labels")


@router.get("/labels")
def labels(
    parts: TheParts,
    caller: Reader,
    profile: Text = None,
    task_id: Text = None,
    rater: Text = None,
    uid: Text = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[LabelItem]:
    """Labels, newest first: of a person, task and record the last one."""
    before, _ = read_cursor(cursor)
    query = LabelQuery(
        space=caller.space, alias=profile, task_id=task_id, uid=uid,
        rater=rater and known_name(parts.store, caller.space, rater),
        limit=limit + 1, before=before,
    )  # fmt: skip
    found = parts.store.labels(query)
    is_last = len(found) <= limit
    page = found[:limit]
    return Page[LabelItem](
        items=tuple(label_item(each) for each in page),
        next_cursor=None if is_last else write_cursor(page[-1].place),
    )


@router.post("/labels", responses=NOT_FOUND)
def label(parts: TheParts, caller: Labeller, body: LabelBody) -> LabelItem:
    """Say whether a record is good by a task's question, or score it on its scale.

    A later label of the same person on the same task and record takes its place.
    """
    row, task = _judged(parts.store, caller, body.uid, body.task_id)
    is_good = body.label
    if body.score is not None:
        registered = parts.registry.get(caller.space, row.profile_uid)
        tasks = () if registered is None else registered.profile.tasks
        is_good = _passes(body.score, next((t for t in tasks if t.id == task.task_id), None))
    rater = known_name(parts.store, caller.space, body.rater)
    of = TaskOf(caller.space, row.alias, task.task_id)
    query = LabelQuery(**of._asdict(), uid=row.record_uid, rater=rater)
    earlier = next(iter(parts.store.labels(query)), None)
    origin = origin_of(parts.store, of, body.order, row.record_uid, earlier)
    stored = LabelRow(
        space=caller.space,
        uid=row.record_uid,
        record_id=row.record_id,
        alias=row.alias,
        task_id=task.task_id,
        rater=rater,
        is_good=is_good,
        notes=body.notes,
        at_ns=time.time_ns(),
        by=caller.token_id,
        score=body.score,
        is_blind=body.is_blind,
        order=origin.order,
        stratum=origin.stratum,
        size=origin.size,
    )
    parts.store.append_labels([stored])
    return label_item(stored)


@router.get("/labels/tasks")
def tasks(parts: TheParts, caller: Reader) -> LabelTasks:
    """Tasks of active profiles, with their labels and the calibration of their judge."""
    counts = {(each.alias, each.task_id): each for each in parts.store.label_counts(caller.space)}
    return LabelTasks(
        items=tuple(
            LabelTask(
                profile=each.profile.alias,
                task_id=task.id,
                asks=question_line(task),
                is_judge=isinstance(task, LLMJudgeTask),
                is_readable=is_readable(task),
                records=0 if count is None else count.records,
                raters=0 if count is None else count.raters,
                calibration=parts.judges.newest(caller.space, each.uid, task.id),
            )
            for each in parts.registry.all(caller.space)
            if each.is_active
            for task in each.profile.tasks
            if task.scope != "score"
            for count in [counts.get((each.profile.alias, task.id))]
        )
    )


@router.get("/labels/queue", responses=NOT_FOUND)
def queue(
    parts: TheParts,
    caller: Reader,
    profile: Alias,
    task_id: TaskId,
    rater: _Rater = "",
    order: Order = Order.RANDOM,
    reveal: Annotated[
        bool, Query(description="Tell how the task ended, and what others said.")
    ] = False,
    uid: Annotated[
        str | None,
        Query(
            max_length=512,
            description="This record in place of the next, whether labelled or not.",
        ),
    ] = None,
    offset: Annotated[int, Query(ge=0, le=500)] = 0,
    limit: Annotated[int, Query(ge=0, le=20, description="0 counts only.")] = 1,
) -> LabelQueue:
    """Records that a person has not labelled, in order."""
    task = task_of(parts.registry, caller.space, profile, task_id)
    name = known_name(parts.store, caller.space, rater)
    of = TaskOf(caller.space, profile, task_id.lower())
    found = queue_of(parts.store, of, order, name)
    shown, own = found.items[offset : offset + limit], None
    if uid is not None:
        row, result = _judged(parts.store, caller, uid, task_id)
        if row.alias != profile:
            raise ProblemError(404, f"the record {uid!r} is of the profile {row.alias!r}")
        query = LabelQuery(space=caller.space, alias=profile, task_id=task_id.lower(), uid=uid)
        labels = parts.store.labels(query)
        own = next((each for each in labels if each.rater == name), None)
        shown = [ToLabel(uid=uid, task=result, labels=[e for e in labels if e is not own])]
    records = {
        row.uid: row for row in parts.store.records_of(caller.space, [each.uid for each in shown])
    }
    latest = parts.store.latest_evaluations([(caller.space, each.uid) for each in shown if reveal])
    return LabelQueue(
        profile=profile,
        task_id=task_id.lower(),
        asks=question_of(task),
        description=task.description or "",
        is_judge=isinstance(task, LLMJudgeTask),
        scale=label_scale(scale_for(task)),
        labelled=found.labelled,
        waiting=len(found.items),
        plan=found.plan,
        people=tuple(parts.store.label_raters(caller.space)),
        items=tuple(
            queue_item(
                record,
                task,
                latest.get((caller.space, each.uid)),
                each.labels if reveal else (),
                own,
            )
            for each in shown
            if (record := records.get(each.uid)) is not None
        ),
    )


def _judged(store: Store, caller: Caller, uid: str, task_id: str) -> tuple[EvaluationRow, TaskRow]:
    """The latest evaluation of a record, and the task that is labelled."""
    key = caller.space, uid
    row = store.latest_evaluations([key]).get(key)
    if row is None:
        raise ProblemError(404, f"no record {uid!r} was evaluated")
    wanted = task_id.lower()
    for task in row.tasks:
        if task.task_id == wanted:
            return row, task
    has = ", ".join(task.task_id for task in row.tasks)
    raise ProblemError(404, f"the record {uid!r} has no task {task_id!r}; it has: {has}")


def _passes(score: float, task: Task | None) -> bool:
    """Say whether a task passes with a person's number."""
    scale = None if task is None else scale_for(task)
    if task is None or scale is None:
        raise ProblemError(400, "score: this task has no scale; expected label, true or false")
    if score not in scale:
        raise ProblemError(
            400, f"score: expected a number from {scale.least:g} to {scale.most:g}, got {score:g}"
        )
    return scale.passes(score)
