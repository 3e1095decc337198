"""What every transport has to do; a transport's test adds one small class and no test logic."""

import uuid
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.transport.item import RecordItem, record_item
from scouter.transport.port import Transport


class _Finished(SpanProcessor):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def make_spans(count: int, text: str = "x", traces: int = 1) -> list[ReadableSpan]:
    """Finished spans of the real SDK, spread over some traces."""
    finished = _Finished()
    provider = TracerProvider(resource=Resource({"service.name": "agent"}), shutdown_on_exit=False)
    provider.add_span_processor(finished)
    tracer = provider.get_tracer("lib")
    contexts = [trace.set_span_in_context(tracer.start_span(f"root {n}")) for n in range(traces)]
    for n in range(count):
        span = tracer.start_span(f"span {n}", contexts[n % traces], attributes={"text": text})
        span.end()
    return finished.spans


def make_items(count: int, context: Any = None) -> list[RecordItem]:
    """Frozen records on their way."""
    items: list[RecordItem] = []
    for n in range(count):
        record = EvalRecord(
            {"n": n} if context is None else context,
            f"r{n}",
            "session",
            f"{n + 1:032x}" if n % 2 else None,
            tags={"tier": "gold"},
        )
        record.freeze()
        items.append(record_item("d" * 64, record))
    return items


def with_unwritable(items: list[RecordItem]) -> list[RecordItem]:
    """Three items with two between them that have no JSON text, as none of the model checks."""
    first, second, third = items
    id_is_no_text = replace(first, record_id=cast(str, uuid.UUID(int=1)))
    too_many_digits = replace(first, context={"n": 10**5000})
    return [first, id_is_no_text, second, too_many_digits, third]


class TransportContract:
    """Records and spans arrive whole, in order, once per accepted send."""

    @abstractmethod
    def open(self) -> Transport:
        """Open the transport under test."""

    @abstractmethod
    def received_records(self, count: int) -> list[dict[str, Any]]:
        """What has arrived; waits with a deadline until it is `count`."""

    @abstractmethod
    def received_spans(self, count: int) -> list[Span]:
        """What has arrived; waits with a deadline until it is `count`."""

    @pytest.fixture
    def transport(self) -> Iterator[Transport]:
        """An open transport, closed afterwards."""
        transport = self.open()
        yield transport
        transport.close()

    def test_records_arrive_as_the_wire_form_says(self, transport: Transport) -> None:
        items = make_items(3)

        assert transport.send_records(items) == 0

        found = sorted(self.received_records(3), key=lambda record: record["record_id"])
        assert found == [
            {
                "uid": item.uid,
                "profile": "d" * 64,
                "record_id": f"r{n}",
                "session_id": "session",
                "trace_id": None if n % 2 == 0 else f"{n + 1:032x}",
                "created_at": item.created_ns,
                "context": {"n": n},
                "tags": {"tier": "gold"},
            }
            for n, item in enumerate(items)
        ]

    def test_spans_arrive_with_their_resource(self, transport: Transport) -> None:
        spans = make_spans(10, traces=3)

        assert transport.send_spans(spans) == 0

        found = self.received_spans(10)
        assert sorted(span.name for span in found) == sorted(span.name for span in spans)
        assert {span.resource.service_name for span in found} == {"agent"}
        assert len({span.trace_id for span in found}) == 3

    def test_a_large_batch_arrives_whole(self, transport: Transport) -> None:
        """Above the size from which bodies are compressed."""
        assert transport.send_records(make_items(50, {"text": "é" * 2000})) == 0
        assert transport.send_spans(make_spans(50, "ü" * 2000)) == 0

        assert {record["context"]["text"] for record in self.received_records(50)} == {"é" * 2000}
        assert {str(s.attributes["text"]) for s in self.received_spans(50)} == {"ü" * 2000}

    def test_text_that_is_not_unicode_costs_nothing_else(self, transport: Transport) -> None:
        """Half a surrogate pair, which Python holds and UTF-8 cannot."""
        assert transport.send_records(make_items(2, {"text": "a\ud800b"})) == 0

        assert [record["context"] for record in self.received_records(2)] == [{"text": "a?b"}] * 2

    def test_a_span_that_cannot_be_written_is_counted(self, transport: Transport) -> None:
        bad = make_spans(3)
        bad[1] = ReadableSpan("\ud800", context=bad[1].get_span_context(), start_time=1, end_time=2)

        assert transport.send_spans(bad) == 1

        assert {span.name for span in self.received_spans(2)} == {"span 0", "span 2"}

    def test_several_sends_add_up(self, transport: Transport) -> None:
        for _ in range(3):
            transport.send_records(make_items(2))

        assert len({record["uid"] for record in self.received_records(6)}) == 6

    def test_closing_twice_is_harmless(self) -> None:
        transport = self.open()
        transport.close()
        transport.close()
