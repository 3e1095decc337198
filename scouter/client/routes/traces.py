"""Routes of spans and traces."""

from collections.abc import Mapping
from typing import Literal, TypeAlias, TypedDict, Unpack

from scouter.client.call import Call, Moment, PagedCall, QueryValue, get, pages, query_of
from scouter.client.models.facets import FacetList
from scouter.client.models.traces import GenAIUsage, SpanItem, Trace, TraceItem, TraceTree

UsageKey: TypeAlias = Literal[
    "model", "provider", "operation", "agent", "tool", "service", "conversation", "finish_reason",
    "error", "route",
]  # fmt: skip
SpanStatus: TypeAlias = Literal["ok", "error", "unset"]


class SpanSearch(TypedDict, total=False):
    """Properties that a span has, all of them."""

    name: str | None
    status: SpanStatus | None
    min_duration_ms: float | None
    min_tokens: int | None
    service_name: str | None
    service_version: str | None
    environment: str | None
    operation: str | None
    provider: str | None
    request_model: str | None
    response_model: str | None
    agent_name: str | None
    tool_name: str | None
    conversation_id: str | None
    error_type: str | None
    session_id: str | None
    finish_reason: str | None
    attributes: Mapping[str, str] | None
    profile: str | None
    outcome: str | None
    task_id: str | None
    task_outcome: str | None
    tags: Mapping[str, str] | None
    since: Moment | None
    until: Moment | None


class TraceSearch(SpanSearch, total=False):
    """Properties that a trace has, all of them: each in some span."""

    without_tool: str | None
    same_span: bool | None


def spans(*, limit: int | None = None, **search: Unpack[SpanSearch]) -> PagedCall[SpanItem]:
    """Spans, newest first, without their attributes.

    Args:
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
        name: Of the span.
        status: Of the span.
        min_duration_ms: Shortest duration.
        min_tokens: Fewest tokens of a call of a model, input and output together.
        service_name: And the like: a promoted attribute has this value.
        service_version: See `service_name`.
        environment: See `service_name`.
        operation: See `service_name`.
        provider: See `service_name`.
        request_model: See `service_name`.
        response_model: See `service_name`.
        agent_name: See `service_name`.
        tool_name: See `service_name`.
        conversation_id: See `service_name`.
        error_type: See `service_name`.
        session_id: See `service_name`.
        finish_reason: Why a model's call ended: `stop`, `length`, `tool_call`, `content_filter`,
            `error`, or the provider's own word in small letters.
        attributes: Values of any other attributes; all of them. A key or a value of more than
            256 characters is not searched, and refused.
        profile: Of the latest evaluation on a record of the span's trace, as the next four.
        outcome: Of that evaluation.
        task_id: Of that evaluation.
        task_outcome: How that task, or any task, ended.
        tags: Of that evaluation; all of them.
        since: Started at this time or later.
        until: Started before this time.
    """
    return pages("/spans", SpanItem, {**_query(SpanSearch, search), "limit": limit})


def traces(
    *, text: str | None = None, limit: int | None = None, **search: Unpack[TraceSearch]
) -> PagedCall[TraceItem]:
    """Traces with all of these properties, newest first; see `spans`.

    Some span of the trace has each property, not one span all of them; service, version and
    environment are one property.

    Args:
        text: In a span's name, its status, the value of an attribute or an event, in upper or
            lower case. Without `since` the 24 hours before `until`, or before now, are searched. A
            page holds what one second of search finds.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
        without_tool: No span of the trace is a call of this tool.
        same_span: One span has all properties, and the text.
        search: See `spans`.
    """
    query = _query(TraceSearch, search)
    return pages("/traces", TraceItem, {**query, "text": text, "limit": limit})


def trace_facets(**search: Unpack[TraceSearch]) -> Call[FacetList]:
    """Traces by status, service, agent, tool, model and error of their spans; see `traces`.

    And by profile, outcome, task and tag of the evaluations on their records. The newest are
    counted first, for about 0.3 s.
    """
    return get("/facets/traces", FacetList, query=_query(TraceSearch, search))


def _query(known: type[object], search: Mapping[str, object]) -> dict[str, QueryValue]:
    return query_of(known, search, attributes="attribute", tags="tag")


def trace(trace_id: str) -> Call[Trace]:
    """One trace with all its spans and the evaluations on it.

    Args:
        trace_id: 32 hex digits.
    """
    return get("/traces/{trace_id}", Trace, at={"trace_id": trace_id})


def trace_view(trace_id: str, *, limit: int | None = None) -> Call[TraceTree]:
    """One trace as people read it: a tree with values, and results beside their spans.

    Args:
        trace_id: 32 hex digits.
        limit: Most spans, 1 to 1000.
    """
    return get(
        "/traces/{trace_id}/view",
        TraceTree,
        at={"trace_id": trace_id},
        query={"limit": limit},
    )


def genai_usage(
    group_by: UsageKey = "model",
    *,
    bucket: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
) -> PagedCall[GenAIUsage]:
    """Calls, tokens, cost and durations, by model or whatever else is asked for.

    That with the most calls comes first; with buckets, their order counts before.

    Args:
        group_by: Property of which each value has a line of its own.
        bucket: Minutes, hours or days such as `1h`, each of which has lines of its own.
        since: Started at this time or later.
        until: Started before this time.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return pages("/genai/usage", GenAIUsage, dict(locals()))
