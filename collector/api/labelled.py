"""Records that people labelled: their lists, agreement, and files."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from fastapi import Query
from pydantic import JsonValue
from starlette.responses import Response, StreamingResponse

from collector.api.export import cell
from collector.api.parameters import NOT_FOUND, Reader, answer_of, api_router
from collector.api.parts import TheParts
from collector.items.times import time_at
from collector.labelling.agreement import agreement_of, known_name
from collector.labelling.question import Scale, question_about, question_line
from collector.labelling.queue import (
    LOOKED_AT,
    MOST_LABELS,
    Standing,
    TaskOf,
    labelled_of,
    places_of,
)
from collector.problem import ProblemError
from collector.store.labels import LabelQuery, LabelRow
from collector.store.rows import EvaluationRow, RecordRow, TaskRow
from collector.store.store import Store
from collector.worker.profiles import ProfileRegistry
from scouter.agent.calibration.drawn import drawn_line, mixed
from scouter.client.models.labels import (
    LabelAgreement,
    LabelItem,
    LabelledRecord,
    LabelledRecords,
    LabelScale,
    QueueItem,
    QueueResult,
)
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.task_result import as_score
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task


def label_item(row: LabelRow) -> LabelItem:
    """A label as the API has it."""
    return answer_of(LabelItem, row, profile=row.alias, label=row.is_good, at=time_at(row.at_ns))


def label_scale(scale: Scale | None) -> LabelScale | None:
    """A scale as the API has it."""
    return None if scale is None else answer_of(LabelScale, scale)


def queue_item(
    record: RecordRow,
    task: Task,
    evaluation: EvaluationRow | None,
    labels: Sequence[LabelRow],
    own: LabelRow | None,
) -> QueueItem:
    """A record that people label.

    Args:
        record: With its context.
        task: The task that people label.
        evaluation: The record's, for those who want to see how the task ended.
        labels: Those that are shown.
        own: The person's, where they return to it.
    """
    results = () if evaluation is None else evaluation.tasks
    return answer_of(
        QueueItem,
        record,
        created_at=time_at(record.created_ns),
        asks=question_about(task, record.context),
        result=next(
            (answer_of(QueueResult, each) for each in results if each.task_id == task.id), None
        ),
        labels=tuple(label_item(each) for each in labels),
        own=None if own is None else label_item(own),
    )


_AT_A_TIME: Final = 20
"""Contexts that are read together."""
_COLUMNS: Final = (
    "label", "score", "rater", "notes", "record_id", "task", "session", "question", "uid", "order",
    "stratum", "size", "is_blind", "judge", "judge_score", "context",
)  # fmt: skip
Alias: TypeAlias = Annotated[
    str, Query(min_length=1, max_length=512, description="Alias of the profile.")
]
TaskId: TypeAlias = Annotated[str, Query(min_length=1, max_length=512)]


router = api_router(tag="labels")


@router.get("/labels/records", responses=NOT_FOUND)
def labelled_records(
    parts: TheParts,
    caller: Reader,
    profile: Alias,
    task_id: TaskId,
    standing: Annotated[
        Standing | None,
        Query(description="Records of which people and task stand so to each other."),
    ] = None,
    rater: Annotated[
        str, Query(max_length=100, description="Records that this person labelled.")
    ] = "",
    offset: Annotated[int, Query(ge=0, le=MOST_LABELS)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> LabelledRecords:
    """Records that have labels, with all labels on them and how the task ended."""
    task = task_of(parts.registry, caller.space, profile, task_id)
    rows = _all_labels(parts.store, caller.space, profile, task_id)
    name = known_name(parts.store, caller.space, rater)
    is_judged = standing not in (None, Standing.CONTESTED, Standing.TIED)
    judged = _judged_of(parts.store, caller.space, rows if is_judged else [], task_id.lower())
    outcomes = {uid: each.outcome for uid, each in judged.items()}
    found = labelled_of(rows[::-1], outcomes, standing, name)
    shown = found[offset : offset + limit]
    if not is_judged:
        firsts = [each.labels[0] for each in shown]
        judged = _judged_of(parts.store, caller.space, firsts, task_id.lower())
    uids = [each.uid for each in shown]
    records = {row.uid: row for row in parts.store.records_of(caller.space, uids)}
    return LabelledRecords(
        profile=profile,
        task_id=task_id.lower(),
        asks=question_line(task),
        is_judge=isinstance(task, LLMJudgeTask),
        people=tuple(parts.store.label_raters(caller.space)),
        total=len(found),
        items=tuple(
            answer_of(
                LabelledRecord,
                record,
                outcome=None if each.uid not in judged else judged[each.uid].outcome,
                labels=tuple(label_item(label) for label in each.labels),
            )
            for each in shown
            if (record := records.get(each.uid)) is not None
        ),
    )


@router.get("/labels/agreement", responses=NOT_FOUND)
def agreement(parts: TheParts, caller: Reader, profile: Alias, task_id: TaskId) -> LabelAgreement:
    """Agreement of people, and of the task with most of them and with feedback."""
    task = task_of(parts.registry, caller.space, profile, task_id)
    rows = _all_labels(parts.store, caller.space, profile, task_id)
    judged = _judged_of(parts.store, caller.space, rows, task_id.lower())
    outcomes = {uid: each.outcome for uid, each in judged.items()}
    scores = {uid: at for uid, (_, at) in judged.items() if at is not None}
    feedback = parts.store.feedback_beside(caller.space, profile, task_id.lower())
    return agreement_of(profile, task, rows, outcomes, scores, feedback)


@router.get("/labels/file", responses=NOT_FOUND, response_class=StreamingResponse)
def label_file(
    parts: TheParts,
    caller: Reader,
    profile: Alias,
    task_id: TaskId,
    contexts: Annotated[
        bool, Query(description="With the records' contexts, so that a judge can be called.")
    ] = True,
    format: Annotated[Literal["jsonl", "csv"], Query(description="Form of the lines.")] = ("jsonl"),
    draw: Annotated[
        int | None,
        Query(
            ge=1,
            le=LOOKED_AT,
            description="In place of the labels so many records to be labelled, drawn at "
            "random of those that the task passed and of those that it failed.",
        ),
    ] = None,
) -> Response:
    """Labels as the lines that `scouter judge calibrate` reads, with the judge's answers."""
    task = task_of(parts.registry, caller.space, profile, task_id)
    if draw is None:
        rows = _all_labels(parts.store, caller.space, profile, task_id)
        lines = _lines(parts.store, caller.space, rows, task_id.lower(), contexts=contexts)
    else:
        of = TaskOf(caller.space, profile, task.id)
        lines = _drawn(parts.store, of, task, draw, contexts=contexts)
    if format == "csv":
        return StreamingResponse(_csv(lines, contexts=contexts), media_type="text/csv")
    texts = (json.dumps(line).encode() + b"\n" for line in lines)
    return StreamingResponse(texts, media_type="application/x-ndjson")


def task_of(registry: ProfileRegistry, space: str, alias: str, task_id: str) -> Task:
    """Find a task of a registered profile.

    Raises:
        ProblemError: 404, there is none of that name.
    """
    profiles = [each.profile for each in registry.all(space) if each.profile.alias == alias]
    for profile in profiles:
        for task in profile.tasks:
            if task.id == task_id.lower():
                return task
    raise ProblemError(404, f"no registered profile {alias!r} has a task {task_id!r}")


def _all_labels(store: Store, space: str, alias: str, task_id: str) -> list[LabelRow]:
    query = LabelQuery(space=space, alias=alias, task_id=task_id.lower(), limit=MOST_LABELS)
    return list(store.labels(query))[::-1]


def _judge_score(task: TaskRow) -> float | None:
    """The number that a judge gave and its task compared."""
    is_decided = task.outcome in (Outcome.PASSED, Outcome.FAILED)
    return as_score(task.actual) if is_decided and task.task_type == "LLMJudge" else None


class _Judged(NamedTuple):
    """All that is stored of a task's result, which has texts."""

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
) -> Iterator[dict[str, JsonValue]]:
    for at in range(0, len(rows), _AT_A_TIME):
        part = rows[at : at + _AT_A_TIME]
        judged = _judged_of(store, space, part, task_id)
        uids = {each.uid for each in part}
        known = {each.uid: each for each in store.records_of(space, uids)}
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
            if row.is_blind is not None:
                line["is_blind"] = row.is_blind
            if row.notes:
                line["notes"] = row.notes
            origin = {"order": row.order, "stratum": row.stratum, "size": row.size}
            line |= {name: value for name, value in origin.items() if value is not None}
            record = known.get(row.uid)
            if record is not None:
                if record.session_id:
                    line["session"] = record.session_id
                if contexts:
                    line["context"] = record.context
            yield line


def _drawn(
    store: Store, of: TaskOf, task: Task, count: int, *, contexts: bool
) -> Iterator[dict[str, JsonValue]]:
    """Lines to be filled in, in an order that shows no outcome."""
    places = sorted(places_of(store, of)[:count], key=mixed)
    for at in range(0, len(places), _AT_A_TIME):
        part = places[at : at + _AT_A_TIME]
        records = {each.uid: each for each in store.records_of(of.space, {p.uid for p in part})}
        for place in part:
            record = records.get(place.uid)
            if record is not None:
                fields: dict[str, JsonValue] = {
                    "question": question_about(task, record.context),
                    "record_id": record.record_id, "task": of.task_id,
                    "session": record.session_id,
                }  # fmt: skip
                if contexts:
                    fields["context"] = record.context
                yield drawn_line(place, fields)


def _csv(lines: Iterator[dict[str, JsonValue]], *, contexts: bool) -> Iterator[bytes]:
    columns = _COLUMNS if contexts else _COLUMNS[:-1]
    for cells in chain([columns], ([cell(line.get(name)) for name in columns] for line in lines)):
        out = io.StringIO(newline="")
        csv.writer(out).writerow(cells)
        yield out.getvalue().encode("utf-8", "replace")
