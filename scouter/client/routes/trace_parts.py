"""Routes of the parts of a trace, which may be of any length."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from scouter.client.call import Call, Request, StreamCall, get
from scouter.client.models.trace_parts import (
    SpanDetail,
    TraceAgents,
    TraceMatches,
    TraceRows,
    TraceTurn,
)


def trace_columns(trace_id: str, *, limit: int | None = None) -> Call[TraceRows]:
    """The rows of a waterfall as one array a field, with the results of the trace.

    Args:
        trace_id: 32 hex digits.
        limit: Most rows; all of them by default.
    """
    path, at = "/traces/{trace_id}/columns", {"trace_id": trace_id}
    return get(path, TraceRows, at=at, query={"limit": limit})


def trace_agents(trace_id: str) -> Call[TraceAgents]:
    """The work of each agent of a trace: calls, tools, retries, tokens, cost and hand-overs.

    Args:
        trace_id: 32 hex digits.
    """
    return get("/traces/{trace_id}/agents", TraceAgents, at={"trace_id": trace_id})


def trace_turn(trace_id: str) -> Call[TraceTurn]:
    """A trace as a turn of a conversation: question, calls of tools, answer.

    Args:
        trace_id: 32 hex digits.
    """
    return get("/traces/{trace_id}/turn", TraceTurn, at={"trace_id": trace_id})


def trace_matches(trace_id: str, filter: str | Mapping[str, JsonValue]) -> Call[TraceMatches]:
    """The spans of a trace that a filter selects.

    Args:
        trace_id: 32 hex digits.
        filter: A span filter as profiles write it, such as
            `{"WithStatus": {"status": "Error"}}`, or a pattern that is searched for in names.
    """
    path, at = "/traces/{trace_id}/matches", {"trace_id": trace_id}
    text = filter if isinstance(filter, str) else json.dumps(dict(filter))
    return get(path, TraceMatches, at=at, query={"filter": text})


def trace_export(trace_id: str) -> StreamCall:
    """The spans of a trace as a file of OTLP JSON.

    Args:
        trace_id: 32 hex digits.
    """
    path, at = "/traces/{trace_id}/export", {"trace_id": trace_id}
    return StreamCall(request=Request(method="GET", path=path, places=at))


def span(trace_id: str, span_id: str, *, text_limit: int | None = None) -> Call[SpanDetail]:
    """One span with its values, messages and the results that are about it.

    Args:
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
        text_limit: Characters that are kept of each text, at least 32; all by default.
    """
    path, at = "/traces/{trace_id}/spans/{span_id}", {"trace_id": trace_id, "span_id": span_id}
    return get(path, SpanDetail, at=at, query={"text_limit": text_limit})


def span_value(trace_id: str, span_id: str, pointer: str) -> StreamCall:
    """One value of a span as the bytes of a file: a text as it is, anything else as JSON.

    Args:
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
        pointer: JSON pointer (RFC 6901) into the span, as `cut` of `span` has it.
    """
    path, at = (
        "/traces/{trace_id}/spans/{span_id}/value",
        {"trace_id": trace_id, "span_id": span_id},
    )
    return StreamCall(
        request=Request(method="GET", path=path, places=at, query={"pointer": pointer})
    )
