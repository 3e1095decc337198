"""Places of spans in OTLP bytes, compared with what protobuf finds there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.store.span_places import span_places

_texts = st.text(max_size=300)


@st.composite
def requests(draw: st.DrawFn) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    for _ in range(draw(st.integers(0, 3))):
        group = request.resource_spans.add(schema_url=draw(_texts))
        if draw(st.booleans()):
            group.resource.attributes.add(key="service.name").value.string_value = draw(_texts)
        for _ in range(draw(st.integers(0, 3))):
            scopes = group.scope_spans.add(schema_url=draw(_texts))
            if draw(st.booleans()):
                scopes.scope.name = draw(_texts)
            for _ in range(draw(st.integers(0, 3))):
                scopes.spans.add(name=draw(_texts), trace_id=draw(st.binary(max_size=20)))
    return request


@settings(deadline=None)
@given(request=requests())
def test_every_part_is_where_it_says(request: ExportTraceServiceRequest) -> None:
    data = request.SerializeToString()
    expected = [
        (span, scopes.scope, group.resource)
        for group in request.resource_spans
        for scopes in group.scope_spans
        for span in scopes.spans
    ]
    places = span_places(data)
    assert places is not None
    found = [
        (
            Span.FromString(data[place[0] : place[0] + place[1]]),
            InstrumentationScope.FromString(data[place[4] : place[4] + place[5]]),
            Resource.FromString(data[place[2] : place[2] + place[3]]),
        )
        for place in places
    ]
    assert found == expected


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


SPAN = _field(2, _field(5, b"step"))
GROUP = _field(2, SPAN)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(_field(1, _field(1, b"") + GROUP + _field(1, b"")), id="two resources"),
        pytest.param(_field(1, _field(2, _field(1, b"") * 2 + SPAN)), id="two scopes"),
        pytest.param(_field(1, GROUP) + _field(9, b"new"), id="a field of the request"),
        pytest.param(_field(1, GROUP + b"\x48\x01"), id="a number in a group"),
        pytest.param(_field(1, GROUP)[:-1], id="torn"),
        pytest.param(b"\x0a", id="no length"),
        pytest.param(b"\x0a\xff", id="a torn length"),
    ],
)
def test_what_no_usual_sender_writes_is_not_looked_into(data: bytes) -> None:
    assert span_places(data) is None


def test_a_resource_may_come_behind_its_spans() -> None:
    data = _field(1, GROUP + _field(1, b""))
    assert span_places(data) == [(6, 6, len(data), 0, 0, 0)]
