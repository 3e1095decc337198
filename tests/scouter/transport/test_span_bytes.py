"""What is written byte by byte is what OpenTelemetry's own encoder writes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
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

from scouter.transport.span_bytes import write_request

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
    return ReadableSpan(
        draw(words),
        draw(contexts()),
        draw(st.one_of(st.none(), contexts())),
        draw(resources),
        draw(attributes),
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


@settings(max_examples=200)
@given(st.lists(finished(), max_size=5))
def test_as_opentelemetry_writes_it(spans: list[ReadableSpan]) -> None:
    """Over random spans of several resources and scopes, with every type of attribute."""
    data, lost = write_request(spans)

    assert lost == 0
    assert by_span(ExportTraceServiceRequest.FromString(data)) == by_span(encode_spans(spans))


@pytest.mark.parametrize("size", [0, 127, 128, 16_383, 16_384, 3_000_000])
def test_texts_at_the_edges_of_their_lengths_code(size: int) -> None:
    span = ReadableSpan("n" * size, SpanContext(1, 2, False), attributes={"text": "x" * size})
    data, _ = write_request([span])

    assert by_span(ExportTraceServiceRequest.FromString(data)) == by_span(encode_spans([span]))


def test_a_span_that_cannot_be_written_does_not_cost_the_others() -> None:
    context = SpanContext(1, 2, False)
    good = ReadableSpan("good", context, start_time=1, end_time=2)
    bad = [
        ReadableSpan("half \ud800", context),
        ReadableSpan("late", context, start_time=2**64),
        ReadableSpan("none", None),
    ]
    data, lost = write_request([bad[0], good, *bad[1:]])

    request = ExportTraceServiceRequest.FromString(data)
    assert lost == 3
    assert [span.name for span in request.resource_spans[0].scope_spans[0].spans] == ["good"]
