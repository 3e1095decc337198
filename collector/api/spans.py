"""Spans by filter, and the filters of traces."""

import base64
import binascii
import math
import struct
from dataclasses import fields, replace
from enum import StrEnum
from typing import Annotated, Final, TypeVar

from fastapi import Depends, Query

from collector.api.parameters import (
    BAD_CURSOR,
    NOT_FOUND,
    Attributes,
    Cursor,
    Limit,
    OutcomeOrBad,
    Reader,
    Tags,
    Text,
    Time,
    api_router,
    read_attributes,
    read_tags,
    read_time,
)
from collector.api.parts import KnownNames, TheParts
from collector.items.times import time_at
from collector.problem import ProblemError
from collector.store.span_queries import JudgedBy, SpanPosition, SpanQuery, SpanSummary, TraceQuery
from scouter.client.models.answer import Page
from scouter.client.models.traces import SpanItem
from scouter.model.span import StatusCode

_CURSOR: Final = struct.Struct(">QQQ16s8s")
"""As of which commit (0 for none), commit, start, trace id, span id."""
_MOST_NS: Final = 2**63
_COLUMNS: Final = (
    "service_name", "service_version", "environment", "operation", "provider", "request_model",
    "response_model", "agent_name", "tool_name", "conversation_id", "error_type", "session_id",
    "finish_reason", "user_id",
)  # fmt: skip
"""Columns of spans that parameters of the same names filter."""
_Q = TypeVar("_Q", bound=SpanQuery)


class SpanStatus(StrEnum):
    """A span's status."""

    OK = "ok"
    ERROR = "error"
    UNSET = "unset"


async def judged_filter(
    profile: Annotated[
        str | None,
        Query(
            max_length=512,
            description="Alias, name, uid or digest of the latest evaluation on a record of the "
            "span's trace. The next four are of the same evaluation.",
        ),
    ] = None,
    outcome: OutcomeOrBad = None,
    task_id: Text = None,
    task_outcome: OutcomeOrBad = None,
    tag: Tags = [],  # noqa: B006 FastAPI copies it
) -> JudgedBy | None:
    """A dependency of routes: reads the filter by evaluations; None without any."""
    judged = JudgedBy(
        profile=profile,
        outcome=outcome,
        task_id=task_id,
        task_outcome=task_outcome,
        tags=read_tags(tag),
    )
    return None if judged == JudgedBy() else judged


async def _of_spans(
    caller: Reader,
    name: Text = None,
    service_name: Text = None,
    service_version: Text = None,
    environment: Text = None,
    operation: Text = None,
    provider: Text = None,
    request_model: Text = None,
    response_model: Text = None,
    agent_name: Text = None,
    tool_name: Text = None,
    conversation_id: Text = None,
    error_type: Text = None,
    session_id: Text = None,
    finish_reason: Text = None,
    user_id: Text = None,
    attributes: Attributes = [],  # noqa: B006 FastAPI copies it
    status: SpanStatus | None = None,
    min_duration_ms: Annotated[float | None, Query(ge=0, le=1e12)] = None,
    min_tokens: Annotated[
        int | None,
        Query(ge=0, le=2**40, description="Of one call of a model, input and output together."),
    ] = None,
    since: Time = None,
    until: Time = None,
) -> SpanQuery:
    """A dependency: reads the filter by what spans are."""
    given = locals()
    return SpanQuery(
        space=caller.space,
        name=name,
        columns={each: given[each] for each in _COLUMNS if given[each] is not None},
        attributes=read_attributes(attributes),
        status=None if status is None else StatusCode[status.name],
        min_duration_ns=math.ceil(min_duration_ms * 1e6) if min_duration_ms else None,
        min_tokens=min_tokens or None,
        since_ns=read_time("since", since),
        until_ns=read_time("until", until),
    )


async def span_filter(
    query: Annotated[SpanQuery, Depends(_of_spans)],
    judged: Annotated[JudgedBy | None, Depends(judged_filter)],
) -> SpanQuery:
    """A dependency of routes: reads the filter."""
    return replace(query, judged=judged)


async def span_query(
    query: Annotated[SpanQuery, Depends(span_filter)], limit: Limit = 100, cursor: Cursor = None
) -> SpanQuery:
    """A dependency of routes: reads the filter and which page is requested."""
    return _at_page(query, limit, cursor)


async def trace_filter(
    query: Annotated[SpanQuery, Depends(span_filter)],
    without_tool: Annotated[
        str | None,
        Query(
            max_length=512,
            description="No span of the trace, whatever its time, is a call of this tool.",
        ),
    ] = None,
    same_span: Annotated[
        bool,
        Query(
            description="One span of the trace meets all filters by spans, and has the text, if "
            "there is one; else each filter is met by some span."
        ),
    ] = False,
) -> TraceQuery:
    """A dependency of routes: reads the filter of traces."""
    given = {each.name: getattr(query, each.name) for each in fields(query)}
    return TraceQuery(**given, without_tool=without_tool, is_same_span=same_span)


async def trace_query(
    query: Annotated[TraceQuery, Depends(trace_filter)], limit: Limit = 100, cursor: Cursor = None
) -> TraceQuery:
    """A dependency of routes: reads the filter of traces and which page is requested."""
    return _at_page(query, limit, cursor)


def check_judged(names: KnownNames, query: SpanQuery) -> None:
    """Look whether the profile and the task of a filter exist.

    Raises:
        ProblemError: 404; names the nearest ones that do.
    """
    if query.judged is not None:
        names.check(query.space, query.judged.profile, query.judged.task_id)


def _at_page(query: _Q, limit: int, cursor: str | None) -> _Q:
    before, as_of = (None, None) if cursor is None else read_span_cursor(cursor)
    return replace(query, limit=limit, before=before, as_of=as_of)


def write_span_cursor(position: SpanPosition | None, as_of: int | None = None) -> str | None:
    """Write a position as a text that clients pass back unread."""
    if position is None:
        return None
    ids = bytes.fromhex(position.trace_id), bytes.fromhex(position.span_id)
    packed = _CURSOR.pack(as_of or 0, position.seq, position.start_ns, *ids)
    return base64.urlsafe_b64encode(packed).decode()


def read_span_cursor(text: str) -> tuple[SpanPosition, int | None]:
    """Read a cursor: the position, and as of which commit the listing is.

    Raises:
        ProblemError: 400; it was not written by `write_span_cursor`.
    """
    try:
        packed = base64.b64decode(text.encode("ascii"), b"-_", validate=True)
        as_of, seq, start_ns, trace_id, span_id = _CURSOR.unpack(packed)
        if max(as_of, seq, start_ns) >= _MOST_NS:
            raise ValueError
    except (ValueError, binascii.Error, struct.error) as error:
        raise ProblemError(400, BAD_CURSOR) from error
    return SpanPosition(seq, start_ns, trace_id.hex(), span_id.hex()), as_of or None


router = api_router()


@router.get("/spans", response_model_exclude_unset=True, responses=NOT_FOUND)
def spans(parts: TheParts, query: Annotated[SpanQuery, Depends(span_query)]) -> Page[SpanItem]:
    """Spans that everything given is true of; times are those of their beginnings.

    `profile`, `outcome`, `task_id`, `task_outcome` and `tag` are of the latest evaluation on a
    record of the span's trace, all of the same one.
    """
    page = parts.store.spans(query)
    if not page.items and query.before is None:
        check_judged(parts.names, query)
    return Page[SpanItem](
        items=tuple(_item(each) for each in page.items),
        next_cursor=write_span_cursor(page.next_before),
    )


def _item(span: SpanSummary) -> SpanItem:
    position = span.position
    return SpanItem(
        trace_id=position.trace_id,
        span_id=position.span_id,
        parent_span_id=span.parent_span_id,
        name=span.name,
        kind=span.kind.name.lower(),
        status=SpanStatus[span.status.name].value,
        start=time_at(position.start_ns),
        duration_ms=max(0, span.end_ns - position.start_ns) / 1e6,
        **span.columns,
    )
