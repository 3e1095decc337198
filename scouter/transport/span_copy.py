"""Copies of the SDK's spans, and their private attributes: read and written here alone.

The public properties make views and copies and take locks, which costs half of what all else of a
span costs. Where a version of the SDK names its attributes otherwise, its properties and its
constructor are used. To test another version than the installed one:

    pip install --target DIR opentelemetry-sdk==V
    PYTHONPATH=DIR pytest tests/scouter/transport/test_span_copy.py
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias, cast

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status

from scouter.model.json_value import plain_text

Identity: TypeAlias = tuple[SpanContext | None, SpanContext | None]

FIELDS: Final = (
    "name", "context", "parent", "resource", "attributes", "events", "links", "kind", "status",
    "start_time", "end_time", "instrumentation_scope",
)  # fmt: skip
"""Parameters of the SDK's constructor; a span holds each under its name with `_` before it."""
SHARES: Final = {f"_{name}" for name in FIELDS} <= vars(ReadableSpan("a span")).keys()
"""True if this version of the SDK does, so that a copy may share what a span holds."""
_PLAIN: Final = frozenset({bool, float, bytes, type(None)})
_INT64: Final = range(-(2**63), 2**63)


def identity_of(span: ReadableSpan) -> Identity:
    """The contexts of a span and of its parent."""
    raw: Any = span
    try:
        return raw._context, raw._parent
    except AttributeError:  # another kind of span
        return span.get_span_context(), span.parent


def texts_of(span: ReadableSpan) -> tuple[str, Collection[Any], bool]:
    """Name, values of attributes, and whether there may be events, links or a description."""
    raw: Any = span
    try:
        has_more = raw._events._dq or raw._links._dq or raw._status.description
        return raw._name, raw._attributes._dict.values(), bool(has_more)
    except AttributeError:  # another kind of span
        return span.name, (span.attributes or {}).values(), True


def attributes_of(span: ReadableSpan) -> Any:  # noqa: ANN401 - a mapping that knows its limits
    """The attributes themselves; the public property shows a view of them."""
    return getattr(span, "_attributes", span.attributes)


def is_surely_whole(span: ReadableSpan) -> bool:
    """Tell of most spans, and quickly, that no limit took anything away from them."""
    raw: Any = span
    try:
        attributes, events, links = raw._attributes, raw._events, raw._links
        lost = attributes.dropped or events.dropped or links.dropped
        if lost or attributes.max_value_len is not None:
            return False
        for each in (*events._dq, *links._dq) if events._dq or links._dq else ():
            if each._attributes.dropped or each._attributes.max_value_len is not None:
                return False
    except AttributeError:  # another kind of span
        return False
    return True


class SpanCopy(ReadableSpan):
    """A finished span that shares with another one what is not replaced.

    Args:
        span: The application's span, which is not changed.
        replaced: Some of `FIELDS`.
    """

    def __init__(self, span: ReadableSpan, **replaced: Any) -> None:  # noqa: ANN401 - as the SDK's
        # A finished span's state does not change, so that sharing it is safe and takes a third of
        # the time.
        if SHARES:
            state = self.__dict__
            state.update(span.__dict__)
            for name, value in replaced.items():
                state["_" + name] = value
        else:
            own: dict[str, Any] = {name: getattr(span, name) for name in FIELDS}
            super().__init__(**{**own, **replaced})
        self._lost: Final = span.dropped_attributes, span.dropped_events, span.dropped_links

    @property
    def dropped_attributes(self) -> int:
        """Attributes that the original lost to its limits."""
        return self._lost[0]

    @property
    def dropped_events(self) -> int:
        """Events that the original lost."""
        return self._lost[1]

    @property
    def dropped_links(self) -> int:
        """Links that the original lost."""
        return self._lost[2]


class _EventCopy(Event):
    """An event with other attributes, of which the original had lost so many to its limits."""

    def __init__(self, name: str, attributes: Mapping[str, Any], timestamp: int, lost: int) -> None:
        super().__init__(name, attributes, timestamp)
        self._lost = lost

    @property
    def dropped_attributes(self) -> int:
        """Attributes that the original lost."""
        return self._lost


class _LinkCopy(Link):
    """A link, as `_EventCopy`."""

    def __init__(self, context: SpanContext, attributes: Mapping[str, Any], lost: int) -> None:
        super().__init__(context, attributes)
        self._lost = lost

    @property
    def dropped_attributes(self) -> int:
        """Attributes that the original lost."""
        return self._lost


def changed_parts(
    span: ReadableSpan,
    attributes: Callable[[Any], Mapping[str, Any]],
    text: Callable[[str], str] = lambda text: text,
    context: Callable[[SpanContext], SpanContext] = lambda context: context,
) -> dict[str, object]:
    """Change attributes, events and links, for a `SpanCopy`; the counts of lost parts stay.

    Args:
        span: The application's span, which is not changed.
        attributes: Changes the attributes of the span, of an event or of a link.
        text: Changes the name of an event.
        context: Changes the context of a link.
    """
    return {
        "attributes": attributes(span.attributes or {}),
        "events": [
            _EventCopy(
                text(each.name),
                attributes(each.attributes or {}),
                each.timestamp,
                each.dropped_attributes,
            )
            for each in span.events
        ],
        "links": [
            _LinkCopy(
                context(each.context), attributes(each.attributes or {}), each.dropped_attributes
            )
            for each in span.links
        ],
    }


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
    return SpanCopy(span, **_plain_parts(span))


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


def _plain_parts(span: ReadableSpan) -> dict[str, object]:
    from scouter.model.sdk_span import plain_attributes, plain_name  # few spans need it

    def plain(attributes: object) -> dict[str, Any]:
        return dict(plain_attributes(attributes))

    parts: dict[str, object] = {
        "name": plain_name(span.name),
        **changed_parts(span, plain, plain_name),
    }
    status, scope, resource = span.status, span.instrumentation_scope, span.resource
    if status.description is not None:
        parts["status"] = Status(status.status_code, plain_text(status.description))
    if not _is_plain(resource.attributes):
        parts["resource"] = Resource(plain(resource.attributes), resource.schema_url)
    if scope is not None:
        parts["instrumentation_scope"] = InstrumentationScope(
            plain_text(scope.name),
            None if scope.version is None else plain_text(scope.version),
            scope.schema_url,
            plain(scope.attributes),
        )
    return parts
