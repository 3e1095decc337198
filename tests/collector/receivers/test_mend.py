"""Spans that no parser or limit takes as they are arrive all the same, cut and marked."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.items.limits import Limits
from collector.items.traces import OtlpBody, decode_json, decode_protobuf
from scouter.model.attributes import TRUNCATED
from scouter.model.json_value import plain_text
from scouter.model.otlp import encode_request
from scouter.model.otlp_json import spans_to_otlp_json
from scouter.model.span import Resource, Scope, Span, SpanEvent, SpanLink

MARK = "#HERE#"
"""Stands in a request where bytes are put that its writer refuses to write."""


def span(number: int, **changes: Any) -> Span:
    fields: dict[str, Any] = {
        "trace_id": "a" * 32,
        "span_id": f"{number:016x}",
        "name": f"span {number}",
        "start_ns": 1,
        "end_ns": 2,
    }
    return Span(**fields | changes)


def both_ways(spans: list[Span], limits: Limits) -> list[OtlpBody]:
    data = encode_request(spans).SerializeToString()
    text = json.dumps(spans_to_otlp_json(spans)).encode()
    return [decode_protobuf(data, limits), decode_json(text, limits)]


def test_an_attribute_that_is_too_large_is_cut() -> None:
    large = span(2, attributes={"text": "x" * 5_000_000, "small": "y"})
    for body in both_ways([span(1), large, span(3)], Limits()):
        assert body.refused == []
        assert [each.name for each in body.spans] == ["span 1", "span 2", "span 3"]
        found = body.spans[1].attributes
        assert found[TRUNCATED] == ("text",)
        assert found["small"] == "y"
        assert 4_000_000 < len(str(found["text"])) < 4 * 2**20
        assert encode_request(body.spans[1:2]).ByteSize() <= 4 * 2**20 + 100


def test_attributes_that_are_too_many_are_left_out() -> None:
    many = span(2, attributes={f"k{n}": n for n in range(3_000)})
    events = tuple(SpanEvent(name="e", time_ns=1) for _ in range(2_000))
    for body in both_ways([span(1), many, span(3, events=events)], Limits()):
        assert body.refused == []
        _, wide, long = body.spans
        assert len(wide.attributes) == 1_024
        assert wide.attributes[TRUNCATED] == ("attributes",)
        assert len(long.events) == 1_023
        assert long.attributes[TRUNCATED] == ("events",)


def broken(raw: bytes) -> bytes:
    """A request whose texts hold these bytes wherever a text can stand, as other languages do."""
    filler = MARK + "." * (len(raw) - len(MARK))
    attributes = {filler: filler, "list": (filler,), "map": {filler: filler}}
    one = span(
        2,
        name=filler,
        status_message=filler,
        trace_state=filler,
        attributes=attributes,
        events=(SpanEvent(name=filler, time_ns=1, attributes=attributes),),
        links=(SpanLink(trace_id="", span_id="", attributes=attributes),),
        resource=Resource(attributes=attributes),
        scope=Scope(name=filler, version=filler),
    )
    good = span(1, resource=Resource(attributes={"service.name": "good"}))
    data = encode_request([good, one]).SerializeToString()
    return data.replace(filler.encode(), raw)


@given(st.text(st.characters() | st.characters(categories=["Cs"]), min_size=10, max_size=40))
def test_texts_that_are_no_utf_8_are_repaired(text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    body = decode_protobuf(broken(raw))
    wanted = plain_text(text)
    attributes = {wanted: wanted, "list": (wanted,), "map": {wanted: wanted}}

    assert body.refused == []
    good, found = body.spans
    assert good.name == "span 1"
    assert (found.name, found.status_message, found.trace_state) == (wanted, wanted, wanted)
    assert found.scope == Scope(name=wanted, version=wanted)
    for each in (found, found.events[0], found.links[0], found.resource):
        assert dict(each.attributes) == attributes


def test_bytes_that_are_no_text_at_all_are_repaired() -> None:
    body = decode_protobuf(broken(b"\xff\xfe latin \xe9"))
    assert body.refused == []
    assert body.spans[1].name == "\ufffd\ufffd latin \ufffd"


@pytest.mark.parametrize(("levels", "is_cut"), [(47, False), (48, True)])
def test_what_is_nested_too_deeply_is_cut(levels: int, is_cut: bool) -> None:
    """In the frame of an event, where the fewest levels are left."""
    value: Any = "core"
    for _ in range(levels):
        value = (value,)
    deep = span(2, events=(SpanEvent(name="e", time_ns=1, attributes={"deep": value}),))
    data = encode_request([span(1), deep]).SerializeToString()
    body = decode_protobuf(data)

    assert body.refused == []
    found = body.spans[1]
    depth, inner = 0, found.events[0].attributes["deep"]
    while isinstance(inner, tuple):
        depth, (inner,) = depth + 1, inner
    assert (depth, inner) == ((47, "…") if is_cut else (levels, "core"))
    assert found.attributes.get(TRUNCATED) == (("deep",) if is_cut else None)
    again = encode_request(body.spans).SerializeToString()
    assert ExportTraceServiceRequest.FromString(again)
