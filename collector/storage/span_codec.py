"""Spans as rows of the store, exact both ways."""

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from collector.storage.json_text import dump_attributes, load_attributes
from scouter.errors import DataError
from scouter.model.attributes import PROCESS_ID
from scouter.model.span import (
    NO_RESOURCE,
    NO_SCOPE,
    Resource,
    Scope,
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
    StatusCode,
)

PROMOTED: Final = {
    "operation": "gen_ai.operation.name",
    "provider": "gen_ai.provider.name",
    "request_model": "gen_ai.request.model",
    "response_model": "gen_ai.response.model",
    "agent_name": "gen_ai.agent.name",
    "tool_name": "gen_ai.tool.name",
    "conversation_id": "gen_ai.conversation.id",
    "error_type": "error.type",
    "session_id": "session.id",
}
"""Columns of their own for the span attributes that people filter by."""

_PROMOTED_KEYS: Final = tuple(PROMOTED.values())
_RESOURCE_COLUMNS: Final = ("resource", "service_name", "service_version", "environment", "process")

SPAN_COLUMNS: Final = (
    "trace_hash", "trace_id", "span_id", "parent_span_id", "parent_is_remote", "name", "kind",
    "start_ns", "end_ns", "status", "status_message", "trace_state", "attributes", "events",
    "links", "scope_name", "scope_version", *_RESOURCE_COLUMNS, *PROMOTED, "size_bytes", "digest",
)  # fmt: skip
"""Columns that come from the span itself, in the order of `EncodedSpan.values`."""

READ_COLUMNS: Final = (
    "trace_id", "span_id", "parent_span_id", "parent_is_remote", "name", "kind", "start_ns",
    "end_ns", "status", "status_message", "trace_state", "attributes", "events", "links",
    "scope_name", "scope_version", "resource",
)  # fmt: skip
"""Columns that `decode_spans` needs, in its order."""


class Preference(NamedTuple):
    """Of two spans with one key the one with the larger preference is kept."""

    end_ns: int
    size_bytes: int
    digest: str


class EncodedSpan(NamedTuple):
    """A span and its row."""

    span: Span
    values: tuple[Any, ...]

    @property
    def preference(self) -> Preference:
        """How this span compares with another one of the same key."""
        return Preference(self.span.end_ns, self.values[-2], self.values[-1])


def trace_hash(trace_id: str) -> int:
    """A signed 64-bit number to look traces up by: the lower half of the id, which is random."""
    number = int(trace_id[16:], 16)
    return number - (1 << 64) if number >= 1 << 63 else number


class SpanEncoder:
    """Writes the spans of one batch; a resource that they share is written once."""

    def __init__(self) -> None:
        self._resources: dict[int, tuple[Resource, tuple[bytes | str, ...]]] = {}

    def encode(self, span: Span) -> EncodedSpan:
        """Write one span.

        Raises:
            DataError: It holds text that is not Unicode, or is nested too deeply.
        """
        attributes = span.attributes
        text = dump_attributes(attributes)
        events = _dump_events(span.events) if span.events else None
        links = _dump_links(span.links) if span.links else None
        resource = self._resource(span.resource)
        before = (
            span.parent_span_id, span.parent_is_remote, span.name, span.kind.value, span.start_ns,
            span.end_ns, span.status.value, span.status_message, span.trace_state,
        )  # fmt: skip
        after = (events, links, span.scope.name, span.scope.version)
        try:
            rest = repr((before, after, resource[0])).encode()
            for part in (span.name, span.status_message, span.trace_state, *after[-2:]):
                if not part.isascii():
                    part.encode()
        except UnicodeEncodeError as error:
            raise DataError("a text holds half a character (a lone surrogate)") from error
        promoted = [_promote(attributes.get(key)) for key in _PROMOTED_KEYS]
        digest = blake2b(text, digest_size=16)
        digest.update(rest)
        return EncodedSpan(
            span,
            (
                trace_hash(span.trace_id), span.trace_id, span.span_id, *before, text, *after,
                *resource, *promoted, len(text) + len(rest), digest.hexdigest(),
            ),
        )  # fmt: skip

    def _resource(self, resource: Resource) -> tuple[bytes | str, ...]:
        known = self._resources.get(id(resource))
        if known is None:
            process = resource.attributes.get(PROCESS_ID)
            text = (
                dump_attributes(resource.attributes),
                resource.service_name,
                resource.service_version,
                resource.environment,
                process if isinstance(process, str) else "",
            )
            known = self._resources[id(resource)] = (resource, text)
        return known[1]


def decode_spans(rows: Iterable[Sequence[Any]]) -> list[Span]:
    """Turn rows of `READ_COLUMNS` back into spans; equal resources and scopes share one object."""
    resources: dict[str, Resource] = {"{}": NO_RESOURCE}
    scopes: dict[tuple[str, str], Scope] = {("", ""): NO_SCOPE}
    return [_decode(row, resources, scopes) for row in rows]


def _decode(
    row: Sequence[Any], resources: dict[str, Resource], scopes: dict[tuple[str, str], Scope]
) -> Span:
    scope_key, resource_text = (row[14], row[15]), row[16]
    scope = scopes.get(scope_key)
    if scope is None:
        scope = scopes[scope_key] = Scope(name=row[14], version=row[15])
    resource = resources.get(resource_text)
    if resource is None:
        resource = Resource(attributes=load_attributes(resource_text))
        resources[resource_text] = resource
    return Span(
        trace_id=row[0],
        span_id=row[1],
        parent_span_id=row[2],
        parent_is_remote=row[3],
        name=row[4],
        kind=SpanKind(row[5]),
        start_ns=row[6],
        end_ns=row[7],
        status=StatusCode(row[8]),
        status_message=row[9],
        trace_state=row[10],
        attributes=load_attributes(row[11]),
        events=_load_events(row[12]) if row[12] else (),
        links=_load_links(row[13]) if row[13] else (),
        scope=scope,
        resource=resource,
    )


def _promote(value: object) -> str | None:
    if value is None or type(value) is str:
        return value
    return str(value)


def _dump_events(events: tuple[SpanEvent, ...]) -> str:
    return json.dumps([[e.name, e.time_ns, dump_attributes(e.attributes).decode()] for e in events])


def _load_events(text: str) -> tuple[SpanEvent, ...]:
    return tuple(
        SpanEvent(name=name, time_ns=time_ns, attributes=load_attributes(attributes))
        for name, time_ns, attributes in json.loads(text)
    )


def _dump_links(links: tuple[SpanLink, ...]) -> str:
    return json.dumps(
        [[k.trace_id, k.span_id, dump_attributes(k.attributes).decode()] for k in links]
    )


def _load_links(text: str) -> tuple[SpanLink, ...]:
    return tuple(
        SpanLink(trace_id=trace_id, span_id=span_id, attributes=load_attributes(attributes))
        for trace_id, span_id, attributes in json.loads(text)
    )
