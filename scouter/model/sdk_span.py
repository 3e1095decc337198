"""Spans of the OpenTelemetry SDK become the project's `Span`, without a way over OTLP's bytes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from scouter.model.span import (
    NO_RESOURCE,
    NO_SCOPE,
    Attributes,
    AttributeValue,
    Resource,
    Scope,
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
    StatusCode,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource as SdkResource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

_KINDS: Final = tuple(SpanKind)
_CODES: Final = tuple(StatusCode)


def span_from_sdk(span: "ReadableSpan") -> Span:
    """Turn a finished span of the OpenTelemetry SDK into the project's span.

    The result is equal to what the receiver of the stock OTLP encoding of the same span decodes;
    so an attribute that OTLP cannot carry (an integer beyond 64 bits, text that is not Unicode)
    is left out here as it is there.

    Args:
        span: A span that has ended.

    Returns:
        A span that later changes to SDK objects cannot reach.
    """
    context = span.get_span_context()
    parent = span.parent
    assert context is not None, "an SDK span always has a context"  # noqa: S101
    state = context.trace_state
    return Span(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_span_id=f"{parent.span_id:016x}" if parent is not None else None,
        name=span.name,
        kind=_KINDS[span.kind.value + 1],
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        status=_CODES[span.status.status_code.value],
        status_message=span.status.description or "",
        attributes=_plain_attributes(span.attributes),
        events=tuple(
            SpanEvent(
                name=event.name,
                time_ns=event.timestamp,
                attributes=_plain_attributes(event.attributes),
            )
            for event in span.events
        ),
        links=tuple(
            SpanLink(
                trace_id=f"{link.context.trace_id:032x}",
                span_id=f"{link.context.span_id:016x}",
                attributes=_plain_attributes(link.attributes),
            )
            for link in span.links
        ),
        resource=_plain_resource(span.resource),
        scope=_plain_scope(span.instrumentation_scope),
        trace_state=",".join(f"{key}={value}" for key, value in state.items()) if state else "",
        parent_is_remote=parent is not None and parent.is_remote,
        dropped_count=span.dropped_attributes
        + span.dropped_events
        + sum([event.dropped_attributes for event in span.events]),
    )


class _Unencodable(Exception):
    """OTLP has no form for this value."""


def _plain_attributes(attributes: object) -> dict[str, AttributeValue]:
    if not attributes:
        return {}
    out: dict[str, AttributeValue] = {}
    for key, value in cast("Attributes", attributes).items():
        try:
            if not key.isascii():
                key.encode()
            out[key] = _plain(value)
        except (_Unencodable, UnicodeEncodeError):
            continue  # the stock encoder logs and leaves it out as well
    return out


def _plain(value: object) -> AttributeValue:
    kind = type(value)
    if kind is str:
        text = cast(str, value)
        if not text.isascii():
            text.encode()
        return text
    if value is None or kind is bool or kind is float or kind is bytes:
        return cast(AttributeValue, value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise _Unencodable
        return int(value)
    if isinstance(value, str):
        return _plain(str.__str__(value))  # an enum's own __str__ gives its name
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, Sequence):
        return tuple(_plain(item) for item in cast(Sequence[object], value))
    if hasattr(value, "items"):
        pairs = cast("Attributes", value).items()
        return {str(_plain(str(key))): _plain(item) for key, item in pairs}
    raise _Unencodable


_last_resource: "tuple[SdkResource, Resource] | None" = None
"""Converting is costly and a process has one resource; a race costs a second conversion."""


def _plain_resource(resource: "SdkResource | None") -> Resource:
    global _last_resource
    if resource is None or not resource.attributes:
        return NO_RESOURCE
    last = _last_resource
    if last is not None and last[0] is resource:
        return last[1]
    plain = Resource(attributes=_plain_attributes(resource.attributes))
    _last_resource = (resource, plain)
    return plain


def _plain_scope(scope: "InstrumentationScope | None") -> Scope:
    if scope is None or not (scope.name or scope.version):
        return NO_SCOPE
    return Scope(name=scope.name, version=scope.version or "")
