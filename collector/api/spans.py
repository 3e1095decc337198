"""Spans by filter."""

from functools import cache
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from collector.api.parameters import NOT_FOUND, caught_up_router
from collector.api.parts import TheNames, TheStore
from collector.api.span_search import Status, check_judged, span_query, write_span_cursor
from collector.items.times import format_time
from collector.store.span_queries import SpanQuery, SpanSummary


class SpanItem(BaseModel):
    """A span without its attributes; those with a field of their own are there if it has them."""

    model_config = ConfigDict(frozen=True)

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    kind: str = Field(description="Such as client.")
    status: Status
    start: str
    duration_ms: float
    service_name: str | None = None
    service_version: str | None = None
    environment: str | None = None
    operation: str | None = None
    provider: str | None = None
    request_model: str | None = None
    response_model: str | None = None
    agent_name: str | None = None
    tool_name: str | None = None
    conversation_id: str | None = None
    error_type: str | None = None
    session_id: str | None = None
    finish_reason: str | None = Field(
        default=None,
        description="Why a model's call ended, in one word for all providers: stop, length, "
        "tool_call, content_filter, error, or the provider's own.",
    )


class SpanPage(BaseModel):
    """Spans, what was stored last first."""

    model_config = ConfigDict(frozen=True)

    items: list[SpanItem]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page.")


@cache
def spans_router() -> APIRouter:
    """Make the route `/api/v1/spans`."""
    router = caught_up_router()

    @router.get("/spans", response_model_exclude_unset=True, responses=NOT_FOUND)
    def spans(
        store: TheStore, names: TheNames, query: Annotated[SpanQuery, Depends(span_query)]
    ) -> SpanPage:
        """Spans that everything given is true of; times are those of their beginnings.

        `profile`, `outcome`, `task_id`, `task_outcome` and `tag` are of the latest evaluation on a
        record of the span's trace, all of the same one.
        """
        page = store.spans(query)
        if not page.items and query.before is None:
            check_judged(names, query)
        return SpanPage(
            items=[_item(each) for each in page.items],
            next_cursor=write_span_cursor(page.next_before),
        )

    return router


def _item(span: SpanSummary) -> SpanItem:
    position = span.position
    return SpanItem(
        trace_id=position.trace_id,
        span_id=position.span_id,
        parent_span_id=span.parent_span_id,
        name=span.name,
        kind=span.kind.name.lower(),
        status=Status[span.status.name],
        start=format_time(position.start_ns),
        duration_ms=max(0, span.end_ns - position.start_ns) / 1e6,
        **span.columns,
    )
