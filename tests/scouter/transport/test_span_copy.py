"""The one place that knows private attributes of OpenTelemetry's spans; also with other versions.

`scouter/transport/span_copy.py` says how to run this file with a version that is not installed.
"""

from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import Link, SpanContext, StatusCode, TraceFlags

from scouter.transport import span_copy
from scouter.transport.span_copy import FIELDS, SHARES, SpanCopy, identity_of, texts_of

LINKED = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1))


class Foreign(ReadableSpan):
    """A span that another library made: it has the public properties and nothing else."""

    def __init__(self, span: ReadableSpan) -> None:
        self.span = span

    def __getattribute__(self, name: str) -> Any:
        if name in ("span", "__class__", "__dict__"):
            return object.__getattribute__(self, name)
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.span, name)


def finished(*, is_rich: bool) -> ReadableSpan:
    provider = TracerProvider(resource=Resource({"service.name": "s"}), shutdown_on_exit=False)
    tracer = provider.get_tracer("lib", "1.0")
    with tracer.start_as_current_span("parent"):
        span = tracer.start_span("é child", attributes={"a": 1, "b": "two"},
                                 links=[Link(LINKED, {"l": 1})] if is_rich else ())  # fmt: skip
        if is_rich:
            span.add_event("happened", {"e": True})
            span.set_status(StatusCode.ERROR, "went wrong")
        span.end()
    assert isinstance(span, ReadableSpan)
    return span


def public(span: ReadableSpan) -> dict[str, object]:
    return {name: getattr(span, name) for name in FIELDS}


def test_this_version_holds_what_is_read() -> None:
    """Or else the slower way is taken, with every span."""
    span: Any = finished(is_rich=True)
    assert SHARES
    assert (span._context, span._parent) == (span.get_span_context(), span.parent)
    assert dict(span._attributes._dict) == {"a": 1, "b": "two"}
    assert (len(span._events._dq), len(span._links._dq)) == (1, 1)
    assert span._status.description == "went wrong"


@pytest.mark.parametrize("is_rich", [False, True])
def test_private_and_public_say_the_same(is_rich: bool) -> None:
    span = finished(is_rich=is_rich)
    name, values, has_more = texts_of(span)
    assert (name, list(values), has_more) == ("é child", [1, "two"], is_rich)
    foreign = Foreign(span)
    assert texts_of(foreign)[0] == "é child"
    assert list(texts_of(foreign)[1]) == [1, "two"]
    assert texts_of(foreign)[2]
    assert identity_of(foreign) == identity_of(span) == (span.get_span_context(), span.parent)
    assert identity_of(span)[1] is not None


@pytest.mark.parametrize("shares", [True, False])
def test_a_copy_has_everything_but_what_is_replaced(
    shares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with an SDK that names its attributes otherwise."""
    monkeypatch.setattr(span_copy, "SHARES", shares)
    span = finished(is_rich=True)
    before = public(span)
    other = Resource({"service.name": "other"})
    copy = SpanCopy(span, resource=other, attributes={"a": 2})

    assert public(copy) == {**before, "resource": other, "attributes": {"a": 2}}
    assert copy.get_span_context() == span.get_span_context()
    assert copy.dropped_attributes == 0
    assert public(span) == before
