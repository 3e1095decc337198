"""OTLP becomes spans by one canonical rule, whichever way it came."""

import json
import math
from enum import Enum
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from scouter.errors import DataError
from scouter.model.attributes import TRUNCATED
from scouter.model.json_value import plain_text
from scouter.model.otlp import decode_request, encode_request
from scouter.model.otlp_json import (
    spans_from_otlp_json,
    spans_to_flat_json,
    spans_to_otlp_json,
    value_from_otlp_json,
)
from scouter.model.span import (
    AttributeValue,
    Resource,
    Scope,
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
    StatusCode,
)
from scouter.transport.otlp import read_back

TRACE = "5b8efff798038103d269b633813fc60c"
SPAN = "eee19b7ec3c1b174"
PARENT = "eee19b7ec3c1b173"


def proto(**changes: Any) -> ProtoSpan:
    """A usable span, with changes."""
    fields: dict[str, Any] = {
        "trace_id": bytes.fromhex(TRACE),
        "span_id": bytes.fromhex(SPAN),
        "name": "work",
        "start_time_unix_nano": 100,
        "end_time_unix_nano": 250,
    }
    return ProtoSpan(**(fields | changes))


def request(*spans: ProtoSpan) -> ExportTraceServiceRequest:
    """One request with one resource and one scope."""
    out = ExportTraceServiceRequest()
    group = out.resource_spans.add()
    group.resource.attributes.add(key="service.name", value=AnyValue(string_value="shop"))
    scope = group.scope_spans.add()
    scope.scope.name, scope.scope.version = "lib", "2.0"
    scope.spans.extend(spans)
    return out


def test_every_field_is_read() -> None:
    """Written field by field in protobuf, read as worked out by hand."""
    span = proto(
        parent_span_id=bytes.fromhex(PARENT),
        kind=3,
        trace_state="a=1",
        flags=0x301,
        attributes=[
            KeyValue(key="text", value=AnyValue(string_value="é")),
            KeyValue(key="yes", value=AnyValue(bool_value=True)),
            KeyValue(key="int", value=AnyValue(int_value=-7)),
            KeyValue(key="real", value=AnyValue(double_value=0.5)),
            KeyValue(key="raw", value=AnyValue(bytes_value=b"\x00\xff")),
            KeyValue(key="none", value=AnyValue()),
            KeyValue(
                key="list",
                value=AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1), AnyValue()])),
            ),
            KeyValue(
                key="map",
                value=AnyValue(
                    kvlist_value=KeyValueList(
                        values=[KeyValue(key="k", value=AnyValue(string_value="v"))]
                    )
                ),
            ),
        ],
    )
    span.status.code, span.status.message = 2, "broken"  # type: ignore[assignment]
    span.events.add(name="hit", time_unix_nano=120)
    span.links.add(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(PARENT))

    decoded = decode_request(request(span))

    assert decoded.rejected == []
    assert decoded.spans == [
        Span(
            trace_id=TRACE,
            span_id=SPAN,
            parent_span_id=PARENT,
            name="work",
            kind=SpanKind.CLIENT,
            start_ns=100,
            end_ns=250,
            status=StatusCode.ERROR,
            status_message="broken",
            attributes={
                "text": "é",
                "yes": True,
                "int": -7,
                "real": 0.5,
                "raw": b"\x00\xff",
                "none": None,
                "list": (1, None),
                "map": {"k": "v"},
            },
            events=(SpanEvent(name="hit", time_ns=120),),
            links=(SpanLink(trace_id=TRACE, span_id=PARENT),),
            resource=Resource(attributes={"service.name": "shop"}),
            scope=Scope(name="lib", version="2.0"),
            trace_state="a=1",
            parent_is_remote=True,
        )
    ]


@pytest.mark.parametrize(
    ("flags", "remote"), [(0, None), (1, None), (0x100, False), (0x101, False), (0x300, True)]
)
def test_the_flags_say_whether_the_parent_is_remote(flags: int, remote: bool | None) -> None:
    assert decode_request(request(proto(flags=flags))).spans[0].parent_is_remote is remote


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trace_id": b""}, "trace id ''"),
        ({"trace_id": bytes(16)}, "trace id '0000"),
        ({"trace_id": b"\x01" * 15}, "trace id '0101"),
        ({"span_id": bytes(8)}, "span id '0000"),
        ({"span_id": b"\x01" * 9}, "span id '0101"),
        ({"parent_span_id": b"\x01" * 3}, "parent span id '010101'"),
        ({"end_time_unix_nano": 2**63}, "beyond a signed 64-bit"),
    ],
)
def test_one_bad_span_costs_only_itself(changes: dict[str, Any], reason: str) -> None:
    good = proto()

    decoded = decode_request(request(good, proto(**changes), good))

    assert len(decoded.spans) == 2
    ((index, said),) = decoded.rejected
    assert index == 1
    assert reason in said


def test_what_is_odd_but_usable_is_stored() -> None:
    """Clocks that ran backwards, unknown enum numbers, an all-zero parent."""
    odd = proto(kind=77, start_time_unix_nano=300, parent_span_id=bytes(8))
    odd.status.code = 9  # type: ignore[assignment]

    (span,) = decode_request(request(odd)).spans

    assert (span.kind, span.status) == (SpanKind.UNSPECIFIED, StatusCode.UNSET)
    assert (span.start_ns, span.end_ns, span.duration_ns) == (300, 250, 0)
    assert span.parent_span_id is None


def test_spans_of_one_request_share_resource_and_scope() -> None:
    first, second = decode_request(request(proto(), proto(span_id=b"\x02" * 8))).spans

    assert first.resource is second.resource
    assert first.scope is second.scope


def test_the_example_of_the_specification() -> None:
    """`examples/trace.json` of the opentelemetry-proto repository, values as published there."""
    published = {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": [{"key": "service.name", "value": {"stringValue": "my.service"}}]
                },
                "scopeSpans": [
                    {
                        "scope": {"name": "my.library", "version": "1.0.0"},
                        "spans": [
                            {
                                "traceId": "5B8EFFF798038103D269B633813FC60C",
                                "spanId": "EEE19B7EC3C1B174",
                                "parentSpanId": "EEE19B7EC3C1B173",
                                "name": "I'm a server span",
                                "startTimeUnixNano": "1544712660000000000",
                                "endTimeUnixNano": "1544712661000000000",
                                "kind": 2,
                                "attributes": [
                                    {"key": "my.span.attr", "value": {"stringValue": "some value"}}
                                ],
                            }
                        ],
                    }
                ],
            }
        ]
    }

    assert spans_from_otlp_json(published).spans == [
        Span(
            trace_id=TRACE,
            span_id=SPAN,
            parent_span_id=PARENT,
            name="I'm a server span",
            kind=SpanKind.SERVER,
            start_ns=1544712660000000000,
            end_ns=1544712661000000000,
            attributes={"my.span.attr": "some value"},
            resource=Resource(attributes={"service.name": "my.service"}),
            scope=Scope(name="my.library", version="1.0.0"),
        )
    ]


def flat(**changes: object) -> dict[str, object]:
    """A usable span in JSON, with changes."""
    span: dict[str, object] = {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": "work",
        "startTimeUnixNano": "100",
        "endTimeUnixNano": 250,
    }
    return span | changes


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"intValue": "12"}, 12),
        ({"intValue": -3}, -3),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"doubleValue": 2}, 2.0),
        ({"bytesValue": "AP8="}, b"\x00\xff"),
        ({"arrayValue": {}}, ()),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": False}}]}}, {"k": False}),
        ({}, None),
        (None, None),
        ({"newKind": 1}, None),
    ],
)
def test_json_values(value: object, read: AttributeValue) -> None:
    raw = flat(attributes=[{"key": "a", "value": value}])

    (span,) = spans_from_otlp_json([raw]).spans

    assert span.attributes == {"a": read}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"traceId": "xyz"}, "traceId: 'xyz'"),
        ({"traceId": 5}, "traceId: expected text"),
        ({"spanId": "0" * 16}, "spanId"),
        ({"parentSpanId": "12"}, "parentSpanId"),
        ({"startTimeUnixNano": "yesterday"}, "startTimeUnixNano"),
        ({"endTimeUnixNano": str(2**63)}, "endTimeUnixNano"),
        ({"startTimeUnixNano": -1}, "startTimeUnixNano"),
        ({"attributes": {}}, "attributes: expected a list"),
        ({"status": 1}, "status: expected an object"),
        ({"events": [1]}, "events: expected an object"),
        ({"links": [{"traceId": "xyz", "spanId": "b" * 16}]}, "links.traceId: 'xyz'"),
        ({"links": [{"traceId": "a" * 32, "spanId": "EjRWeJCrze8="}]}, "links.spanId: 'ejrw"),
    ],
)
def test_one_bad_span_in_json_costs_only_itself(changes: dict[str, object], reason: str) -> None:
    decoded = spans_from_otlp_json({"spans": [flat(), flat(**changes), flat()]})

    assert len(decoded.spans) == 2
    ((index, said),) = decoded.rejected
    assert index == 1
    assert reason in said


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"intValue": 2**63}, "9223372036854775808"),
        ({"intValue": True}, "true"),
        ({"doubleValue": "x"}, "x"),
        ({"boolValue": "yes"}, "yes"),
        ({"bytesValue": "*"}, "*"),
        ({"stringValue": 1}, "1"),
        ({"arrayValue": {"values": [{"intValue": "x"}]}}, '{"values": [{"intValue": "x"}]}'),
        ("bare", "bare"),
    ],
)
def test_a_value_that_cannot_be_read_costs_no_span(value: object, shown: str) -> None:
    """It is shown as a text and marked, so that no task relies on it."""
    pairs = [{"key": "a", "value": value}, {"key": "b", "value": {"intValue": 1}}]
    events = [{"name": "e", "timeUnixNano": "1", "attributes": pairs}]
    resource = {"attributes": pairs}
    raw = flat(attributes=pairs, events=events, resource=resource)
    (span,) = spans_from_otlp_json([raw]).spans
    for found in (span.attributes, span.events[0].attributes, span.resource.attributes):
        assert found == {"a": shown, "b": 1, TRUNCATED: ("a",)}


def test_nesting_is_bounded() -> None:
    """A value nested deeper than protobuf itself allows is cut, not followed, and marked."""
    value: dict[str, object] = {"stringValue": "x"}
    for _ in range(300):
        value = {"arrayValue": {"values": [value]}}

    decoded = spans_from_otlp_json([flat(attributes=[{"key": "a", "value": value}])])

    (found,) = decoded.spans
    depth, inner = 0, found.attributes["a"]
    while isinstance(inner, tuple):
        depth, (inner,) = depth + 1, inner
    assert (depth, inner) == (47, "…")
    assert found.attributes[TRUNCATED] == ("a",)
    with pytest.raises(DataError, match="too many levels deep"):
        value_from_otlp_json(value, "body")


@pytest.mark.parametrize(
    ("kind", "levels"), [("arrayValue", 47), ("kvlistValue", 31)], ids=["arrays", "objects"]
)
def test_what_json_may_nest_can_be_stored(kind: str, levels: int) -> None:
    """The deepest place is in an event; one level more is cut, as it would not be read again."""
    value: dict[str, object] = {"stringValue": "x"}
    for _ in range(levels):
        value = {
            kind: {"values": [value if kind == "arrayValue" else {"key": "k", "value": value}]}
        }
    deeper = {kind: {"values": [value if kind == "arrayValue" else {"key": "k", "value": value}]}}

    def event(nested: object) -> dict[str, object]:
        return flat(events=[{"name": "e", "attributes": [{"key": "a", "value": nested}]}])

    decoded = spans_from_otlp_json([event(value), event(deeper), flat()])

    assert decoded.rejected == []
    whole, cut, _ = decoded.spans
    assert TRUNCATED not in whole.events[0].attributes
    assert cut.events[0].attributes[TRUNCATED] == ("a",)
    data = encode_request(decoded.spans).SerializeToString()
    assert decode_request(ExportTraceServiceRequest.FromString(data)).spans == decoded.spans


def test_a_link_to_nothing_is_stored() -> None:
    """As protobuf has it."""
    none = [{"traceId": "0", "spanId": ""}, {}]
    decoded = spans_from_otlp_json([flat(links=none)])
    assert [(each.trace_id, each.span_id) for each in decoded.spans[0].links] == [("", "")] * 2
    assert ExportTraceServiceRequest.FromString(encode_request(decoded.spans).SerializeToString())


@pytest.mark.parametrize("text", ["null", "5", '"x"', '{"spans": 1}', '{"resourceSpans": [[]]}'])
def test_another_shape_is_an_error(text: str) -> None:
    with pytest.raises(DataError, match="expected"):
        spans_from_otlp_json(json.loads(text))


def test_an_empty_request_has_no_spans() -> None:
    assert spans_from_otlp_json({}).spans == []
    assert decode_request(ExportTraceServiceRequest()).spans == []


# --- laws ---------------------------------------------------------------------------------------

texts = st.text(max_size=8)
numbers = st.integers(-(2**63), 2**63 - 1)
times = st.integers(0, 2**63 - 1)
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | texts
    | st.booleans()
    | numbers
    | st.floats(allow_nan=False)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple) | st.dictionaries(texts, inner, max_size=3)
    ),
    max_leaves=6,
)
attributes = st.dictionaries(texts, values, max_size=4)
trace_ids = st.integers(1, 2**128 - 1).map(lambda number: f"{number:032x}")
span_ids = st.integers(1, 2**64 - 1).map(lambda number: f"{number:016x}")
plain_spans = st.builds(
    Span,
    trace_id=trace_ids,
    span_id=span_ids,
    parent_span_id=st.none() | span_ids,
    name=texts,
    kind=st.sampled_from(SpanKind),
    start_ns=times,
    end_ns=times,
    status=st.sampled_from(StatusCode),
    status_message=texts,
    attributes=attributes,
    events=st.lists(
        st.builds(SpanEvent, name=texts, time_ns=times, attributes=attributes), max_size=2
    ).map(tuple),
    links=st.lists(
        st.builds(SpanLink, trace_id=trace_ids, span_id=span_ids, attributes=attributes),
        max_size=2,
    ).map(tuple),
    resource=st.builds(Resource, attributes=attributes),
    scope=st.builds(Scope, name=texts, version=texts),
    trace_state=st.sampled_from(["", "a=1", "a=1,b=2"]),
    parent_is_remote=st.sampled_from([None, True, False]),
)


@given(st.lists(plain_spans, max_size=3))
def test_protobuf_brings_spans_back(spans: list[Span]) -> None:
    data = encode_request(spans).SerializeToString()

    decoded = decode_request(ExportTraceServiceRequest.FromString(data))

    assert decoded.rejected == []
    assert repr(decoded.spans) == repr(spans)


@given(st.lists(plain_spans, max_size=3))
def test_json_brings_spans_back(spans: list[Span]) -> None:
    """Both JSON forms, through real JSON text."""
    one_by_one = json.dumps(spans_to_flat_json(spans))
    grouped = json.dumps(spans_to_otlp_json(spans))

    assert spans_from_otlp_json(json.loads(one_by_one)).spans == spans
    assert spans_from_otlp_json(json.loads(grouped)).spans == spans
    assert repr(spans_from_otlp_json(json.loads(one_by_one)).spans) == repr(spans)


class Finished(SpanProcessor):
    """Keeps finished spans."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class Kind(str, Enum):  # noqa: UP042 - the older way, which shows itself as Kind.TOOL
    TOOL = "tool"


def test_enums_are_their_values_live_and_offline() -> None:
    """An enum of text is that text, an enum of numbers that number, whichever way it came."""
    finished = Finished()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(finished)
    with provider.get_tracer("t").start_as_current_span("s") as span:
        span.set_attribute("kind", Kind.TOOL)
        span.set_attribute("status", HTTPStatus.OK)
    sdk = finished.spans[0]

    (captured,) = read_back([sdk])
    assert captured.attributes == {"kind": "tool", "status": 200}
    assert decode_request(encode_spans([sdk])).spans == [captured]


HALVES = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=20)


@given(name=HALVES, key=HALVES, text=HALVES, is_escaped=st.booleans())
def test_halves_of_characters_in_json_are_repaired(
    name: str, key: str, text: str, *, is_escaped: bool
) -> None:
    """However they are spelled: no span is lost for them, wherever they stand."""
    pairs: list[Any] = [
        {"key": key, "value": {"stringValue": text}},
        {"key": f"{key}/list", "value": {"arrayValue": {"values": [{"stringValue": text}]}}},
        {"key": f"{key}/map", "value": {"kvlistValue": {"values": [
            {"key": key, "value": {"stringValue": text}},
        ]}}},
    ]  # fmt: skip
    span = {
        **flat(name=name, attributes=pairs, status={"code": 2, "message": text}),
        "events": [{"name": name, "attributes": pairs}],
        "links": [{"attributes": pairs}],
    }
    group: Any = {"resource": {"attributes": pairs}, "scopeSpans": [
        {"scope": {"name": name, "version": text}, "spans": [span]},
    ]}  # fmt: skip
    request = json.loads(json.dumps({"resourceSpans": [group]}, ensure_ascii=is_escaped))
    decoded = spans_from_otlp_json(request)
    key, text, name = plain_text(key), plain_text(text), plain_text(name)
    wanted = {key: text, f"{key}/list": (text,), f"{key}/map": {key: text}}

    assert decoded.rejected == []
    (found,) = decoded.spans
    assert (found.name, found.status_message, found.events[0].name) == (name, text, name)
    assert (found.scope.name, found.scope.version) == (name, text)
    for part in (found, found.events[0], found.links[0], found.resource):
        assert part.attributes == wanted
    assert decode_request(encode_request([found])).spans == [found]
