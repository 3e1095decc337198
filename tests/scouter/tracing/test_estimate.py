"""The estimated size of a waiting span, against its real size."""

import sys
from collections.abc import Callable

import pytest
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import Link, SpanContext, StatusCode, Tracer

from scouter.tracing.export import estimate_bytes
from tests.contracts.transport_data import make_spans
from tests.support.memory import held_bytes


def test_a_span_is_estimated_by_its_texts() -> None:
    """The bound counts bytes: 100,000 characters more are 100,000 bytes more."""
    small, large = make_spans(1, "x")[0], make_spans(1, "x" * 100_001)[0]

    assert estimate_bytes(large) - estimate_bytes(small) == 100_000


@pytest.mark.parametrize("letter", ["x", "é", "語", "🚀"])
def test_a_text_is_estimated_by_its_bytes_in_memory_and_on_the_wire(letter: str) -> None:
    """In an attribute, a list and an event; no text counts for less, nor for twice as much."""
    text = letter * 10_000
    at_least = max(len(text.encode()), sys.getsizeof(text) - 100)
    in_event = ReadableSpan("s", events=[Event("e", {"a": text})])
    for span in (ReadableSpan("s", attributes={"a": text}), *make_spans(1, text), in_event):
        assert at_least <= estimate_bytes(span) <= 2 * at_least
    in_list = ReadableSpan("s", attributes={"a": (text, text)})
    assert 2 * at_least <= estimate_bytes(in_list) <= 4 * at_least


def make_bare(tracer: Tracer, n: int) -> None:
    tracer.start_span(f"span {n}").end()


def make_named(tracer: Tracer, n: int) -> None:
    tracer.start_span(f"span {n}" * 500).end()


def make_with_attributes(tracer: Tracer, n: int) -> None:
    tracer.start_span("s", attributes={f"key {k}": f"value {n} of {k}" for k in range(10)}).end()


def make_with_lists(tracer: Tracer, n: int) -> None:
    span = tracer.start_span("s")
    span.set_attribute("texts", [f"value {n} of {k}" for k in range(50)])
    span.end()


def make_with_events(tracer: Tracer, n: int) -> None:
    span = tracer.start_span("s")
    for k in range(5):
        span.add_event(f"event {n} of {k}", {"number": n + 1000, "text": f"text {n} of {k}"})
    span.end()


def make_failed(tracer: Tracer, n: int) -> None:
    span = tracer.start_span("s")
    span.set_status(StatusCode.ERROR, f"failure {n}" * 300)
    span.end()


def make_linked(tracer: Tracer, n: int) -> None:
    context = SpanContext(n + 2**100, n + 2**60, is_remote=True)
    links = [Link(context, {"number": n + 1000}) for _ in range(10)]
    tracer.start_span("s", links=links).end()


@pytest.mark.parametrize(
    "make",
    [
        make_bare,
        make_named,
        make_with_attributes,
        make_with_lists,
        make_with_events,
        make_failed,
        make_linked,
    ],
)
def test_a_span_is_estimated_by_what_it_takes(make: Callable[[Tracer, int], None]) -> None:
    """The bound is one of memory: as the allocator counts, within a fifth."""
    kept: list[ReadableSpan] = []

    class Keep(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            kept.append(span)

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Keep())
    tracer = provider.get_tracer("t")
    make(tracer, 0)

    def make_many() -> None:
        for n in range(500):
            make(tracer, n)

    taken = held_bytes(make_many) / 500
    estimated = sum(map(estimate_bytes, kept[1:])) / 500
    assert 0.8 <= estimated / taken <= 1.25, (estimated, taken)
