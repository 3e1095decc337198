"""Limits of OpenTelemetry on a span: ours, the environment's, and what they took away.

OpenTelemetry counts the attributes, events and links that it drops. A text that it cuts it does not
tell: one that is as long as the limit allows may have been longer, and is marked as cut.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.environment_variables import (
    OTEL_ATTRIBUTE_COUNT_LIMIT,
    OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT,
    OTEL_LINK_ATTRIBUTE_COUNT_LIMIT,
    OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT,
    OTEL_SPAN_EVENT_COUNT_LIMIT,
    OTEL_SPAN_LINK_COUNT_LIMIT,
)
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor

from scouter.model.attributes import MAX_ITEMS, PART_CHARS
from scouter.transport.guard import GUARD
from scouter.transport.span_copy import SpanCopy, attributes_of, changed_parts, is_surely_whole

if TYPE_CHECKING:
    from opentelemetry.util.types import Attributes

_COUNTS: Final = {
    "max_span_attributes": (OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT, OTEL_ATTRIBUTE_COUNT_LIMIT),
    "max_event_attributes": (OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT, OTEL_ATTRIBUTE_COUNT_LIMIT),
    "max_link_attributes": (OTEL_LINK_ATTRIBUTE_COUNT_LIMIT, OTEL_ATTRIBUTE_COUNT_LIMIT),
    "max_events": (OTEL_SPAN_EVENT_COUNT_LIMIT,),
    "max_links": (OTEL_SPAN_LINK_COUNT_LIMIT,),
}


def own_limits() -> SpanLimits:
    """Make the limits of our own providers: what the collector takes, or what somebody has set.

    The length of a value has no limit there, as one that the environment sets is for other
    backends; `for_others` keeps it.
    """
    counts = {
        name: MAX_ITEMS
        for name, variables in _COUNTS.items()
        if not any(variable in os.environ for variable in variables)
    }
    return SpanLimits(
        **counts,
        max_attribute_length=SpanLimits.UNSET,
        max_span_attribute_length=SpanLimits.UNSET,
    )


def for_others(processor: SpanProcessor) -> SpanProcessor:
    """Have another processor of our provider see values as the environment limits their length."""
    limits = SpanLimits()
    if limits.max_span_attribute_length is None and limits.max_attribute_length is None:
        return processor
    return cast(SpanProcessor, _Limited(processor, limits))


class _Limited:
    """Stands for a processor, and shows it cut copies of the spans that have ended."""

    def __init__(self, processor: SpanProcessor, limits: SpanLimits) -> None:
        self._processor, self._limits = processor, limits

    def on_end(self, span: ReadableSpan) -> None:
        limits = self._limits
        most = limits.max_attribute_length
        parts = changed_parts(span, lambda attributes: _cut(attributes, most))
        parts["attributes"] = _cut(span.attributes, limits.max_span_attribute_length)
        self._processor.on_end(SpanCopy(span, **parts))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever hooks there are
        return getattr(self._processor, name)


def _cut(attributes: "Attributes", most: int | None) -> BoundedAttributes:
    return BoundedAttributes(attributes=attributes, max_value_len=most)


def parts_cut(span: ReadableSpan) -> list[str]:
    """Name the values of a span that its limits may have cut, as `scouter.truncated` names them.

    Dropped attributes, events and links are counted by OpenTelemetry; here the log says once how
    to raise the limit.

    Cost: a look at a span without limits that has no event or link; else linear in its values.
    """
    if is_surely_whole(span):
        return []
    found = list(keys_cut(attributes_of(span)))
    below = 0
    for event in span.events:
        below += event.dropped_attributes
        before = f"events.{event.name[:PART_CHARS]}."
        found += (before + key for key in keys_cut(event.attributes))
    for link in span.links:
        below += link.dropped_attributes
        found += (f"links.{key}" for key in keys_cut(link.attributes))
    if found:
        _say(span, "cut", f"{found[0]} is as long as its provider lets values be",
             "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT")  # fmt: skip
    for count, what, variable in (
        (span.dropped_attributes, "attributes", OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT),
        (span.dropped_events, "events", OTEL_SPAN_EVENT_COUNT_LIMIT),
        (span.dropped_links, "links", OTEL_SPAN_LINK_COUNT_LIMIT),
        (below, "attributes of events or links", OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT),
    ):
        if count:
            _say(span, what, f"{count} {what} did not fit and are lost", variable)
    return found


def keys_cut(attributes: object) -> Iterator[str]:
    """Name the attributes that may have been cut where they were set.

    Args:
        attributes: As OpenTelemetry has them, which know the longest value that they take.
    """
    most = getattr(attributes, "max_value_len", None)
    if most is not None:
        for key, value in cast("Mapping[str, object]", attributes).items():
            if _reaches(value, most):
                yield key[:PART_CHARS]


def _reaches(value: object, most: int) -> bool:
    if isinstance(value, str):
        return len(value) >= most
    if isinstance(value, Mapping):
        value = cast("Mapping[object, object]", value).values()
    elif not isinstance(value, tuple):
        return False
    return any(_reaches(item, most) for item in cast("Iterable[object]", value))


def _say(span: ReadableSpan, reason: str, what: str, variable: str) -> None:
    text = (
        f"{what}, so that tasks which read them are errored (incomplete); raise {variable}, or the "
        f"span_limits= of its TracerProvider. First seen on {span.name!r}"
    )
    GUARD.refuse("limits of spans", reason, text)
