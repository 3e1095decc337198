"""Labels: what people say of stored records, whom to ask next, and how far they agree."""

import json
import time
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Final, NamedTuple, Self

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from starlette.responses import Response, StreamingResponse

from collector.access.caller import Caller
from collector.api.label_answers import (
    LabelItem,
    LabelPage,
    LabelQueue,
    label_agreement,
    label_item,
    label_scale,
    queue_item,
)
from collector.api.parameters import (
    NOT_FOUND,
    Cursor,
    Labeller,
    Limit,
    Reader,
    Text,
    caught_up_router,
    read_cursor,
    write_cursor,
)
from collector.api.parts import TheJudges, TheRegistry, TheStore
from collector.labelling.agreement import agreement_of
from collector.labelling.question import question_of
from collector.labelling.queue import MOST_LABELS, Order, queue_of
from collector.labelling.scale import scale_for
from collector.pipeline.profiles import ProfileRegistry
from collector.problem import ProblemError
from collector.storage.port.labels import LabelQuery, LabelRow
from collector.storage.port.rows import EvaluationRow, TaskRow
from collector.storage.port.store import Store
from scouter.client.models.labels import LabelAgreement, LabelTask, LabelTasks
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.score import as_score
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task

_AT_A_TIME: Final = 20
"""Contexts that are read together."""
_Alias = Annotated[str, Query(min_length=1, max_length=512, description="Alias of the profile.")]
_TaskId = Annotated[str, Query(min_length=1, max_length=512)]
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
    rater: str = Field(min_length=1, max_length=100, description="The person.")
    notes: str = Field(default="", max_length=2000)

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.label is not None and self.score is not None:
            raise ValueError("label and score are there; expected one of them")
        if not self.model_fields_set & {"label", "score"}:
            raise ValueError("label and score are missing; expected one of them")
        return self


@cache
def labels_router() -> APIRouter:
    """Make the routes below `/api/v1/labels`."""
    router = caught_up_router(tag="labels")

    def task_of(registry: ProfileRegistry, space: str, alias: str, task_id: str) -> Task:
        """The task of that name of a registered profile."""
        profiles = [each.profile for each in registry.all(space) if each.profile.alias == alias]
        for profile in profiles:
            for task in profile.tasks:
                if task.id == task_id.lower():
                    return task
        raise ProblemError(404, f"no registered profile {alias!r} has a task {task_id!r}")

    @router.get("/labels")
    def labels(
        store: TheStore,
        caller: Reader,
        profile: Text = None,
        task_id: Text = None,
        rater: Text = None,
        uid: Text = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> LabelPage:
        """Labels, newest first: of a person, task and record the last one."""
        before, _ = read_cursor(cursor)
        query = LabelQuery(
            space=caller.space, alias=profile, task_id=task_id, rater=rater, uid=uid,
            limit=limit + 1, before=before,
        )  # fmt: skip
        found = store.labels(query)
        is_last = len(found) <= limit
        page = found[:limit]
        return LabelPage(
            items=[label_item(each) for each in page],
            next_cursor=None if is_last else write_cursor(page[-1].place),
        )

    @router.post("/labels", responses=NOT_FOUND)
    def label(
        store: TheStore, registry: TheRegistry, caller: Labeller, body: LabelBody
    ) -> LabelItem:
        """Say whether a record is good, as a task on it asks, or score it on the task's scale.

        A later label of the same person on the same task and record takes its place.
        """
        row, task = _judged(store, caller, body)
        is_good = body.label
        if body.score is not None:
            registered = registry.get(caller.space, row.profile_uid)
            tasks = () if registered is None else registered.profile.tasks
            is_good = _passes(body.score, next((t for t in tasks if t.id == task.task_id), None))
        kept = LabelRow(
            space=caller.space,
            uid=row.record_uid,
            record_id=row.record_id,
            alias=row.alias,
            task_id=task.task_id,
            rater=body.rater,
            is_good=is_good,
            notes=body.notes,
            at_ns=time.time_ns(),
            by=caller.token_id,
            score=body.score,
        )
        store.append_labels([kept]).result()
        return label_item(kept)

    @router.get("/labels/tasks")
    def tasks(
        store: TheStore, registry: TheRegistry, judges: TheJudges, caller: Reader
    ) -> LabelTasks:
        """Tasks of active profiles, with their labels and the calibration of their judge."""
        counts = {(each.alias, each.task_id): each for each in store.label_counts(caller.space)}
        return LabelTasks(
            items=tuple(
                LabelTask(
                    profile=each.profile.alias,
                    task_id=task.id,
                    is_judge=isinstance(task, LLMJudgeTask),
                    records=0 if count is None else count.records,
                    raters=0 if count is None else count.raters,
                    calibration=judges.newest(caller.space, each.uid, task.id),
                )
                for each in registry.all(caller.space)
                if each.is_active
                for task in each.profile.tasks
                for count in [counts.get((each.profile.alias, task.id))]
            )
        )

    @router.get("/labels/queue", responses=NOT_FOUND)
    def queue(
        store: TheStore,
        registry: TheRegistry,
        caller: Reader,
        profile: _Alias,
        task_id: _TaskId,
        rater: _Rater = "",
        order: Order = Order.RANDOM,
        reveal: Annotated[
            bool, Query(description="Tell how the task ended, and what others said.")
        ] = False,
        offset: Annotated[int, Query(ge=0, le=500)] = 0,
        limit: Annotated[int, Query(ge=0, le=20, description="0 counts only.")] = 1,
    ) -> LabelQueue:
        """Records that a person has not labelled, in order."""
        task = task_of(registry, caller.space, profile, task_id)
        found = queue_of(store, caller.space, profile, task_id.lower(), order, rater)
        shown = found.items[offset : offset + limit]
        records = {
            row.uid: row for row in store.records_of(caller.space, [each.uid for each in shown])
        }
        latest = store.latest_evaluations([(caller.space, each.uid) for each in shown if reveal])
        return LabelQueue(
            profile=profile,
            task_id=task_id.lower(),
            asks=question_of(task),
            is_judge=isinstance(task, LLMJudgeTask),
            scale=label_scale(scale_for(task)),
            labelled=found.labelled,
            waiting=len(found.items),
            items=[
                queue_item(
                    record,
                    task,
                    latest.get((caller.space, each.uid)),
                    each.labels if reveal else (),
                )
                for each in shown
                if (record := records.get(each.uid)) is not None
            ],
        )

    @router.get("/labels/agreement", responses=NOT_FOUND)
    def agreement(
        store: TheStore, registry: TheRegistry, caller: Reader, profile: _Alias, task_id: _TaskId
    ) -> LabelAgreement:
        """Agreement of people with each other, and of the judge with most of them."""
        task_of(registry, caller.space, profile, task_id)
        rows = _all_labels(store, caller.space, profile, task_id)
        judged = _judged_of(store, caller.space, rows, task_id.lower())
        outcomes = {uid: each.outcome for uid, each in judged.items()}
        scores = {uid: at for uid, (_, at) in judged.items() if at is not None}
        return label_agreement(profile, task_id.lower(), agreement_of(rows, outcomes, scores))

    @router.get("/labels/file", responses=NOT_FOUND, response_class=StreamingResponse)
    def label_file(
        store: TheStore,
        registry: TheRegistry,
        caller: Reader,
        profile: _Alias,
        task_id: _TaskId,
        contexts: Annotated[
            bool, Query(description="With the records' contexts, so that a judge can be asked.")
        ] = True,
    ) -> Response:
        """Labels as the lines that `scouter judge calibrate` reads, with the judge's answers."""
        task_of(registry, caller.space, profile, task_id)
        rows = _all_labels(store, caller.space, profile, task_id)
        lines = _lines(store, caller.space, rows, task_id.lower(), contexts=contexts)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    return router


def _judged(store: Store, caller: Caller, body: LabelBody) -> tuple[EvaluationRow, TaskRow]:
    """The latest evaluation of a record, and the task that is labelled."""
    key = caller.space, body.uid
    row = store.latest_evaluations([key]).get(key)
    if row is None:
        raise ProblemError(404, f"no record {body.uid!r} was evaluated")
    wanted = body.task_id.lower()
    for task in row.tasks:
        if task.task_id == wanted:
            return row, task
    has = ", ".join(task.task_id for task in row.tasks)
    raise ProblemError(404, f"the record {body.uid!r} has no task {body.task_id!r}; it has: {has}")


def _all_labels(store: Store, space: str, alias: str, task_id: str) -> list[LabelRow]:
    query = LabelQuery(space=space, alias=alias, task_id=task_id.lower(), limit=MOST_LABELS)
    return list(store.labels(query))[::-1]


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


def _judge_score(task: TaskRow) -> float | None:
    """The number that a judge gave and its task compared."""
    is_decided = task.outcome in (Outcome.PASSED, Outcome.FAILED)
    return as_score(task.actual) if is_decided and task.task_type == "LLMJudge" else None


class _Judged(NamedTuple):
    """All that is kept of a task's result, which has texts."""

    outcome: Outcome
    score: float | None


def _judged_of(store: Store, space: str, rows: list[LabelRow], task_id: str) -> dict[str, _Judged]:
    """By uid how a task ended in the latest evaluation."""
    uids = list(dict.fromkeys(each.uid for each in rows))
    found: dict[str, _Judged] = {}
    for at in range(0, len(uids), 1_000):  # an evaluation has texts, so not all at once
        keys = [(space, uid) for uid in uids[at : at + 1_000]]
        for row in store.latest_evaluations(keys).values():
            for task in row.tasks:
                if task.task_id == task_id:
                    found[row.record_uid] = _Judged(task.outcome, _judge_score(task))
    return found


def _lines(
    store: Store, space: str, rows: list[LabelRow], task_id: str, *, contexts: bool
) -> Iterator[bytes]:
    for at in range(0, len(rows), _AT_A_TIME):
        part = rows[at : at + _AT_A_TIME]
        judged = _judged_of(store, space, part, task_id)
        uids = {each.uid for each in part}
        known = {r.uid: r.context for r in store.records_of(space, uids)} if contexts else {}
        for row in part:
            said: JsonValue = row.is_good if row.score is None else row.score
            line: dict[str, JsonValue] = {
                "uid": row.uid, "record_id": row.record_id, "task": row.task_id,
                "label" if row.score is None else "score": said, "rater": row.rater,
            }  # fmt: skip
            result = judged.get(row.uid)
            if result is not None and result.outcome in (Outcome.PASSED, Outcome.FAILED):
                line["judge"] = result.outcome is Outcome.PASSED
                if result.score is not None:
                    line["judge_score"] = result.score
            if row.notes:
                line["notes"] = row.notes
            if row.uid in known:
                line["context"] = known[row.uid]
            yield json.dumps(line).encode() + b"\n"
