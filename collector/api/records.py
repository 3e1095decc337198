"""Accepted records: listed with their states, and one with all that was decided about it."""

import time
from dataclasses import replace
from functools import cache
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from collector.api import models
from collector.api.answers import match_answer
from collector.api.evaluations import evaluation_answer
from collector.api.parameters import (
    NOT_FOUND,
    SEARCH_S,
    Cursor,
    Limit,
    Profile,
    Reader,
    Text,
    Time,
    caught_up_router,
    read_cursor,
    read_time,
    write_cursor,
)
from collector.api.parts import TheJudges, TheNames, TheStore
from collector.api.waiting import why_not_evaluated
from collector.items.times import format_time
from collector.problem import ProblemError
from collector.store.record_queries import RecordQuery, RecordSummary
from collector.store.rows import RecordRow, RecordState
from collector.store.store import Store
from scouter.client.models.records import LetterReason
from scouter.client.models.text_match import TextMatch
from scouter.evaluate.outcome import Outcome


class RecordItem(BaseModel):
    """An accepted record, without its context."""

    model_config = ConfigDict(frozen=True)

    uid: str
    record_id: str = Field(description="The user's name for the record; may be empty.")
    session_id: str
    trace_id: str | None
    profile: str = Field(description="Alias of the profile, or what the sender called it.")
    profile_name: str = Field(description="Its full name; empty while it is not known.")
    state: RecordState
    outcome: Outcome | None = Field(description="Of the latest evaluation, where there is one.")
    created_at: str
    received_at: str
    tags: dict[str, str]
    context_bytes: int = Field(description="Size of the context as JSON.")
    match: TextMatch | None = Field(
        description="The place of the text that was searched; null without one, or where contexts "
        "are too long to look into."
    )


class RecordPage(BaseModel):
    """Records, newest first."""

    model_config = ConfigDict(frozen=True)

    items: list[RecordItem]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page.")
    is_partial: bool = Field(
        default=False,
        description="A search for a text ended for want of time; `next_cursor` goes on with it.",
    )
    looked_until: str | None = Field(
        default=None, description="When the oldest record was received that such a search read."
    )


class RecordDetail(BaseModel):
    """A record with its context, and every evaluation on it."""

    model_config = ConfigDict(frozen=True)

    uid: str
    record_id: str
    session_id: str
    trace_id: str | None
    profile: str = Field(description="Alias of the profile, or what the sender called it.")
    profile_name: str
    state: RecordState
    created_at: str
    received_at: str
    tags: dict[str, str]
    context: JsonValue
    evaluations: list[models.Evaluation] = Field(description="Every revision, newest first.")
    dead_letter: LetterReason | None
    waits_for: str = Field(description="Why it is not evaluated, in words; empty where it is.")


async def record_filter(
    caller: Reader,
    profile: Profile = None,
    record_id: Text = None,
    session_id: Text = None,
    trace_id: Text = None,
    state: RecordState | None = None,
    since: Time = None,
    until: Time = None,
) -> RecordQuery:
    """A dependency of routes: reads the filter."""
    return RecordQuery(
        space=caller.space,
        profile=profile,
        record_id=record_id,
        session_id=session_id,
        trace_id=trace_id.lower() if trace_id else None,
        state=state,
        since_ns=read_time("since", since),
        until_ns=read_time("until", until),
    )


@cache
def records_router() -> APIRouter:
    """Make the routes below `/api/v1/records`."""
    router = caught_up_router()

    @router.get("/records", responses=NOT_FOUND)
    def records(
        store: TheStore,
        names: TheNames,
        query: Annotated[RecordQuery, Depends(record_filter)],
        text: Annotated[
            str | None,
            Query(
                min_length=1,
                max_length=512,
                description="In a value or a name of the context, in upper or lower case.",
            ),
        ] = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> RecordPage:
        """Accepted records, newest first; times are those of acceptance.

        A search for a text ends after a second: the answer then is partial and says how far the
        search looked.
        """
        query = replace(query, limit=limit, before=read_cursor(cursor)[0])
        if text is not None:
            return _search(store, query, text)
        page = store.records(query)
        if not page.items and cursor is None:
            names.check(query.space, query.profile)
        return RecordPage(
            items=[record_item(each) for each in page.items],
            next_cursor=write_cursor(page.next_before),
        )

    @router.get("/records/{uid:path}", responses=NOT_FOUND)
    def record(
        store: TheStore,
        judges: TheJudges,
        caller: Reader,
        uid: Annotated[str, Path(max_length=512)],
    ) -> RecordDetail:
        """One record: what its sender said, and every revision of its evaluation."""
        found = store.record_history(caller.space, uid)
        if found is None:
            raise ProblemError(
                404,
                f"no record {uid!r} is stored; it may have been erased or be older than "
                "retention_days, it may have come as a dead letter (scouter letters list), or its "
                "sender left it out by sample_ratio or gave it up (scouter_queue_dropped_total)",
            )
        row, stored = found.record, found.letter
        return RecordDetail(
            uid=row.uid,
            record_id=row.record_id,
            session_id=row.session_id,
            trace_id=row.trace_id,
            profile=row.alias or row.profile_ref,
            profile_name=row.profile_name,
            state=found.state,
            created_at=format_time(row.created_ns),
            received_at=format_time(row.received_ns),
            tags=dict(row.tags),
            context=row.context,
            evaluations=[evaluation_answer(each, judges) for each in found.evaluations],
            dead_letter=None
            if stored is None
            else LetterReason(
                letter_id=stored.letter_id,
                reason=stored.letter.reason,
                message=stored.letter.message,
            ),
            waits_for=why_not_evaluated(store, found),
        )

    return router


def _search(store: Store, query: RecordQuery, text: str) -> RecordPage:
    end = time.monotonic() + SEARCH_S
    page = store.search_records(query, text, lambda: time.monotonic() >= end)
    at = page.looked_until_ns
    return RecordPage(
        items=[record_item(each) for each in page.items],
        next_cursor=write_cursor(page.next_before),
        is_partial=at is not None,
        looked_until=None if at is None else format_time(at),
    )


def record_item(summary: RecordSummary) -> RecordItem:
    """A record as listings show it."""
    row: RecordRow = summary.record
    return RecordItem(
        uid=row.uid,
        record_id=row.record_id,
        session_id=row.session_id,
        trace_id=row.trace_id,
        profile=row.alias or row.profile_ref,
        profile_name=row.profile_name,
        state=summary.state,
        outcome=summary.outcome,
        created_at=format_time(row.created_ns),
        received_at=format_time(row.received_ns),
        tags=dict(row.tags),
        context_bytes=summary.context_bytes,
        match=match_answer(summary.match),
    )
