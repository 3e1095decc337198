"""Spans whose attributes are read when asked for equal those that are read at once."""

import copy
import pickle

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from scouter.model.otlp import DecodedSpans, decode_request, encode_request
from scouter.model.otlp_early import EarlyAttributes, decode_early, early_request
from scouter.model.span import AttributeValue, Span
from tests.scouter.model.test_otlp import plain_spans, proto, request

KEYS = frozenset(("text", "zero", "absent"))


def early(data: bytes, keys: frozenset[str] = KEYS) -> DecodedSpans:
    """Decode a request; the places of its spans are found by looking for their bytes."""
    places: list[tuple[int, int]] = []
    at = 0
    for group in ExportTraceServiceRequest.FromString(data).resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                content = span.SerializeToString()
                at = data.index(content, at)
                places.append((at, len(content)))
                at += len(content)
    return decode_early(early_request().FromString(data), data, places, keys)


@given(st.lists(plain_spans, max_size=3), st.booleans())
def test_equal_to_what_is_read_at_once(spans: list[Span], has_keys: bool) -> None:
    """Values, their types and their order; with keys that are there and some that are not."""
    data = encode_request(spans).SerializeToString()
    keys = {key for span in spans for key in list(span.attributes)[:2]} | {"absent"}

    decoded = early(data, frozenset(keys if has_keys else ()))

    assert decoded.rejected == []
    assert repr(decoded.spans) == repr(spans)
    assert decoded.spans == spans


def test_every_way_to_look_at_them() -> None:
    attributes: dict[str, AttributeValue] = {
        "text": "é", "zero": 0, "list": (1, "a", (None,)), "none": None, "map": {"x": 1.5},
    }  # fmt: skip
    span = Span(
        trace_id="1" * 32, span_id="2" * 16, name="s", start_ns=1, end_ns=2, attributes=attributes
    )
    (decoded,) = early(encode_request([span]).SerializeToString()).spans
    found = decoded.attributes

    assert isinstance(found, EarlyAttributes)
    assert found.known == {"text": "é", "zero": 0}
    assert [found.get(key) for key in ("text", "zero", "absent")] == ["é", 0, None]
    assert [found.get(key, 7) for key in ("absent", "list", "other")] == [7, (1, "a", (None,)), 7]
    assert (found["text"], found["map"]) == ("é", {"x": 1.5})
    assert ("none" in found, "absent" in found, len(found)) == (True, False, 5)
    assert (list(found), repr(found)) == (list(attributes), repr(attributes))
    again = pickle.loads(pickle.dumps(found))  # noqa: S301 our own bytes
    assert again == attributes == copy.deepcopy(found)
    with pytest.raises(KeyError, match="absent"):
        found["absent"]


def test_of_a_key_that_is_there_twice_the_last_counts() -> None:
    twice = proto(
        attributes=[
            KeyValue(key="text", value=AnyValue(string_value="first")),
            KeyValue(key="other", value=AnyValue(int_value=1)),
            KeyValue(key="text", value=AnyValue(string_value="last")),
            KeyValue(key="zero"),
            KeyValue(value=AnyValue(bool_value=True)),
        ]
    )
    data = request(twice).SerializeToString()

    (span,) = early(data).spans

    assert (span.attributes.get("text"), span.attributes["text"]) == ("last", "last")
    assert len(span.attributes) == len(dict(span.attributes)) == 4
    assert dict(span.attributes) == {"text": "last", "other": 1, "zero": None, "": True}
    assert dict(span.attributes) == dict(decode_request(request(twice)).spans[0].attributes)


def test_refused_spans_do_not_shift_the_others() -> None:
    good = [
        proto(
            attributes=[KeyValue(key="n", value=AnyValue(int_value=n))], span_id=bytes([n + 1]) * 8
        )
        for n in range(3)
    ]
    bad = proto(span_id=b"")
    sent = request(good[0], bad, good[1], bad, good[2])

    decoded = early(sent.SerializeToString())

    assert [dict(span.attributes) for span in decoded.spans] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert decoded.rejected == decode_request(sent).rejected
    assert [index for index, _ in decoded.rejected] == [1, 3]


@given(st.lists(plain_spans, min_size=1, max_size=2), st.data())
def test_refuses_the_same_bytes(spans: list[Span], data: st.DataObject) -> None:
    """Changed, cut or repeated bytes: what one message can read, the other can."""
    sent = bytearray(encode_request(spans).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(sent) - 1))
        match data.draw(st.sampled_from(("set", "cut", "twice"))):
            case "set":
                sent[at] = data.draw(st.integers(0, 255))
            case "cut":
                del sent[at : at + data.draw(st.integers(1, 4))]
            case _:
                sent[at:at] = sent[at : at + data.draw(st.integers(1, 40))]
        sent = sent or bytearray(b"x")

    assert _reads(early_request(), bytes(sent)) == _reads(ExportTraceServiceRequest, bytes(sent))


def _reads(kind: type[ExportTraceServiceRequest], data: bytes) -> bool:
    try:
        kind.FromString(data)
    except DecodeError:
        return False
    return True
