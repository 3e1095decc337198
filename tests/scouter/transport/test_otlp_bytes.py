"""Spans that are written byte by byte are those of OpenTelemetry's own encoder."""

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)

from scouter.model.json_value import plain_text
from scouter.model.otlp import decode_request
from scouter.model.span import MAX_DEPTH
from scouter.transport.otlp import write_request
from scouter.transport.span_copy import plain_span
from tests.contracts.transport_data import nested
from tests.support.examples import examples

words = st.text(max_size=200)
scalars = st.one_of(
    words,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=5),
)
values = st.recursive(
    st.one_of(scalars, st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.dictionaries(words, inner, max_size=3)
    ),
    max_leaves=6,
)
attributes = st.dictionaries(words.filter(bool), values, max_size=6)
bounded = st.one_of(
    st.none(),
    attributes,
    attributes.map(lambda given: BoundedAttributes(maxlen=2, attributes=given)),
)
"""Attributes of an event: none, plain, or as the SDK has them, of which some were dropped."""


@st.composite
def contexts(draw: st.DrawFn) -> SpanContext:
    state = draw(st.sampled_from([None, TraceState([("vendor", "x")])]))
    return SpanContext(
        draw(st.integers(1, 2**128 - 1)),
        draw(st.integers(1, 2**64 - 1)),
        draw(st.booleans()),
        TraceFlags(1),
        state,
    )


resources = st.sampled_from([Resource({"service.name": "a"}, "schema"), Resource({"b": (1, 2)})])
scopes = st.sampled_from(
    [InstrumentationScope("lib", "1", "url", {"k": 1}), InstrumentationScope("other"), None]
)
statuses = st.sampled_from(
    [Status(), Status(StatusCode.OK), Status(StatusCode.ERROR), Status(StatusCode.ERROR, "é" * 200)]
)
times = st.one_of(st.none(), st.integers(0, 2**64 - 1))


@st.composite
def finished(draw: st.DrawFn) -> ReadableSpan:
    links = draw(st.sampled_from([0, 0, 0, 1]))
    events = draw(st.sampled_from([0, 1, 1, 3]))
    return ReadableSpan(
        draw(words),
        draw(contexts()),
        draw(st.one_of(st.none(), contexts())),
        draw(resources),
        draw(attributes),
        events=[Event(draw(words), draw(bounded), draw(times) or 0) for _ in range(events)],
        links=[Link(draw(contexts()), draw(attributes)) for _ in range(links)],
        kind=draw(st.sampled_from(list(SpanKind))),
        status=draw(statuses),
        start_time=draw(times),
        end_time=draw(times),
        instrumentation_scope=draw(scopes),
    )


def by_span(request: ExportTraceServiceRequest) -> list[Any]:
    """Each span with its resource and scope, as texts: groups may be cut in other ways."""
    return sorted(
        (str(resource.resource), resource.schema_url, str(scope.scope), scope.schema_url, str(span))
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    )


@settings(max_examples=examples(100))
@given(st.lists(finished(), max_size=5))
def test_as_opentelemetry_writes_it(spans: list[ReadableSpan]) -> None:
    """Over random spans of several resources and scopes, with every type of attribute."""
    data, lost = write_request(spans)

    assert lost == 0
    assert by_span(ExportTraceServiceRequest.FromString(data)) == by_span(
        encode_spans([plain_span(span) for span in spans])
    )


@pytest.mark.parametrize("size", [0, 127, 128, 16_383, 16_384, 3_000_000])
def test_texts_at_the_edges_of_their_lengths_code(size: int) -> None:
    span = ReadableSpan("n" * size, SpanContext(1, 2, False), attributes={"text": "x" * size})
    data, _ = write_request([span])

    assert by_span(ExportTraceServiceRequest.FromString(data)) == by_span(encode_spans([span]))


def test_a_span_that_cannot_be_written_does_not_cost_the_others() -> None:
    context = SpanContext(1, 2, False)
    good = ReadableSpan("good", context, start_time=1, end_time=2)
    bad = [
        ReadableSpan("late", context, start_time=2**64),
        ReadableSpan("none", None),
        ReadableSpan("late event", context, events=[Event("e", None, 2**64)]),
    ]
    data, lost = write_request([bad[0], good, *bad[1:]])

    request = ExportTraceServiceRequest.FromString(data)
    assert lost == 3
    assert [span.name for span in request.resource_spans[0].scope_spans[0].spans] == ["good"]


halves = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=20)
broken = st.dictionaries(
    halves.filter(bool),
    st.recursive(
        halves | st.integers(-(2**80), 2**80) | st.none(),
        lambda inner: (
            st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(halves.filter(bool), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=4,
)


def repaired(value: Any) -> Any:
    """The value as docs/transports.md says, by hand."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, tuple):
        return tuple(map(repaired, cast("tuple[Any, ...]", value)))
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {repaired(key): repaired(item) for key, item in pairs}
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


@given(
    halves,
    halves.filter(bool),
    broken,
    st.lists(st.tuples(halves, broken), max_size=2),
    st.lists(broken, max_size=1),
    broken,
)
@settings(max_examples=examples(100))
def test_any_text_arrives_repaired(
    name: str, why: str, sent: Any, events: Any, linked: Any, resource: Any
) -> None:
    context = SpanContext(1, 2, False)
    span = ReadableSpan(
        name,
        context,
        resource=Resource(resource),
        attributes=sent,
        events=[Event(title, attributes, 3) for title, attributes in events],
        links=[Link(context, attributes) for attributes in linked],
        status=Status(StatusCode.ERROR, why),
        start_time=1,
        end_time=2,
        instrumentation_scope=InstrumentationScope(name or "x", why),
    )
    data, lost = write_request([span])
    assert lost == 0
    (found,) = decode_request(ExportTraceServiceRequest.FromString(data)).spans

    assert (found.name, found.status_message) == (plain_text(name), plain_text(why))
    assert found.attributes == attributes_of(sent)
    assert found.resource.attributes == attributes_of(resource)
    assert found.scope.version == plain_text(why)
    assert [(each.name, each.attributes) for each in found.events] == repaired_pairs(events)
    assert [each.attributes for each in found.links] == [attributes_of(each) for each in linked]
    by_opentelemetry = encode_spans([plain_span(span)])
    assert decode_request(by_opentelemetry).spans == [found]


def attributes_of(sent: dict[str, Any]) -> dict[str, Any]:
    """Repaired; of those that become one, the last that is there, and None is not."""
    return repaired({key: value for key, value in sent.items() if value is not None})


def repaired_pairs(events: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(plain_text(name), attributes_of(attributes)) for name, attributes in events]


@pytest.mark.parametrize("levels", [1, 2, 46, 47, 48, 100, 400])
def test_what_is_nested_too_deeply_is_cut_and_marked(levels: int) -> None:
    """An array takes two levels of protobuf's hundred, so that 47 of them are the last to fit."""
    span = ReadableSpan(
        "n",
        SpanContext(1, 2, False),
        attributes={"deep": nested(levels), "flat": 1},
        events=[Event("e", {"deep": nested(levels)}, 1)],
    )
    data, lost = write_request([span])
    (found,) = decode_request(ExportTraceServiceRequest.FromString(data)).spans
    depth, value = 0, found.attributes["deep"]
    while isinstance(value, tuple):
        depth, (value,) = depth + 1, value

    assert lost == 0
    assert depth == min(levels, MAX_DEPTH // 2)
    assert value == ("core" if levels <= 47 else "…")
    assert found.attributes.get("scouter.truncated") == (None if levels <= 47 else ("deep",))
    assert found.attributes["flat"] == 1


def test_a_name_that_is_no_text_becomes_one() -> None:
    span = ReadableSpan(5, SpanContext(1, 2, False))  # type: ignore[arg-type]
    data, lost = write_request([span])
    assert lost == 0
    assert decode_request(ExportTraceServiceRequest.FromString(data)).spans[0].name == "5"


def test_a_plain_span_is_not_copied() -> None:
    attributes = {"a": 1, "b": ("x", "é", None), "d": b"x", "e": 1.5}
    span = ReadableSpan(
        "n", SpanContext(1, 2, False), attributes=attributes, events=[Event("e", attributes)]
    )
    assert plain_span(span) is span
