"""Routes of the labels of people."""

from typing import Literal, TypeAlias

from scouter.client.call import Call, PagedCall, Request, StreamCall, get, pages, post
from scouter.client.models.labels import (
    LabelAgreement,
    LabelItem,
    LabelledRecords,
    LabelQueue,
    LabelTasks,
)

LabelOrder: TypeAlias = Literal["random", "outcome", "failed", "uncertain", "disagrees"]
LabelStanding: TypeAlias = Literal[
    "contested", "tied", "differs", "undecided",
    "good_passed", "good_failed", "bad_passed", "bad_failed",
]  # fmt: skip


def labels(
    *,
    profile: str | None = None,
    task_id: str | None = None,
    rater: str | None = None,
    uid: str | None = None,
    limit: int | None = None,
) -> PagedCall[LabelItem]:
    """Labels of records, the newest first; the last one of each person, task and record.

    Args:
        profile: Alias.
        task_id: Of the task.
        rater: The person.
        uid: Of the record.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return pages("/labels", LabelItem, dict(locals()))


def label(
    uid: str,
    task_id: str,
    label: bool | None,
    rater: str,
    notes: str = "",
    *,
    score: float | None = None,
    is_blind: bool | None = None,
    order: LabelOrder | None = None,
) -> Call[LabelItem]:
    """Say whether a record is good, as a task on it asks. Needs the scope label.

    Args:
        uid: Of the record.
        task_id: Of the task.
        label: Whether it is good; None beside a score, and to take an earlier label back.
        rater: The person.
        notes: For people.
        score: In place of the label: a number on the scale of the task.
        is_blind: Whether they gave it without having seen the outcome or other labels.
        order: Order of the queue that the record came from; None if from none.
    """
    return post("/labels", LabelItem, body=dict(locals()))


def label_tasks() -> Call[LabelTasks]:
    """Tasks of active profiles, with their labels and the calibration of their judge."""
    return get("/labels/tasks", LabelTasks)


def label_queue(
    profile: str,
    task_id: str,
    *,
    rater: str = "",
    order: LabelOrder = "random",
    reveal: bool = False,
    uid: str | None = None,
    offset: int | None = None,
    limit: int | None = None,
) -> Call[LabelQueue]:
    """Records that a person has not labelled, in order.

    Args:
        profile: Alias.
        task_id: Of the task.
        rater: The person.
        order: Records that come first.
        reveal: Tell how the task ended, and what others said.
        uid: This record in place of the next, whether they labelled it or not.
        offset: Records to pass over.
        limit: Records, up to 20; by default one. 0 counts only.
    """
    return get("/labels/queue", LabelQueue, query=dict(locals()))


def label_records(
    profile: str,
    task_id: str,
    *,
    standing: LabelStanding | None = None,
    rater: str | None = None,
    offset: int | None = None,
    limit: int | None = None,
) -> Call[LabelledRecords]:
    """Records that have labels, with all labels on them and how the task ended.

    Args:
        profile: Alias.
        task_id: Of the task.
        standing: Those of which people and task stand so to each other.
        rater: Those that this person labelled.
        offset: Records to pass over.
        limit: Records, up to 100; by default 20.
    """
    return get("/labels/records", LabelledRecords, query=dict(locals()))


def label_agreement(profile: str, task_id: str) -> Call[LabelAgreement]:
    """Agreement of people with each other on a task, and of its judge with most of them.

    Args:
        profile: Alias.
        task_id: Of the task.
    """
    return get("/labels/agreement", LabelAgreement, query=dict(locals()))


def label_file(
    profile: str,
    task_id: str,
    *,
    contexts: bool | None = None,
    format: Literal["jsonl", "csv"] | None = None,
    draw: int | None = None,
) -> StreamCall:
    """Labels on a task as the lines that `scouter judge calibrate` reads; or lines to fill in.

    Args:
        profile: Alias.
        task_id: Of the task.
        contexts: With the records' contexts, as by default, so that a judge can be asked.
        format: JSON lines, as by default, or CSV.
        draw: In place of the labels so many records, drawn at random of each outcome.
    """
    return StreamCall(request=Request(method="GET", path="/labels/file", query=dict(locals())))
