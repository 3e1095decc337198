"""A span that is too large fits afterwards, and says what was cut."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from scouter.model.attributes import TRUNCATED
from scouter.model.otlp import decode_request, encode_request
from scouter.model.otlp_cut import cut_span
from scouter.model.span import Span, SpanEvent, SpanLink
from tests.support.examples import examples


def proto(**changes: Any) -> ProtoSpan:
    fields: dict[str, Any] = {"name": "n", "start_ns": 1, "end_ns": 2, **changes}
    span = Span(trace_id="a" * 32, span_id="b" * 16, **fields)
    return encode_request([span]).resource_spans[0].scope_spans[0].spans[0]


def read(span: ProtoSpan) -> Span:
    request = encode_request([])
    request.resource_spans.add().scope_spans.add().spans.append(span)
    return decode_request(request).spans[0]


def test_the_largest_values_are_cut_and_the_others_stay() -> None:
    attributes = {"a": "x" * 50_000, "b": "é" * 20_000, "c": "short", "d": 5, "e": b"z" * 40_000}
    span = proto(attributes=attributes)
    cut_span(span, 30_000, 100)
    found = read(span).attributes

    assert span.ByteSize() <= 30_000
    assert (found["c"], found["d"]) == ("short", 5)
    assert found[TRUNCATED] == ("a", "b", "e")
    a, b, e = found["a"], found["b"], found["e"]
    assert isinstance(a, str)
    assert isinstance(b, str)
    assert isinstance(e, bytes)
    assert a == "x" * (len(a) - 1) + "…"
    assert b == "é" * (len(b) - 1) + "…"
    assert attributes["e"].startswith(e)  # type: ignore[union-attr]
    assert len(a) + 2 * len(b) + len(e) > 15_000, "no more is cut than has to be"


def test_a_list_keeps_its_first_items() -> None:
    attributes = {
        "docs": tuple(f"doc {n} " + "x" * 100 for n in range(500)),
        "map": {"k": "y" * 9_000},
    }
    span = proto(attributes=attributes)
    cut_span(span, 12_000, 100)
    found = read(span).attributes
    docs = found["docs"]

    assert isinstance(docs, tuple)
    assert 10 < len(docs) < 500
    assert docs[:-1] == attributes["docs"][: len(docs) - 1]  # type: ignore[index]
    assert found[TRUNCATED] == ("docs", "map")


def test_texts_beside_the_attributes_are_cut_too() -> None:
    span = proto(
        name="n" * 9_000,
        status_message="why " * 5_000,
        events=(SpanEvent(name="exception", time_ns=1, attributes={"stack": "s" * 9_000}),),
        links=(SpanLink(trace_id="c" * 32, span_id="d" * 16, attributes={"l": "t" * 9_000}),),
    )
    cut_span(span, 8_000, 100)
    found = read(span)

    assert span.ByteSize() <= 8_000
    assert found.attributes[TRUNCATED] == ("name", "status", "events.exception.stack", "links.l")
    assert found.name.endswith("n…")
    assert found.status_message.startswith("why why")


def test_what_is_too_many_is_left_out_and_counted() -> None:
    """The last ones go; what Scouter set itself is left, and a mark is one attribute."""
    attributes: dict[str, Any] = {f"k{n}": n for n in range(2_000)}
    attributes["scouter.scenario"] = "s"
    events = tuple(SpanEvent(name="e", time_ns=n, attributes={"a": 1}) for n in range(3))
    span = proto(attributes=attributes, events=events)
    cut_span(span, 10**6, 100)
    found = read(span)

    assert len(found.attributes) == 100
    assert found.attributes["scouter.scenario"] == "s"
    assert [found.attributes[f"k{n}"] for n in range(98)] == list(range(98))
    assert (span.dropped_attributes_count, span.dropped_events_count) == (2_001 - 99, 3)
    assert found.attributes[TRUNCATED] == ("attributes", "events")

    span = proto(attributes={"a": 1}, events=events)
    cut_span(span, 10**6, 6)
    assert [len(event.attributes) for event in read(span).events] == [1, 1]
    assert span.dropped_events_count == 1


def test_a_span_that_fits_stays_as_it_is() -> None:
    span = proto(attributes={"a": "x" * 100})
    before = span.SerializeToString()
    cut_span(span, len(before), 1)
    assert span.SerializeToString() == before


def test_a_second_cut_adds_to_the_mark() -> None:
    span = proto(attributes={"a": "x" * 9_000, "b": "y" * 900})
    cut_span(span, 5_000, 10)
    cut_span(span, 1_000, 10)
    assert read(span).attributes[TRUNCATED] == ("a", "b")


VALUES = st.recursive(
    st.text(max_size=50).map(lambda text: text * 100) | st.integers(0, 9) | st.binary(max_size=500),
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=8,
)
KEYS = st.text(min_size=1, max_size=20).filter(lambda key: key != TRUNCATED)
HELD = st.dictionaries(KEYS, VALUES, max_size=8)


@settings(max_examples=examples(100))
@given(HELD, HELD, st.integers(2_000, 20_000))
def test_any_span_fits(attributes: Any, below: Any, most: int) -> None:
    """The span may hold anything; and a part that is not named was not changed."""
    span = proto(attributes=attributes, events=(SpanEvent(name="e", time_ns=1, attributes=below),))
    before = read(span)
    cut_span(span, most, 1_000)
    found = read(span)
    marks = found.attributes.get(TRUNCATED, ())

    assert span.ByteSize() <= most
    assert isinstance(marks, tuple)
    for key, value in before.attributes.items():
        if key[:100] not in marks:
            assert found.attributes[key] == value
    for key, value in before.events[0].attributes.items():
        if f"events.e.{key}"[:100] not in marks:
            assert found.events[0].attributes[key] == value
