"""Labels: what people say of stored records, whom to ask next, and how far they agree."""

import json
import time
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.responses import Response, StreamingResponse

from collector.access.caller import Caller
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
from collector.api.parts import TheRegistry, TheStore
from collector.labelling.agreement import Agreement, agreement_of
from collector.labelling.question import question_about, question_of
from collector.labelling.queue import MOST_LABELS, Asked, Order, queue_of
from collector.pipeline.profiles import ProfileRegistry
from collector.problem import ProblemError
from collector.receivers.times import format_time
from collector.storage.port.labels import LabelQuery, LabelRow
from collector.storage.port.rows import EvaluationRow, TaskRow
from collector.storage.port.store import Store
from scouter.client.models.labels import (
    AgreementKappa,
    JudgeAgreement,
    LabelAgreement,
    QueueResult,
    RaterPair,
)
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.agreement import Kappa
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task

_AT_A_TIME: Final = 20
"""Contexts that are read together."""
_NAMED_ITEMS: Final = 50
_Alias = Annotated[str, Query(min_length=1, max_length=512, description="Alias of the profile.")]
_TaskId = Annotated[str, Query(min_length=1, max_length=512)]
_Rater = Annotated[str, Query(max_length=100, description="The person who labels.")]


class LabelBody(BaseModel):
    """Label that a person gives a record, for one task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uid: str = Field(min_length=1, max_length=512, description="Of the record.")
    task_id: str = Field(min_length=1, max_length=512)
    label: bool | None = Field(
        description="Is the record good, as the task asks? Null takes an earlier label back."
    )
    rater: str = Field(min_length=1, max_length=100, description="The person.")
    notes: str = Field(default="", max_length=2000)


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class LabelItem(_Answer):
    """Label that a person gave a record, for one task."""

    uid: str
    record_id: str
    profile: str
    task_id: str
    label: bool | None
    rater: str
    notes: str
    at: str
    by: str = Field(description="Id of the token that it came with.")


class LabelPage(_Answer):
    """Labels, newest first; of a person, task and record the last one."""

    items: list[LabelItem]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page.")


class QueueItem(_Answer):
    """A record to be labelled."""

    uid: str
    record_id: str
    session_id: str
    trace_id: str | None
    created_at: str
    context: JsonValue
    asks: str = Field(description="The question with the record's values in it.")
    result: QueueResult | None = Field(description="Null unless it is asked for.")
    labels: list[LabelItem] = Field(description="Of others; empty unless asked for.")


class LabelQueue(_Answer):
    """Records to ask a person about, in order."""

    profile: str
    task_id: str
    asks: str = Field(description="The question to decide: the judge's prompt, or the assertion.")
    is_judge: bool
    labelled: int = Field(description="Records that this person has labelled.")
    waiting: int = Field(description="Records of the newest 500 that wait for a label.")
    items: list[QueueItem]


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
            items=[_item(each) for each in page],
            next_cursor=None if is_last else write_cursor(page[-1].place),
        )

    @router.post("/labels", responses=NOT_FOUND)
    def label(store: TheStore, caller: Labeller, body: LabelBody) -> LabelItem:
        """Say whether a record is good, as a task on it asks.

        A later label of the same person on the same task and record takes its place.
        """
        row, task = _judged(store, caller, body)
        kept = LabelRow(
            space=caller.space,
            uid=row.record_uid,
            record_id=row.record_id,
            alias=row.alias,
            task_id=task.task_id,
            rater=body.rater,
            is_good=body.label,
            notes=body.notes,
            at_ns=time.time_ns(),
            by=caller.token_id,
        )
        store.append_labels([kept]).result()
        return _item(kept)

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
        limit: Annotated[int, Query(ge=1, le=20)] = 1,
    ) -> LabelQueue:
        """Records that a person has not labelled, in order."""
        task = task_of(registry, caller.space, profile, task_id)
        found = queue_of(store, caller.space, profile, task_id.lower(), order, rater)
        shown = found.items[offset : offset + limit]
        rows = store.records_of(caller.space, [each.row.record_uid for each in shown])
        contexts = {row.uid: row.context for row in rows}
        return LabelQueue(
            profile=profile,
            task_id=task_id.lower(),
            asks=question_of(task),
            is_judge=isinstance(task, LLMJudgeTask),
            labelled=found.labelled,
            waiting=len(found.items),
            items=[
                _queued(each, task, contexts[each.row.record_uid], reveal=reveal)
                for each in shown
                if each.row.record_uid in contexts
            ],
        )

    @router.get("/labels/agreement", responses=NOT_FOUND)
    def agreement(
        store: TheStore, registry: TheRegistry, caller: Reader, profile: _Alias, task_id: _TaskId
    ) -> LabelAgreement:
        """Agreement of people with each other, and of the judge with most of them."""
        task_of(registry, caller.space, profile, task_id)
        rows = _all_labels(store, caller.space, profile, task_id)
        outcomes = _outcomes(store, caller.space, rows, task_id.lower())
        return _agreement(profile, task_id.lower(), agreement_of(rows, outcomes))

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


def _outcomes(store: Store, space: str, rows: list[LabelRow], task_id: str) -> dict[str, Outcome]:
    uids = list(dict.fromkeys(each.uid for each in rows))
    found: dict[str, Outcome] = {}
    for at in range(0, len(uids), 1_000):  # an evaluation has texts, so not all at once
        keys = [(space, uid) for uid in uids[at : at + 1_000]]
        for row in store.latest_evaluations(keys).values():
            for task in row.tasks:
                if task.task_id == task_id:
                    found[row.record_uid] = task.outcome
    return found


def _lines(
    store: Store, space: str, rows: list[LabelRow], task_id: str, *, contexts: bool
) -> Iterator[bytes]:
    for at in range(0, len(rows), _AT_A_TIME):
        part = rows[at : at + _AT_A_TIME]
        outcomes = _outcomes(store, space, part, task_id)
        uids = {each.uid for each in part}
        known = {r.uid: r.context for r in store.records_of(space, uids)} if contexts else {}
        for row in part:
            line: dict[str, JsonValue] = {
                "uid": row.uid, "record_id": row.record_id, "task": row.task_id,
                "label": row.is_good, "rater": row.rater,
            }  # fmt: skip
            if (outcome := outcomes.get(row.uid)) in (Outcome.PASSED, Outcome.FAILED):
                line["judge"] = outcome is Outcome.PASSED
            if row.notes:
                line["notes"] = row.notes
            if row.uid in known:
                line["context"] = known[row.uid]
            yield json.dumps(line).encode() + b"\n"


def _item(row: LabelRow) -> LabelItem:
    return LabelItem(
        uid=row.uid,
        record_id=row.record_id,
        profile=row.alias,
        task_id=row.task_id,
        label=row.is_good,
        rater=row.rater,
        notes=row.notes,
        at=format_time(row.at_ns),
        by=row.by,
    )


def _queued(asked: Asked, task: Task, context: JsonValue, *, reveal: bool) -> QueueItem:
    row, found = asked.row, asked.task
    result = QueueResult(
        outcome=found.outcome,
        reason=found.reason,
        score=found.score,
        message=found.message,
        answer=found.answer,
    )
    return QueueItem(
        uid=row.record_uid,
        record_id=row.record_id,
        session_id=row.session_id,
        trace_id=row.trace_id,
        created_at=format_time(row.created_ns),
        context=context,
        asks=question_about(task, context),
        result=result if reveal else None,
        labels=[_item(each) for each in asked.labels] if reveal else [],
    )


def _agreement(alias: str, task_id: str, found: Agreement) -> LabelAgreement:
    judge = found.judge
    return LabelAgreement(
        profile=alias,
        task_id=task_id,
        raters=dict(found.raters),
        records=found.items,
        good=found.good,
        tied=found.tied,
        pairs=tuple(
            RaterPair(
                first=each.first,
                second=each.second,
                records=each.items,
                agreed=each.agreed,
                kappa=_kappa(each.kappa),
            )
            for each in found.pairs
        ),
        left_out=found.left_out,
        everybody=_kappa(found.everybody),
        judge=JudgeAgreement(
            good_passed=judge.good_passed,
            good_failed=judge.good_failed,
            bad_passed=judge.bad_passed,
            bad_failed=judge.bad_failed,
            sensitivity=judge.sensitivity,
            sensitivity_interval=judge.sensitivity_interval(),
            specificity=judge.specificity,
            specificity_interval=judge.specificity_interval(),
            kappa=_kappa(found.judge_kappa),
        ),
        contested=tuple(found.contested[:_NAMED_ITEMS]),
    )


def _kappa(kappa: Kappa) -> AgreementKappa:
    lower, upper = kappa.interval
    return AgreementKappa(value=kappa.value, lower=lower, upper=upper)
