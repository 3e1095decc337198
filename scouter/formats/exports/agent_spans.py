"""Spans of an agent's steps, for formats that hold a conversation and no spans.

They have OpenTelemetry's attributes for generative AI: an agent, the calls of its models and of
its tools. Of the messages to a model only those that a user or the system added are written again,
with all before them: what models and tools said between is in the spans of these.
"""

from collections.abc import Iterable
from dataclasses import replace

from pydantic import JsonValue

from scouter.formats.exports.spans import (
    TOOL_RESULT,
    Object,
    attributes_of,
    span_id_of,
    trace_id_of,
)
from scouter.model.span import NO_RESOURCE, Resource, Span, SpanEvent, StatusCode


class AgentSpans:
    """Puts the spans of one trace together, in order of time.

    No two begin together, so that spans whose times are not known stay in the order of the steps.

    Args:
        name: Name of the trace; ids follow from it, and those of spans from their place.
        resource: Resource of all spans.
    """

    def __init__(self, name: str, resource: Resource = NO_RESOURCE) -> None:
        self._trace_id, self._resource = trace_id_of(name), resource
        self.spans: list[Span] = []
        self._last_ns = -1

    def add(
        self,
        name: str,
        parent: str | None,
        times_ns: tuple[int, int],
        attributes: Object,
        error: str = "",
    ) -> str:
        """Add a span; gives its id.

        Args:
            name: Its name.
            parent: Id of its parent; None for the root.
            times_ns: Its start, or the earliest one that it can have, and its end.
            attributes: Those that are null or an empty text are left out.
            error: Reason for its failure; empty where it did not fail.
        """
        start_ns = self._last_ns = max(self._last_ns + 1, times_ns[0])
        span = Span(
            trace_id=self._trace_id,
            span_id=span_id_of(self._trace_id, str(len(self.spans))),
            parent_span_id=parent,
            name=name,
            start_ns=start_ns,
            end_ns=max(start_ns, times_ns[1]),
            status=StatusCode.ERROR if error else StatusCode.UNSET,
            status_message=error,
            attributes=attributes_of(attributes),
            resource=self._resource,
        )
        self.spans.append(span)
        return span.span_id

    def act(
        self,
        operation: str,
        name: str,
        parent: str | None,
        times_ns: tuple[int, int],
        more: Object,
        error: str = "",
    ) -> str:
        """Add an agent (`invoke_agent`), which `close` ends, or a call of a model (`chat`)."""
        key = "gen_ai.agent.name" if operation == "invoke_agent" else "gen_ai.request.model"
        reported: Object = {"gen_ai.operation.name": operation, key: name, **more}
        return self.add(f"{operation} {name}".strip(), parent, times_ns, reported, error)

    def tool(
        self,
        parent: str,
        times_ns: tuple[int, int],
        call: tuple[str, JsonValue, JsonValue],
        result: JsonValue,
        error: str = "",
    ) -> str:
        """Add a call of a tool: its name, id and arguments; a result of None is not known."""
        name, call_id, arguments = call
        reported: Object = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.call.arguments": arguments,
            TOOL_RESULT: result,
        }
        return self.add(f"execute_tool {name}", parent, times_ns, reported, error)

    def close(
        self, span_id: str, end_ns: int = 0, *, events: Iterable[SpanEvent] = (), error: str = ""
    ) -> None:
        """End a span not before anything that was added, with events and an error."""
        at = next(at for at, span in enumerate(self.spans) if span.span_id == span_id)
        span = self.spans[at]
        self.spans[at] = replace(
            span,
            end_ns=max(end_ns, *(each.end_ns for each in self.spans[at:])),
            events=(*span.events, *events),
            status=StatusCode.ERROR if error else span.status,
            status_message=error or span.status_message,
        )


def message(role: str, text: str, *parts: Object) -> Object:
    """Write a message as OpenTelemetry's conventions have it; an empty text is no part."""
    said: list[JsonValue] = [{"type": "text", "content": text}] if text else []
    return {"role": role, "parts": [*said, *parts]}


def call_part(call_id: JsonValue, name: JsonValue, arguments: JsonValue) -> Object:
    """Write a request of a tool as a part of a message."""
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def result_part(call_id: JsonValue, result: JsonValue) -> Object:
    """Write a tool's result as a part of a message."""
    return {"type": "tool_call_response", "id": call_id, "response": result}
