"""Records and spans for the tests of transports."""

import uuid
from dataclasses import replace
from typing import Any, cast

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from scouter.model.record import EvalRecord
from scouter.transport.drops import Count, Dropped
from scouter.transport.port import RecordItem


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


def nested(levels: int) -> Any:
    """A tuple in a tuple in a tuple, so many of them."""
    value: Any = "core"
    for _ in range(levels):
        value = (value,)
    return value


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
        items.append(RecordItem("d" * 64, *record.freeze()))
    return items


def drops(sender: str = "s1", **counts: int) -> Dropped:
    """A first report: counts by reason."""
    return {(sender, reason): Count(0, total) for reason, total in counts.items()}


def news(dropped: Dropped) -> dict[str, int]:
    """The drops that a report adds to those reported before, by reason."""
    return {
        reason: sum(count.total - count.reported for (_, each), count in dropped.items()
                    if each == reason)
        for _, reason in dropped
    }  # fmt: skip


def with_unwritable(items: list[RecordItem]) -> list[RecordItem]:
    """Three items with two between them that have no JSON text, as none of the model checks."""
    first, second, third = items
    id_is_no_text = replace(first, record_id=cast(str, uuid.UUID(int=1)))
    too_many_digits = replace(first, created_ns=10**5000)
    return [first, id_is_no_text, second, too_many_digits, third]
