"""Spans of the OpenTelemetry SDK become the project's `Span`, without a way over OTLP's bytes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from scouter.model.attributes import TRUNCATED, truncated_mark
from scouter.model.json_value import int_text, plain_text
from scouter.model.span import (
    ARRAY_LEVELS,
    CUT,
    LIST_LEVELS,
    MAX_DEPTH,
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

    The result is equal to what a receiver decodes of the same span: half characters (lone
    surrogates) are U+FFFD, and integers beyond 64 bits are texts, wherever they stand.

    Args:
        span: A span that has ended.

    Returns:
        A span that later changes to SDK objects cannot reach.
    """
    context = span.get_span_context()
    parent = span.parent
    assert context is not None, "an SDK span always has a context"  # noqa: S101
    state = context.trace_state
    message = span.status.description
    events = span.events
    return Span(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_span_id=f"{parent.span_id:016x}" if parent is not None else None,
        name=plain_name(span.name),
        kind=_KINDS[span.kind.value + 1],
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        status=_CODES[span.status.status_code.value],
        status_message=plain_text(message) if message else "",
        attributes=plain_attributes(span.attributes),
        events=tuple(
            SpanEvent(
                name=plain_name(event.name),
                time_ns=event.timestamp,
                attributes=plain_attributes(event.attributes),
            )
            for event in events
        ),
        links=tuple(
            SpanLink(
                trace_id=f"{link.context.trace_id:032x}",
                span_id=f"{link.context.span_id:016x}",
                attributes=plain_attributes(link.attributes),
            )
            for link in span.links
        ),
        resource=_plain_resource(span.resource),
        scope=_plain_scope(span.instrumentation_scope),
        trace_state=",".join(f"{key}={value}" for key, value in state.items()) if state else "",
        parent_is_remote=parent is not None and parent.is_remote,
        dropped_count=span.dropped_attributes
        + span.dropped_events
        + (sum([event.dropped_attributes for event in events]) if events else 0),
    )


_AS_IT_IS: Final = frozenset({bool, float, bytes})
"""Types of values that OTLP carries whatever the value."""


class _Unencodable(Exception):
    """OTLP has no form for this value."""


def plain_name(name: object) -> str:
    """A name or key as text: OpenTelemetry lets pass whatever the application gives."""
    return plain_text(name if type(name) is str else str(name))


def plain_attributes(attributes: object) -> dict[str, AttributeValue]:
    """The attributes of the SDK as OTLP can carry them; None and foreign types are left out.

    Args:
        attributes: A mapping, or None. Of keys that are repaired to the same, the last counts.
    """
    if not attributes:
        return {}
    out: dict[str, AttributeValue] = {}
    cut: list[str] = []
    for key, value in cast("Attributes", attributes).items():
        if type(key) is str and key.isascii():
            if type(value) in _AS_IT_IS or (type(value) is str and value.isascii()):
                out[key] = value  # nearly all; what follows is for the others
                continue
            name = key
        else:
            name = plain_name(key)
        if value is None:
            continue
        before = len(cut)
        try:
            out[name] = _plain(value, 0, cut)
        except _Unencodable:
            del cut[before:]  # the stock encoder logs it and leaves it out as well
            continue
        if len(cut) > before:
            cut[before:] = [name]
    return {**out, TRUNCATED: truncated_mark(out.get(TRUNCATED), cut)} if cut else out


def _plain(value: object, depth: int, cut: list[str]) -> AttributeValue:
    """Copy a value; `cut` grows where something is nested too deeply."""
    kind = type(value)
    if type(value) is str:
        return plain_text(value)
    if value is None or kind in _AS_IT_IS:
        return cast(AttributeValue, value)
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else int_text(value)
    if isinstance(value, str):
        return plain_text(str.__str__(value))  # an enum's own __str__ gives its name
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        return bytes(value)
    is_list = kind is tuple or issubclass(kind, Sequence)
    if not is_list and not hasattr(value, "items"):
        raise _Unencodable
    inner = depth + (ARRAY_LEVELS if is_list else LIST_LEVELS)
    if value and inner > MAX_DEPTH:
        cut.append(CUT)
        return CUT
    if is_list:
        return tuple(_plain(item, inner, cut) for item in cast(Sequence[object], value))
    pairs = cast("Attributes", value).items()
    return {plain_name(key): _plain(item, inner, cut) for key, item in pairs}


_last_resource: "tuple[SdkResource, Resource] | None" = None
"""Converting is costly and a process has one resource; a race costs a second conversion."""


def _plain_resource(resource: "SdkResource | None") -> Resource:
    global _last_resource
    if resource is None or not resource.attributes:
        return NO_RESOURCE
    last = _last_resource
    if last is not None and last[0] is resource:
        return last[1]
    plain = Resource(attributes=plain_attributes(resource.attributes))
    _last_resource = (resource, plain)
    return plain


def _plain_scope(scope: "InstrumentationScope | None") -> Scope:
    if scope is None or not (scope.name or scope.version):
        return NO_SCOPE
    return Scope(name=plain_text(scope.name), version=plain_text(scope.version or ""))
