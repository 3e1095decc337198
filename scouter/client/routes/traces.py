"""Routes of spans and traces, and of the parts of a trace."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict, Unpack

from pydantic import JsonValue

from scouter.client.connection import Connection, Pages
from scouter.client.models.answer import FacetList
from scouter.client.models.traces import (
    GenAIUsage,
    SpanDetail,
    SpanItem,
    Trace,
    TraceAgents,
    TraceItem,
    TraceLinks,
    TraceMatches,
    TraceRows,
    TraceTree,
    TraceTurn,
)
from scouter.client.request import Moment, arguments

UsageKey: TypeAlias = Literal[
    "model", "provider", "operation", "agent", "tool", "service", "version", "conversation",
    "finish_reason", "error", "route",
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
    user_id: str | None
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


class TraceRoutes(Connection):
    """Routes of spans and traces, and of the parts of a trace."""

    def spans(
        self, *, limit: int | None = None, **search: Unpack[SpanSearch]
    ) -> Iterator[SpanItem]:
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
            finish_reason: Why a model's call ended: `stop`, `length`, `tool_call`,
                `content_filter`, `error`, or the provider's own word in small letters.
            user_id: See `service_name`.
            attributes: Values of any other attributes; all of them. A key or a value of more than
                256 characters is not searched, and refused.
            profile: Of the latest evaluation on a record of the span's trace, as the next four.
            outcome: Of that evaluation; `not_passed` is what failed or errored.
            task_id: Of that evaluation.
            task_outcome: How that task, or any task, ended.
            tags: Of that evaluation; all of them.
            since: Started at this time or later.
            until: Started before this time.
        """
        return self._pages(SpanItem, "/spans", arguments(locals(), SpanSearch))

    def traces(
        self,
        *,
        text: str | Sequence[str] | None = None,
        questions: bool | None = None,
        limit: int | None = None,
        **search: Unpack[TraceSearch],
    ) -> Pages[TraceItem]:
        """Traces with all of these properties, newest first; see `spans`.

        Some span of the trace has each property, not one span all of them; service, version and
        environment are one property.

        Args:
            text: In a span's name, its status, the value of an attribute or an event, in upper or
                lower case; of several all. Without `since` the 24 hours before `until`, or before
                now, are searched. A page holds what one second of search finds.
            questions: With what the user asked, of traces that are not long.
            limit: Items per page, 1 to 1000; all pages are read, one after the other.
            without_tool: No span of the trace is a call of this tool.
            same_span: One span has all properties, and the text.
            search: See `spans`.
        """
        return self._pages(TraceItem, "/traces", arguments(locals(), TraceSearch))

    def trace_facets(self, **search: Unpack[TraceSearch]) -> FacetList:
        """Traces by status, service, agent, tool, model and error of their spans; see `traces`.

        And by profile, outcome, task and tag of the evaluations on their records. The newest are
        counted first, for about 0.3 s.
        """
        return self._get(FacetList, "/facets/traces", arguments(locals(), TraceSearch))

    def trace(self, trace_id: str) -> Trace:
        """One trace with all its spans and the evaluations on it.

        Args:
            trace_id: 32 hex digits.
        """
        return self._get(Trace, "/traces/{trace_id}", arguments(locals()))

    def trace_links(self, trace_id: str) -> TraceLinks:
        """Traces that belong to one under ids of their own, in the order in which they began.

        Such as that of an MCP server that does not go on with its client's.

        Args:
            trace_id: 32 hex digits.
        """
        return self._get(TraceLinks, "/traces/{trace_id}/links", arguments(locals()))

    def trace_view(
        self, trace_id: str, *, limit: int | None = None, joined: bool | None = None
    ) -> TraceTree:
        """One trace as people read it: a tree with values, and results beside their spans.

        Args:
            trace_id: 32 hex digits.
            limit: Most spans, 1 to 1000.
            joined: With the traces that `trace_links` lists, each below the span that called it.
        """
        return self._get(TraceTree, "/traces/{trace_id}/view", arguments(locals()))

    def genai_usage(
        self,
        group_by: UsageKey = "model",
        *,
        bucket: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> Iterator[GenAIUsage]:
        """Calls, tokens, cost and durations, by model or whatever else is named.

        That with the most calls comes first; with buckets, their order counts before.

        Args:
            group_by: Property of which each value has a line of its own.
            bucket: Minutes, hours or days such as `1h`, each of which has lines of its own.
            since: Started at this time or later.
            until: Started before this time.
            limit: Items per page, 1 to 1000; all pages are read, one after the other.
        """
        return self._pages(GenAIUsage, "/genai/usage", arguments(locals()))

    def trace_columns(
        self, trace_id: str, *, limit: int | None = None, joined: bool | None = None
    ) -> TraceRows:
        """The rows of a waterfall as one array a field, with the results of the trace.

        Args:
            trace_id: 32 hex digits.
            limit: Most rows; all of them by default.
            joined: See `trace_view`.
        """
        return self._get(TraceRows, "/traces/{trace_id}/columns", arguments(locals()))

    def trace_agents(self, trace_id: str, *, joined: bool | None = None) -> TraceAgents:
        """The work of each agent of a trace: calls, tools, retries, tokens, cost and hand-overs.

        Args:
            trace_id: 32 hex digits.
            joined: See `trace_view`.
        """
        return self._get(TraceAgents, "/traces/{trace_id}/agents", arguments(locals()))

    def trace_turn(self, trace_id: str) -> TraceTurn:
        """A trace as a turn of a conversation: question, calls of tools, answer.

        Args:
            trace_id: 32 hex digits.
        """
        return self._get(TraceTurn, "/traces/{trace_id}/turn", arguments(locals()))

    def trace_matches(
        self,
        trace_id: str,
        filter: str | Mapping[str, JsonValue],
        *,
        joined: bool | None = None,
    ) -> TraceMatches:
        """The spans of a trace that a filter selects.

        Args:
            trace_id: 32 hex digits.
            filter: A span filter as profiles write it, such as
                `{"WithStatus": {"status": "Error"}}`, or a pattern that is searched for in names.
            joined: See `trace_view`.
        """
        text = filter if isinstance(filter, str) else json.dumps(dict(filter))
        given = {"trace_id": trace_id, "filter": text, "joined": joined}
        return self._get(TraceMatches, "/traces/{trace_id}/matches", given)

    def trace_export(self, trace_id: str) -> Iterator[bytes]:
        """The spans of a trace as a file of OTLP JSON.

        Args:
            trace_id: 32 hex digits.
        """
        return self._parts("/traces/{trace_id}/export", arguments(locals()))

    def span(self, trace_id: str, span_id: str, *, text_limit: int | None = None) -> SpanDetail:
        """One span with its values, messages and the results that are about it.

        Args:
            trace_id: 32 hex digits.
            span_id: 16 hex digits.
            text_limit: Characters that are left of each text, at least 32; all by default.
        """
        return self._get(SpanDetail, "/traces/{trace_id}/spans/{span_id}", arguments(locals()))

    def span_value(self, trace_id: str, span_id: str, pointer: str) -> Iterator[bytes]:
        """One value of a span as the bytes of a file: a text as it is, anything else as JSON.

        Args:
            trace_id: 32 hex digits.
            span_id: 16 hex digits.
            pointer: JSON pointer (RFC 6901) into the span, as `cut` of `span` has it.
        """
        path = "/traces/{trace_id}/spans/{span_id}/value"
        return self._parts(path, {"trace_id": trace_id, "span_id": span_id, "pointer": pointer})
