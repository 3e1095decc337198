"""A trace as it is stored, alone or with those that belong to it under ids of their own."""

from typing import Annotated, Final

from fastapi import Path, Query

from collector.api.parameters import (
    NOT_FOUND,
    Reader,
    answer_of,
    api_router,
    cost_fields,
    read_trace_id,
)
from collector.api.parts import TheParts
from collector.items.times import time_at
from collector.prices import PriceTable
from collector.problem import ProblemError
from collector.store.rows import StoredTrace
from collector.store.span_queries import TraceSummary
from collector.store.store import Store
from scouter.client.models.traces import TraceItem, TraceLink, TraceLinks
from scouter.evaluate.show.agent_lines import TurnText
from scouter.evaluate.spans.halves import Half, find_halves, join_halves
from scouter.model.span import Span

_TRACE_ID: Final = "^[0-9A-Fa-f]{32}$"
MOST_EVALUATIONS: Final = 1000
TraceId = Annotated[
    str, Path(description="32 hex digits.", json_schema_extra={"pattern": _TRACE_ID})
]
Joined = Annotated[
    bool,
    Query(
        description="With the spans and evaluations of the traces that `/links` lists, each below "
        "the span that called it."
    ),
]


def read_stored(
    store: Store, space: str, trace_id: str, *, joined: bool = False
) -> tuple[str, StoredTrace]:
    """Read a trace that a path names; gives its id in lower case, too.

    Args:
        store: Has it.
        space: Its space.
        trace_id: As the path has it.
        joined: With the traces that belong to it, as one.

    Raises:
        ProblemError: 400, that is no trace id; 404, no span of it is stored.
    """
    try:
        wanted = read_trace_id(trace_id)
    except ValueError as error:
        raise ProblemError(400, f"trace_id: {error}") from error
    found = store.trace(space, wanted, MOST_EVALUATIONS)
    if not found.spans:
        raise ProblemError(404, f"no span of the trace {wanted} is stored")
    if not joined:
        return wanted, found
    halves, others = _halves(store, space, found.spans)
    rows = [
        row
        for each in halves
        for row in store.trace(space, each.trace_id, MOST_EVALUATIONS).evaluations
    ]
    return wanted, StoredTrace(
        spans=join_halves(found.spans, others, halves), evaluations=(*found.evaluations, *rows)
    )


def _halves(
    store: Store, space: str, spans: list[Span]
) -> tuple[list[Half], dict[str, list[Span]]]:
    """The traces that belong to one, and the spans of all that may."""
    others = store.spans_of(space, store.linked_traces(space, spans))
    return find_halves(spans, others), others


router = api_router("/traces/{trace_id}")


@router.get("/links", responses=NOT_FOUND)
def links(parts: TheParts, caller: Reader, trace_id: TraceId) -> TraceLinks:
    """Traces that belong to this one under ids of their own, in the order in which they began.

    Their spans name it, or it names theirs: by a span link, or by a `traceparent` that came as
    data, as in MCP's `params._meta`. Or spans of both have the id of one A2A task, or session
    and id of one MCP request. Traces within a day are searched, and at most 20 are listed of
    those that this one does not name.
    """
    wanted, found = read_stored(parts.store, caller.space, trace_id)
    halves, _ = _halves(parts.store, caller.space, found.spans)
    summaries = parts.store.trace_summaries(caller.space, [each.trace_id for each in halves])
    return TraceLinks(
        trace_id=wanted,
        items=tuple(
            answer_of(TraceLink, each, trace=trace_item(summaries[each.trace_id], parts.prices))
            for each in halves
            if each.trace_id in summaries
        ),
    )


def trace_item(
    trace: TraceSummary, prices: PriceTable, question: TurnText | None = None
) -> TraceItem:
    """A trace as listings show it."""
    records = trace.records
    return answer_of(
        TraceItem,
        trace,
        start=time_at(trace.start_ns),
        duration_ms=max(0, trace.end_ns - trace.start_ns) / 1e6,
        tools=tuple(trace.tools),
        records=0 if records is None else records.count,
        uid=None if records is None else records.uid,
        record_id=None if records is None else records.record_id,
        outcomes=() if records is None else tuple(records.outcomes),
        question=question,
        **cost_fields(prices.total(trace.models)),
    )
