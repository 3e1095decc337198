"""Feedback: what people say of a trace, a record or a conversation, also days later."""

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Self

from fastapi import APIRouter, Depends
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from collector.access.caller import Caller, Needs, Scope
from collector.api.parameters import NOT_FOUND, api_router, read_trace_id
from collector.api.parts import TheIngest, TheStore
from collector.items.record_items import json_bytes
from collector.items.times import parse_time_ns
from collector.problem import ProblemError
from collector.receivers.answers import problem_of
from collector.store.record_queries import RecordQuery
from collector.store.rows import RecordRow
from collector.store.store import Store
from scouter.client.models.operation import FeedbackTaken
from scouter.errors import DataError, TransientError
from scouter.model.attributes import RESOURCE_TAGS
from scouter.model.score import PEOPLE

USER: str = "user.id"
"""Tag with the user who gave the feedback; an erasure by it takes the feedback."""


class FeedbackItem(BaseModel):
    """Feedback of one person; at least one of value, stars, label and text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trace_id: Annotated[str, AfterValidator(read_trace_id)] | None = Field(
        default=None, description="32 hex digits: the trace that it is about."
    )
    record_uid: str | None = Field(default=None, min_length=1, max_length=512)
    record_id: str | None = Field(
        default=None, min_length=1, max_length=512, description="The newest record of this id."
    )
    session_id: str | None = Field(default=None, min_length=1, max_length=512)
    name: str = Field(default="feedback", min_length=1, max_length=120, description="Of the score.")
    value: bool | Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        default=None, description="A thumb, true for up; or a number on the scale of the score."
    )
    stars: int | None = Field(default=None, ge=1, le=5, description="In place of a value.")
    label: str = Field(default="", max_length=512)
    text: str = Field(default="", max_length=4_096)
    user_id: str = Field(default="", max_length=512, description="The person; becomes a tag.")
    id: str = Field(
        default="",
        max_length=512,
        description="Key of the feedback: it counts once, however often it is sent. Without it "
        "the same feedback counts once.",
    )
    at: int | str | None = Field(
        default=None, description="When it was given: nanoseconds since the epoch, or RFC 3339."
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        about = [self.trace_id, self.record_uid, self.record_id, self.session_id]
        if not any(about):
            raise ValueError(
                "it is about nothing; expected one of trace_id, record_uid, record_id, session_id"
            )
        if self.value is None and self.stars is None and not (self.label or self.text):
            raise ValueError("it says nothing; expected value, stars, label or text")
        if self.value is not None and self.stars is not None:
            raise ValueError("value and stars: expected one of them")
        parse_time_ns(0 if self.at is None else self.at)
        return self

    def score(self, of: str) -> dict[str, JsonValue]:
        """The same as a score from outside, about a record."""
        value, label = self.value, self.label
        if isinstance(value, bool):
            value, label = float(value), label or ("good" if value else "bad")
        if self.stars is not None:
            value, label = (self.stars - 1) / 4, label or f"{self.stars} of 5 stars"
        return {
            "name": self.name, "value": value, "label": label, "explanation": self.text,
            "source": PEOPLE, "by": self.user_id, "of": of, "id": self.id,
            "at": self.at or time.time_ns(),
        }  # fmt: skip


class FeedbackBatch(BaseModel):
    """Feedback of several people."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    items: tuple[FeedbackItem, ...] = Field(min_length=1, max_length=1_000)


@cache
def feedback_router() -> APIRouter:
    """Make the route `/api/v1/feedback`."""
    router = api_router(tag="labels")

    @router.post("/feedback", responses=NOT_FOUND)
    def feedback(
        store: TheStore,
        ingest: TheIngest,
        caller: Annotated[Caller, Depends(Needs(Scope.INGEST))],
        body: FeedbackItem | FeedbackBatch,
    ) -> FeedbackTaken:
        """Say whether an answer was good: a thumb, stars, a label or a text, of one or several.

        It becomes the result of a task of its name: see `scores` of a profile. All of it is stored,
        or nothing.
        """
        space = caller.space
        items = body.items if isinstance(body, FeedbackBatch) else (body,)
        records = [_record(store, space, each) for each in items]
        into = ingest.in_space(space)
        try:
            with into.lease():
                taken = into.records(json_bytes({"records": records}), "feedback")
                for each in taken.futures:
                    each.result()
        except (DataError, TransientError) as error:
            raise problem_of(error) from error
        outcome = taken.outcome()
        if outcome.problems:
            first = outcome.problems[0]
            raise ProblemError(409 if first.reason == "conflict" else 400, first.message)
        return FeedbackTaken(accepted=outcome.accepted, duplicates=outcome.duplicates)

    return router


def _record(store: Store, space: str, item: FeedbackItem) -> dict[str, JsonValue]:
    """The record that carries it, with what the store knows of its subject."""
    row = _about(store, space, item)
    is_of_record = row is not None and not item.session_id
    tags: dict[str, JsonValue] = {**_agent(store, row)}
    if item.user_id:
        tags[USER] = item.user_id
    return {
        "score": item.score(row.uid if row is not None and is_of_record else ""),
        "trace_id": item.trace_id or (row.trace_id if row is not None and is_of_record else None),
        "session_id": item.session_id or (row.session_id if row is not None else ""),
        "record_id": item.record_id or (row.record_id if row is not None and is_of_record else ""),
        "created_at": None if row is None else row.created_ns,
        "tags": tags,
    }  # fmt: skip


def _about(store: Store, space: str, item: FeedbackItem) -> RecordRow | None:
    """The record that it is about, or the newest one of its session; None where none is known.

    Raises:
        ProblemError: 404: it names a record that is not stored.
    """
    if item.record_uid is not None:
        found = next(iter(store.records_of(space, [item.record_uid])), None)
    else:
        if item.record_id is None and item.session_id is None:
            return None
        query = RecordQuery(space=space, record_id=item.record_id, session_id=item.session_id)
        found = _newest(store, query)
    if found is None and (name := item.record_uid or item.record_id):
        raise ProblemError(404, f"no record {name!r} is stored")
    return found


def _newest(store: Store, query: RecordQuery) -> RecordRow | None:
    """The newest record that is no score itself."""
    while True:
        page = store.records(query)
        for each in page.items:
            if not each.record.is_score:
                return each.record
        if page.next_before is None:
            return None
        query = replace(query, before=page.next_before)


def _agent(store: Store, row: RecordRow | None) -> Mapping[str, str]:
    """Service, version and environment of a record's evaluation, as tags."""
    if row is None:
        return {}
    evaluation = store.latest_evaluations([(row.space, row.uid)]).get((row.space, row.uid))
    if evaluation is None:
        return {}
    names = evaluation.service_name, evaluation.service_version, evaluation.environment
    return {key: text for key, text in zip(RESOURCE_TAGS, names, strict=True) if text}
