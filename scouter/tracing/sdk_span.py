"""Private attributes of OpenTelemetry's spans: read and written here and nowhere else.

The public properties make views and copies and take locks, which costs half of what all else of a
span costs. Where a version of the SDK names its attributes otherwise, its properties and its
constructor are used. To test another version than the installed one:

    pip install --target DIR opentelemetry-sdk==V
    PYTHONPATH=DIR pytest tests/scouter/tracing/test_sdk_span.py
"""

from collections.abc import Collection
from typing import Any, Final, TypeAlias

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

Identity: TypeAlias = tuple[SpanContext | None, SpanContext | None]

FIELDS: Final = (
    "name", "context", "parent", "resource", "attributes", "events", "links", "kind", "status",
    "start_time", "end_time", "instrumentation_scope",
)  # fmt: skip
"""Parameters of the SDK's constructor; a span holds each under its name with `_` before it."""
SHARES: Final = {f"_{name}" for name in FIELDS} <= vars(ReadableSpan("a span")).keys()
"""True if this version of the SDK does, so that a copy may share what a span holds."""


def identity_of(span: ReadableSpan) -> Identity:
    """The contexts of a span and of its parent."""
    held: Any = span
    try:
        return held._context, held._parent
    except AttributeError:  # another kind of span
        return span.get_span_context(), span.parent


def texts_of(span: ReadableSpan) -> tuple[str, Collection[Any], bool]:
    """Name, values of attributes, and whether there may be events, links or a description."""
    held: Any = span
    try:
        has_more = held._events._dq or held._links._dq or held._status.description
        return held._name, held._attributes._dict.values(), bool(has_more)
    except AttributeError:  # another kind of span
        return span.name, (span.attributes or {}).values(), True


def attributes_of(span: ReadableSpan) -> Any:  # noqa: ANN401 - a mapping that knows its limits
    """The attributes themselves; the public property shows a view of them."""
    return getattr(span, "_attributes", span.attributes)


def is_surely_whole(span: ReadableSpan) -> bool:
    """Tell of most spans, and quickly, that no limit took anything away from them."""
    held: Any = span
    try:
        attributes, events, links = held._attributes, held._events, held._links
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
            held = self.__dict__
            held.update(span.__dict__)
            for name, value in replaced.items():
                held["_" + name] = value
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
