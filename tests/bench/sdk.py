"""Cost of Scouter for the agent: `python -m tests.bench.sdk`.

Everything runs in one process and one run. The setups take turns in short blocks, each round in
another order. The figure of two setups is the median over the rounds of their ratio or difference
within a round. So it holds although the absolute numbers belong to the machine, and although other
programs come and go. Three figures are per call: the median by the clock (p50), the mean processor
time of the calling thread (with the garbage collector's pauses and the cost of the sending thread),
and that of the whole process until all is delivered. The far side of both exporters is a function
that throws the bytes away; `tests.bench.sdk_http` sends them.
"""

import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Tracer

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.attributes import QUEUE_EVENT, QUEUE_PROFILE, QUEUE_RECORD
from scouter.model.otlp import decode_request
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.export import SpanExport
from scouter.tracing.processor import ScouterSpanProcessor
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import flush_tracer, init_tracer
from scouter.transport.config import BatchConfig, TransportConfig
from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.otlp import read_back, write_request
from scouter.transport.port import RecordItem, Transport, encode_records
from tests.bench.figures import Figures

ATTRIBUTES = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-5-mini",
    "gen_ai.response.model": "gpt-5-mini-2025-08-07",
    "gen_ai.usage.input_tokens": 812,
    "gen_ai.usage.output_tokens": 133,
    "gen_ai.request.temperature": 0.2,
    "gen_ai.response.finish_reasons": ("stop",),
    "server.address": "api.openai.com",
    "gen_ai.conversation.id": "conv_0123456789",
}

CONTEXT = {
    "response": {"text": "Paris is the capital of France. " * 4, "quality": 9},
    "query": "What is the capital of France?",
    "documents": ["doc-17", "doc-23", "doc-4"],
    "model": "gpt-5-mini",
    "tokens": 133,
}


STOCK, OURS = "stock batch processor + OTLP", "Scouter's processor"
TWO, BOTH = "two stock batch processors", "stock + Scouter's"
MOST_TIMES, MOST_US, MOST_INSERT_US = 1.1, 3.0, 3.0
"""Bounds: as the only exporter, beside another on the caller's thread, and of `insert`."""


class Sink:
    """Writes batches as the real transports do, and throws the bytes away."""

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        encode_records(items)
        return 0

    def send_spans(self, spans: Sequence[ReadableSpan], dropped: Dropped = NONE_DROPPED) -> int:
        write_request(spans)
        return 0

    def close(self) -> None:
        pass


class SinkConfig(TransportConfig):
    def open(self) -> Transport:
        return Sink()


class StockExporter(SpanExporter):
    """OpenTelemetry's OTLP exporter without the network."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


Blocks = Mapping[str, list[list[float]]]
"""Measured values, by setup, round and measure."""
MEASURES = ("p50 of a call", "mean, caller's thread", "mean, whole process")


class Setup(NamedTuple):
    """A setup that is measured."""

    work: Callable[[], object]
    flush: Callable[[], object] = lambda: None
    """Delivers everything."""
    prepare: Callable[[int], object] = lambda count: None
    """Makes what so many calls take, as late as an agent would: it is in the caches then."""


def block(setup: Setup, count: int) -> list[float]:
    """Call so many times; microseconds of one call by each of `MEASURES`."""
    clock, work, flush = time.perf_counter_ns, setup.work, setup.flush
    setup.prepare(count)
    gc.collect()
    process, thread = time.process_time_ns(), time.thread_time_ns()
    stamps = [clock()]
    note = stamps.append
    for _ in range(count):
        work()
        note(clock())
    thread = time.thread_time_ns() - thread
    flush()
    process = time.process_time_ns() - process
    middle = statistics.median(after - before for before, after in pairwise(stamps))
    return [middle / 1000, thread / count / 1000, process / count / 1000]


def in_turns(setups: Mapping[str, Setup], rounds: int, count: int) -> dict[str, list[list[float]]]:
    """Blocks of all setups in each round, in a rotating order; by setup, round and measure."""
    names = list(setups)
    blocks: dict[str, list[list[float]]] = {name: [] for name in names}
    for turn in range(-1, rounds):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            values = block(setups[name], count)
            if turn >= 0:  # the first round warms up
                blocks[name].append(values)
    return blocks


def show(title: str, blocks: Blocks, beside: str) -> None:
    """Print the measures of all setups, each beside the base's of the same round."""
    for measure, what in enumerate(MEASURES):
        print(f"\n{title}, {what}")
        for name, rows in blocks.items():
            ratio = times(blocks, name, beside, measure)
            more = more_us(blocks, name, beside, measure)
            middle = statistics.median(row[measure] for row in rows)
            print(f"{name:<44} {middle:8.2f} µs {ratio:7.3f} x {more:+8.2f} µs")


def times(blocks: Blocks, name: str, base: str, measure: int) -> float:
    """Median over the rounds of what a setup takes as a multiple of another's."""
    pairs = zip(blocks[name], blocks[base], strict=True)
    return statistics.median(ours[measure] / theirs[measure] for ours, theirs in pairs)


def more_us(blocks: Blocks, name: str, base: str, measure: int) -> float:
    """Median over the rounds of the microseconds that a setup takes more than another."""
    pairs = zip(blocks[name], blocks[base], strict=True)
    return statistics.median(ours[measure] - theirs[measure] for ours, theirs in pairs)


def spans_of(tracer: Tracer) -> Callable[[], None]:
    """One span with ten attributes, as an instrumentation makes it."""

    def work() -> None:
        with tracer.start_as_current_span("chat gpt-5-mini", attributes=ATTRIBUTES):
            pass

    return work


def trace_of(tracer: Tracer) -> Callable[[], None]:
    """A root with four children, of such spans."""
    one = spans_of(tracer)

    def work() -> None:
        with tracer.start_as_current_span("invoke_agent", attributes=ATTRIBUTES):
            for _ in range(4):
                one()

    return work


def bench_insert(rounds: int, count: int, figures: Figures) -> None:
    """`insert` with a context of about 300 bytes of JSON, default settings."""
    task = AssertionTask(
        id="t", context_path="tokens", operator=ComparisonOperator.Equals, expected_value=1
    )
    queue = ScouterQueue(
        {"a": AgentEvalProfile(tasks=[task], alias="a")},
        SinkConfig(),
    )
    slot = queue["a"]
    flush = partial(queue.flush, 120)
    records: list[EvalRecord] = []

    def prepare(number: int) -> None:
        records[:] = [EvalRecord(CONTEXT) for _ in range(number)]

    setups = {
        "nothing": Setup(lambda: records.pop(), prepare=prepare),
        "insert": Setup(lambda: slot.insert(records.pop()), flush, prepare),
        "EvalRecord(...) and insert": Setup(lambda: slot.insert(EvalRecord(CONTEXT)), flush),
    }
    size = len(json.dumps(CONTEXT))
    blocks = in_turns(setups, rounds, count)
    show(f"context of {size} bytes of JSON", blocks, "nothing")
    queue.shutdown()
    print(f"records: dropped {queue.stats.dropped or 'none'}")
    p50_us = more_us(blocks, "insert", "nothing", 0)
    figures.add("insert, p50", p50_us, "µs", at_most=MOST_INSERT_US)
    process_us = more_us(blocks, "insert", "nothing", 2)
    figures.add("insert, CPU of the whole process", process_us, "µs")


def bench_spans(rounds: int, count: int, figures: Figures) -> None:
    """Spans beside plain OpenTelemetry; caller's thread, then the whole process."""
    stock = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    stock_processor = BatchSpanProcessor(StockExporter(), max_queue_size=100_000)
    stock.add_span_processor(stock_processor)

    RUNTIME.configure(transport_config=SinkConfig())
    ours = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    ours.add_span_processor(ScouterSpanProcessor(RUNTIME))

    both = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    both_processor = BatchSpanProcessor(StockExporter(), max_queue_size=100_000)
    both.add_span_processor(both_processor)
    both.add_span_processor(ScouterSpanProcessor(RUNTIME))

    two = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    two_processors = [BatchSpanProcessor(StockExporter(), max_queue_size=100_000) for _ in "ab"]
    for processor in two_processors:
        two.add_span_processor(processor)

    bare = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    wrapped = init_tracer(transport_config=SinkConfig())
    flushes: dict[str, tuple[Tracer, Callable[[], object]]] = {
        "no processor at all": (bare.get_tracer("x"), lambda: None),
        STOCK: (stock.get_tracer("x"), stock_processor.force_flush),
        OURS: (ours.get_tracer("x"), flush_tracer),
        TWO: (
            two.get_tracer("x"),
            lambda: [processor.force_flush() for processor in two_processors],
        ),
        BOTH: (
            both.get_tracer("x"),
            lambda: (both_processor.force_flush(), flush_tracer()),
        ),
        "ScouterTracer (ScouterSpan) + Scouter's": (wrapped, flush_tracer),
    }
    for title, work_of, spans in (("one span", spans_of, 1), ("trace of five", trace_of, 5)):
        setups = {name: Setup(work_of(tracer), flush) for name, (tracer, flush) in flushes.items()}
        blocks = in_turns(setups, rounds, count // spans)
        show(f"{title}, {len(ATTRIBUTES)} attributes each", blocks, STOCK)
        ratio = times(blocks, BOTH, TWO, 2)
        print(f"whole process, stock + Scouter's beside two stock ones: {ratio:.3f} x")
        add_bounded(figures, title, blocks, (OURS, STOCK, BOTH, TWO), spans)
    stats = RUNTIME.stats
    print(f"spans: {stats.put} put, {stats.sent} sent, dropped {stats.dropped or 'none'}")


def add_bounded(
    figures: Figures, title: str, blocks: Blocks, names: tuple[str, str, str, str], spans: int
) -> None:
    """Report the figures with a bound.

    Args:
        figures: Takes the figures.
        title: Words in front of the names of the figures.
        blocks: The measured values.
        names: Names of the setups: Scouter's, the stock one, both together, two stock ones.
        spans: Spans of one call.
    """
    ours, stock, both, two = names
    for name, value, unit, most in (
        ("only exporter, p50", times(blocks, ours, stock, 0), "x", MOST_TIMES),
        ("only exporter, CPU", times(blocks, ours, stock, 2), "x", MOST_TIMES),
        ("beside another, p50 per span", more_us(blocks, both, stock, 0) / spans, "µs", MOST_US),
        ("beside another, CPU / two stock", times(blocks, both, two, 2), "x", 1.0),
    ):
        figures.add(f"{title}: {name}", value, unit, at_most=most)


def bench_burst(figures: Figures) -> None:
    """A burst of 9,600 spans with default settings: is any lost?"""
    export = SpanExport(SinkConfig(), BatchConfig())
    RUNTIME.export = export
    provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(ScouterSpanProcessor(RUNTIME))
    work = spans_of(provider.get_tracer("x"))
    for _ in range(9_600):
        work()
    export.flush(60)
    sent, dropped = export.stats.sent, export.stats.dropped
    print(f"\nburst of 9,600 spans: {sent} sent, dropped {dropped or 0}")
    figures.add("burst of 9,600 spans: lost", 9_600 - sent, at_most=0)


def bench_decode(rounds: int, figures: Figures) -> None:
    """The collector's side: OTLP protobuf to spans."""
    kept = ended(spans_of)
    request = encode_spans(kept)
    print("\nspans of the rim, ten attributes")
    works: dict[str, Callable[[], object]] = {
        "decode_request": lambda: decode_request(request),
        "read_back": lambda: read_back(kept),
    }
    for name, each in works.items():
        took = [block(Setup(each), 1)[1] / len(kept) for _ in range(rounds)]
        print(f"{name:<44} {statistics.median(took):8.2f} µs")
        figures.add(f"{name}, one span", statistics.median(took), "µs")


class Keep(SpanExporter):
    """Keeps the spans."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS


def ended(work_of: Callable[[Tracer], Callable[[], None]]) -> list[ReadableSpan]:
    """A thousand finished spans of one kind."""
    keep = Keep()
    provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(keep))
    work = work_of(provider.get_tracer("x"))
    for _ in range(1000):
        work()
    return keep.spans


def kind_of(
    attributes: Mapping[str, Any], *, has_event: bool = False
) -> Callable[[Tracer], Callable[[], None]]:
    """Spans with these attributes, and with the event of an inserted record."""

    def of(tracer: Tracer) -> Callable[[], None]:
        def work() -> None:
            with tracer.start_as_current_span("chat gpt-5-mini", attributes=attributes) as span:
                if has_event:
                    span.add_event(QUEUE_EVENT, {QUEUE_RECORD: "0197", QUEUE_PROFILE: "bot"})

        return work

    return of


EIGHT: Final = dict(list(ATTRIBUTES.items())[:8])
GENAI: Final = {
    **ATTRIBUTES,
    **{f"gen_ai.prompt.{i}.role": "user" for i in range(8)},
    **{f"gen_ai.prompt.{i}.content": f"Où est {CONTEXT['query']}" for i in range(8)},
    **{f"gen_ai.usage.part_{i}_tokens": 100 * i for i in range(4)},
}


def bench_encode(rounds: int, figures: Figures) -> None:
    """Our writer of OTLP beside OpenTelemetry's own, for each kind of span."""
    kinds = {
        "bare": kind_of({}),
        "8 attributes": kind_of(EIGHT),
        "8 attributes and an event": kind_of(EIGHT, has_event=True),
        f"GenAI, {len(GENAI)} attributes": kind_of(GENAI),
    }
    print("\nspans as OTLP, µs of CPU for each: ours, OpenTelemetry's")
    for name, work_of in kinds.items():
        spans = ended(work_of)
        setups = {
            "ours": Setup(partial(write_request, spans)),
            STOCK: Setup(partial(StockExporter().export, spans)),
        }
        blocks = in_turns(setups, rounds, 1)
        took = [statistics.median(row[1] for row in rows) / len(spans) for rows in blocks.values()]
        print(f"{name:<44} {took[0]:8.2f} {took[1]:8.2f}")
        ratio = times(blocks, "ours", STOCK, 1)
        figures.add(f"encode, {name}: ours / OpenTelemetry's", ratio, "x", at_most=1.0)


def main() -> int:
    """Run all parts; `--short` for a quick look."""
    is_short = "--short" in sys.argv
    figures = Figures("sdk", is_short=is_short)
    rounds, count = (3, 1_000) if is_short else (60, 2_000)
    print(f"Python {platform.python_version()} on {platform.machine()}, {rounds} rounds of {count}")
    bench_insert(rounds, count, figures)
    bench_spans(rounds, count, figures)
    bench_burst(figures)
    bench_encode(rounds, figures)
    bench_decode(rounds, figures)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
