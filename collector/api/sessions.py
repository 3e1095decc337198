"""Sessions: which there are, and what one consists of."""

import math
import time
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query

from collector.api.evaluations import evaluation_answer
from collector.api.parameters import (
    MOST_TEXTS,
    NOT_FOUND,
    SEARCH_S,
    Attributes,
    Cursor,
    Limit,
    OutcomeOrBad,
    Profile,
    Reader,
    Tags,
    Text,
    Texts,
    Time,
    answer_of,
    api_router,
    cost_fields,
    read_attributes,
    read_cursor,
    read_tags,
    read_time,
    write_cursor,
)
from collector.api.parts import TheParts
from collector.api.records import record_items
from collector.items.times import time_at
from collector.prices import PriceTable
from collector.problem import ProblemError
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.reads import OutcomeFilter
from collector.store.record_queries import RecordQuery, SessionQuery, SessionSummary
from scouter.client.models.answer import Searched
from scouter.client.models.records import Session, SessionItem

_MOST: Final = 1000


async def session_filter(
    caller: Reader,
    profile: Profile = None,
    outcome: Annotated[
        OutcomeFilter | None,
        Query(
            description="`failed`, `errored`, `not_passed` (either), `pending`: of one record at "
            "least, or of the session itself. `passed`: of all, skipped ones aside. `skipped`: of "
            "all."
        ),
    ] = None,
    task_id: Text = None,
    task_outcome: OutcomeOrBad = None,
    tag: Tags = [],  # noqa: B006 FastAPI copies it
    tool_name: Text = None,
    response_model: Text = None,
    user_id: Text = None,
    attributes: Attributes = [],  # noqa: B006 FastAPI copies it
    min_duration_ms: Annotated[
        float | None,
        Query(ge=0, le=1e12, description="From the start of its first span to the end of its last"),
    ] = None,
    min_tokens: Annotated[
        int | None,
        Query(ge=0, le=2**40, description="Of all calls of models, input and output together."),
    ] = None,
    since: Time = None,
    until: Time = None,
) -> SessionQuery:
    """A dependency of routes: reads the filter."""
    return SessionQuery(
        space=caller.space,
        profile=profile,
        outcome=outcome,
        task_id=task_id,
        task_outcome=task_outcome,
        tags=read_tags(tag),
        tool_name=tool_name,
        response_model=response_model,
        user_id=user_id,
        attributes=read_attributes(attributes),
        min_duration_ns=math.ceil(min_duration_ms * 1e6) if min_duration_ms else None,
        min_tokens=min_tokens or None,
        since_ns=read_time("since", since),
        until_ns=read_time("until", until),
    )


router = api_router()


@router.get("/sessions", responses=NOT_FOUND)
def sessions(
    parts: TheParts,
    query: Annotated[SessionQuery, Depends(session_filter)],
    text: Annotated[
        Texts,
        Query(
            max_length=MOST_TEXTS,
            description="In a record's context, or in a span of its trace: as that of "
            "`/records`, or that of `/traces`. One record and its trace have all of several.",
        ),
    ] = [],  # noqa: B006 FastAPI copies it
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Searched[SessionItem]:
    """Sessions with a record that the filter names, the one with the newest such record first.

    `profile`, `text` and times, which are those of acceptance, ask for a record; all other
    filters ask something of the whole session. The counts include all records of a session. A
    search by `text` or by such a filter ends after a second: the answer then is partial and
    says how far it looked.
    """
    before, as_of = read_cursor(cursor)
    end = time.monotonic() + SEARCH_S
    query = replace(query, as_of=as_of, limit=limit, before=before)
    page = parts.store.sessions(query, lambda: time.monotonic() >= end, text)
    if not page.items and cursor is None:
        parts.names.check(query.space, query.profile, query.task_id)
    at = page.looked_until_ns
    return Searched[SessionItem](
        items=tuple(
            answer_of(SessionItem, each, **_shown(each, parts.prices)) for each in page.items
        ),
        next_cursor=write_cursor(page.next_before, page.as_of),
        is_partial=at is not None,
        looked_until=None if at is None else time_at(at),
    )


@router.get("/sessions/{session_id:path}", responses=NOT_FOUND)
def session(
    parts: TheParts,
    caller: Reader,
    session_id: Annotated[str, Path(max_length=512)],
    limit: Limit = _MOST,
) -> Session:
    """One session: its records, evaluations and traces."""
    space = caller.space
    found = parts.store.session(space, session_id)
    if found is None:
        raise ProblemError(404, f"no record of a session {session_id!r} is stored")
    records = parts.store.records(RecordQuery(space=space, session_id=session_id, limit=limit))
    newest = parts.store.evaluations(
        EvaluationQuery(space=space, session_id=session_id, limit=limit)
    )
    return answer_of(
        Session,
        found,
        **_shown(found, parts.prices),
        items=record_items(parts.store, parts.prices, space, records.items),
        evaluations=tuple(evaluation_answer(each, parts.judges) for each in newest.items),
        trace_ids=tuple(parts.store.session_traces(space, session_id, limit)),
    )


def _shown(summary: SessionSummary, prices: PriceTable) -> dict[str, Any]:
    """The fields of a `SessionItem` that its row calls otherwise."""
    took_ns = summary.duration_ns
    return {
        "first_at": time_at(summary.first_ns),
        "last_at": time_at(summary.last_ns),
        "duration_ms": None if took_ns is None else max(0, took_ns) / 1e6,
        **cost_fields(prices.total(summary.models)),
    }
