"""Feedback: what people say of a trace, a record or a conversation, also days later."""

import time
from dataclasses import replace
from typing import Annotated, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    StrictInt,
    StringConstraints,
    Tag,
    model_validator,
)

from collector.api.parameters import NOT_FOUND, Sender, api_router, read_trace_id
from collector.api.parts import TheParts
from collector.items.record_items import json_bytes
from collector.items.times import parse_time_ns
from collector.problem import ProblemError
from collector.receivers.refusals import problem_of
from collector.store.record_queries import RecordQuery
from collector.store.rows import NO_TAGS, RecordRow
from collector.store.span_queries import TraceQuery
from collector.store.store import Store
from collector.worker.records import TraceView
from collector.worker.trace_facts import read_trees
from scouter.client.models.operation import FeedbackTaken
from scouter.errors import DataError, TransientError
from scouter.evaluate.results.task_result import as_score
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.attributes import RESOURCE_TAGS
from scouter.model.score import PEOPLE

USER: str = "user.id"
"""Tag with the user who gave the feedback; an erasure by it takes the feedback."""


def _value(value: object) -> object:
    """Take a flag or a number: what is neither is one problem, and not one of each type."""
    flag = {"true": True, "false": False}.get(str(value).lower())
    found = as_score(value) if flag is None else flag
    if found is None and value is not None:
        raise ValueError(f"expected true, false or a number, got {value!r:.80}; a word is a label")
    return found


def _time(value: int | str | None) -> int | None:
    return None if value is None else parse_time_ns(value)


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
    name: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(
        default="feedback", min_length=1, max_length=120, description="Of the score."
    )
    value: Annotated[bool | float | None, BeforeValidator(_value)] = Field(
        default=None, description="A thumb, true for up; or a number on the scale of the score."
    )
    stars: StrictInt | None = Field(default=None, ge=1, le=5, description="In place of a value.")
    label: str = Field(default="", max_length=512)
    text: str = Field(default="", max_length=4_096)
    user_id: str = Field(default="", max_length=512, description="The person; becomes a tag.")
    id: str = Field(
        default="",
        max_length=512,
        description="Key of the feedback: it counts once, however often it is sent. Without it "
        "the same feedback counts once.",
    )
    at: Annotated[int | str | None, AfterValidator(_time)] = Field(
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


def _form(body: object) -> str:
    is_batch = isinstance(body, FeedbackBatch) or (isinstance(body, dict) and "items" in body)
    return "batch" if is_batch else "feedback"


_Body: TypeAlias = Annotated[
    Annotated[FeedbackItem, Tag("feedback")] | Annotated[FeedbackBatch, Tag("batch")],
    Discriminator(_form),
]


router = api_router(tag="labels")


@router.post("/feedback", responses=NOT_FOUND)
def feedback(parts: TheParts, caller: Sender, body: _Body) -> FeedbackTaken:
    """Say whether an answer was good: a thumb, stars, a label or a text, of one or several.

    It becomes the result of a task of its name: see `scores` of a profile. All of it is stored,
    or nothing.
    """
    space = caller.space
    items = body.items if isinstance(body, FeedbackBatch) else (body,)
    if fault := parts.registry.lacks_place(space, (each.name for each in items)):
        raise ProblemError(409, f"name: {fault}")
    records = [_record(parts.store, space, each) for each in items]
    into = parts.ingest.in_space(space)
    try:
        with into.lease():
            data = json_bytes({"records": records})
            taken = into.records(data, "feedback", is_whole=True)
            for each in taken.futures:
                each.result()
    except (DataError, TransientError) as error:
        raise problem_of(error) from error
    outcome = taken.outcome
    if outcome.problems:
        first = outcome.problems[0]
        if first.reason != "conflict":
            raise ProblemError(400, f"{_form(body)} {first.index}: {first.message}")
        raise ProblemError(
            409,
            f"id: {items[first.index].id!r} was accepted before with another content, or has "
            "two in this batch; give other feedback an id of its own",
        )
    return FeedbackTaken(accepted=outcome.accepted, duplicates=outcome.duplicates)


def _record(store: Store, space: str, item: FeedbackItem) -> dict[str, JsonValue]:
    """The record that carries it, with what the store knows of its subject."""
    row = _about(store, space, item)
    is_of_record = row is not None and not item.session_id
    created_ns, named = (None, NO_TAGS) if row is None else (row.created_ns, row.tags)
    if item.session_id and (tree := _trace(store, space, item.session_id, row)):
        resource = TraceView.of(tree).resource_of(row.uid if row else "")
        named = {**named, **resource.attributes}
        created_ns = min(created_ns or tree.start_ns, tree.start_ns)
    tags: dict[str, JsonValue] = {key: str(named[key]) for key in RESOURCE_TAGS if named.get(key)}
    if item.user_id:
        tags[USER] = item.user_id
    return {
        "score": item.score(row.uid if row is not None and is_of_record else ""),
        "trace_id": item.trace_id or (row.trace_id if row is not None and is_of_record else None),
        "session_id": item.session_id or (row.session_id if row is not None else ""),
        "record_id": item.record_id or (row.record_id if row is not None and is_of_record else ""),
        "created_at": created_ns,
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
        raise ProblemError(
            404, f"no record {name!r} is stored; send it again later, or give its trace_id"
        )
    return found


def _trace(store: Store, space: str, session_id: str, row: RecordRow | None) -> SpanTree | None:
    """The trace of a record, or the newest one of a conversation without records."""
    found = [row.trace_id] if row is not None and row.trace_id else []
    for column in ("conversation_id", "session_id"):
        if not found:
            query = TraceQuery(space=space, columns={column: session_id}, limit=1)
            found = [each.trace_id for each in store.traces(query).items]
    return next(iter(read_trees(store, space, found[:1]).values()), None)


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
