"""Spans for tests, written as one line each."""

from collections.abc import Mapping

from scouter.evaluate.spans.tree import SpanTree
from scouter.model.span import AttributeValue, Resource, Span, SpanEvent, SpanKind, StatusCode

TRACE = "0af7651916cd43dd8448eb211c80319c"
MS = 1_000_000


def span(
    id: int,
    name: str,
    parent: int | None = None,
    at: tuple[float, float] = (0, 1),
    attributes: Mapping[str, AttributeValue] | None = None,
    *,
    status: StatusCode = StatusCode.UNSET,
    kind: SpanKind = SpanKind.INTERNAL,
    service: str = "agent",
    trace: str = TRACE,
    message: str = "",
    events: tuple[SpanEvent, ...] = (),
) -> Span:
    """One span; `at` is start and end in milliseconds."""
    return Span(
        trace_id=trace,
        span_id=f"{id:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        name=name,
        kind=kind,
        start_ns=round(at[0] * MS),
        end_ns=round(at[1] * MS),
        status=status,
        status_message=message,
        attributes=attributes or {},
        events=events,
        resource=Resource(attributes={"service.name": service}),
    )


def agent_trace() -> SpanTree:
    """A root with two model calls and three tool calls, the last one in error.

    Time order: run, chat, search, fetch, chat, save; depths 0 1 1 2 1 1; 250.9 ms in all.
    """
    return SpanTree(
        [
            span(6, "save", 1, (200, 240), {"size": 3}, status=StatusCode.ERROR, service="store"),
            span(1, "run", None, (0, 250.9), {"user": "ada", "ok": True}),
            span(2, "chat", 1, (10, 60), {"tokens": 100, "model": "m-1"}, kind=SpanKind.CLIENT),
            span(3, "search", 1, (60, 120), {"size": 1, "payload": '{"hits": [1, 2]}'}),
            span(4, "fetch", 3, (70, 110), {"size": 2, "tags": ("a", "b")}, status=StatusCode.OK),
            span(5, "chat", 1, (120, 200), {"tokens": 50, "model": "m-2"}, kind=SpanKind.CLIENT),
        ]
    )
