"""A span that OTLP can carry, whatever its texts and numbers are."""

from collections.abc import Mapping
from typing import Any, Final, cast

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status

from scouter.model.json_value import plain_text
from scouter.model.sdk_span import plain_attributes, plain_name

_PLAIN: Final = frozenset({bool, float, bytes, type(None)})
_INT64: Final = range(-(2**63), 2**63)


def plain_span(span: ReadableSpan) -> ReadableSpan:
    """The span itself, or a copy without what OTLP has no form for.

    The rules are those of `scouter.model.sdk_span`: half characters become U+FFFD, integers beyond
    64 bits texts, and what is nested too deeply is cut.

    Cost: linear; about 50 ns for each text of a span that is plain.
    """
    scope = span.instrumentation_scope
    if (
        type(span.name) is str
        and _is_plain(span.name)
        and _is_plain(span.status.description)
        and _is_plain(span.resource.attributes)
        and (scope is None or (_is_plain(scope.name) and _is_plain(scope.version)))
        and (scope is None or _is_plain(scope.attributes))
        and _is_plain(span.attributes)
        and all(
            type(each.name) is str and _is_plain(each.name) and _is_plain(each.attributes)
            for each in span.events
        )
        and all(_is_plain(each.attributes) for each in span.links)
    ):
        return span
    return _PlainSpan(span)


def _is_plain(value: object, level: int = 0) -> bool:
    kind = type(value)
    if kind is str:
        text = cast(str, value)
        return text.isascii() or plain_text(text) is text
    if kind in _PLAIN:
        return True
    if kind is int:
        return value in _INT64
    if kind is tuple and level == 0:
        return all(_is_plain(item, 1) for item in cast("tuple[object, ...]", value))
    if isinstance(value, Mapping) and level == 0:  # the attributes themselves, all on one level
        pairs = cast("Mapping[object, object]", value).items()
        return all(
            _is_plain(key) and item is not None and _is_plain(item, 0) for key, item in pairs
        )
    return False


class _PlainSpan(ReadableSpan):
    """A copy whose parts are plain; what the original has lost to its limits it says, too."""

    def __init__(self, span: ReadableSpan) -> None:
        # As `StampedSpan` does: what is not plain alone is made anew.
        self.__dict__.update(span.__dict__)
        self._lost = span.dropped_attributes, span.dropped_events, span.dropped_links
        self._name = plain_name(span.name)
        self._attributes = _attributes(span.attributes)
        self._events = [
            EventCopy(
                plain_name(each.name),
                _attributes(each.attributes),
                each.timestamp,
                each.dropped_attributes,
            )
            for each in span.events
        ]
        self._links = [
            LinkCopy(each.context, _attributes(each.attributes), each.dropped_attributes)
            for each in span.links
        ]
        status, scope, resource = span.status, span.instrumentation_scope, span.resource
        if status.description is not None:
            self._status = Status(status.status_code, plain_text(status.description))
        if not _is_plain(resource.attributes):
            self._resource = Resource(_attributes(resource.attributes), resource.schema_url)
        if scope is not None:
            self._instrumentation_scope = InstrumentationScope(
                plain_text(scope.name),
                None if scope.version is None else plain_text(scope.version),
                scope.schema_url,
                _attributes(scope.attributes),
            )

    @property
    def dropped_attributes(self) -> int:
        return self._lost[0]

    @property
    def dropped_events(self) -> int:
        return self._lost[1]

    @property
    def dropped_links(self) -> int:
        return self._lost[2]


class EventCopy(Event):
    """An event with other attributes, of which the original had lost so many to its limits."""

    def __init__(self, name: str, attributes: Mapping[str, Any], timestamp: int, lost: int) -> None:
        super().__init__(name, attributes, timestamp)
        self._lost = lost

    @property
    def dropped_attributes(self) -> int:
        """Attributes that the original lost."""
        return self._lost


class LinkCopy(Link):
    """A link, as `EventCopy`."""

    def __init__(self, context: SpanContext, attributes: Mapping[str, Any], lost: int) -> None:
        super().__init__(context, attributes)
        self._lost = lost

    @property
    def dropped_attributes(self) -> int:
        """Attributes that the original lost."""
        return self._lost


def _attributes(attributes: object) -> dict[str, Any]:
    return dict(plain_attributes(attributes))
