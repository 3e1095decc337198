"""What Scouter costs the agent: `python -m tests.bench.sdk`.

Everything runs in one process and one run, alternating, so that the ratios hold although the
absolute numbers belong to the machine. Times are CPU time of the calling thread or of the whole
process; the far side of both exporters is a function that throws the bytes away.
"""

import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Tracer

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.otlp import decode_request
from scouter.model.record import EvalRecord
from scouter.model.sdk_span import span_from_sdk
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.batch import BatchConfig
from scouter.tracing.export import SpanExport
from scouter.tracing.processor import ScouterSpanProcessor
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import flush_tracer, init_tracer
from scouter.transport.config import TransportConfig
from scouter.transport.encode import encode_records
from scouter.transport.item import RecordItem
from scouter.transport.port import NONE_DROPPED, Dropped, Transport
from scouter.transport.span_bytes import write_request
from scouter.transport.worker import WorkerLimits

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


def per_call(work: Callable[[], object], count: int, clock: Callable[[], float]) -> float:
    """Microseconds of one call."""
    start = clock()
    for _ in range(count):
        work()
    return (clock() - start) / count * 1e6


def spans_of(tracer: Tracer) -> Callable[[], None]:
    """One span with ten attributes, as an instrumentation makes it."""

    def work() -> None:
        with tracer.start_as_current_span("chat gpt-5-mini", attributes=ATTRIBUTES):
            pass

    return work


def report(name: str, values: Sequence[float], base: float | None = None) -> None:
    """Print median and spread, and the ratio to a base."""
    middle = statistics.median(values)
    ratio = "" if base is None else f"   {middle / base:5.2f} x   {middle - base:+7.2f} µs"
    print(f"{name:<58} {middle:8.2f} µs  (min {min(values):.2f}){ratio}")


def bench_insert(rounds: int, count: int) -> None:
    """`insert` with a context of about 300 bytes of JSON."""
    task = AssertionTask(
        id="t", context_path="tokens", operator=ComparisonOperator.Equals, expected_value=1
    )
    queue = ScouterQueue(
        {"a": AgentEvalProfile(tasks=[task], alias="a")},
        SinkConfig(),
        WorkerLimits(max_items=10_000_000, max_bytes=1 << 40, delay_s=3600, max_batch_items=10**7),
    )
    print(f"\ninsert, context of {len(json.dumps(CONTEXT))} bytes of JSON")
    inserts: list[float] = []
    makes: list[float] = []
    for _ in range(rounds):
        records = [EvalRecord(CONTEXT) for _ in range(count)]
        each = iter(records)
        slot = queue["a"]
        inserts.append(per_call(lambda: slot.insert(next(each)), count, time.thread_time))  # noqa: B023
        makes.append(per_call(lambda: slot.insert(EvalRecord(CONTEXT)), count, time.thread_time))  # noqa: B023
    report("insert", inserts)
    report("EvalRecord(...) and insert", makes)
    queue.flush(120)
    queue.shutdown()


def bench_spans(rounds: int, count: int) -> None:
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
    setups: dict[str, tuple[Callable[[], None], Callable[[], object]]] = {
        "no processor at all": (spans_of(bare.get_tracer("x")), lambda: None),
        "stock batch processor + OTLP": (
            spans_of(stock.get_tracer("x")),
            stock_processor.force_flush,
        ),
        "Scouter's processor": (spans_of(ours.get_tracer("x")), flush_tracer),
        "two stock batch processors": (
            spans_of(two.get_tracer("x")),
            lambda: [processor.force_flush() for processor in two_processors],
        ),
        "stock + Scouter's": (
            spans_of(both.get_tracer("x")),
            lambda: (both_processor.force_flush(), flush_tracer()),
        ),
        "ScouterTracer (ScouterSpan) + Scouter's": (spans_of(wrapped), flush_tracer),
    }
    thread: dict[str, list[float]] = {name: [] for name in setups}
    process: dict[str, list[float]] = {name: [] for name in setups}
    for _ in range(rounds):
        for name, (work, flush) in setups.items():
            gc.collect()
            start = time.process_time()
            thread[name].append(per_call(work, count, time.thread_time))
            flush()
            process[name].append((time.process_time() - start) / count * 1e6)
    for title, table in (("caller's thread", thread), ("whole process, encoding too", process)):
        print(f"\none span of {len(ATTRIBUTES)} attributes, {title}")
        base = statistics.median(table["stock batch processor + OTLP"])
        for name, values in table.items():
            report(name, values, base)
    stats = RUNTIME.stats
    print(f"spans: {stats.put} put, {stats.sent} sent, dropped {stats.dropped or 'none'}")


def bench_burst() -> None:
    """A burst of 9,600 spans with default settings: is any lost?"""
    export = SpanExport(SinkConfig(), BatchConfig())
    RUNTIME.export = export
    provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(ScouterSpanProcessor(RUNTIME))
    work = spans_of(provider.get_tracer("x"))
    for _ in range(9_600):
        work()
    export.flush(60)
    print(f"\nburst of 9,600 spans: {export.stats.sent} sent, dropped {export.stats.dropped or 0}")


def bench_decode(rounds: int) -> None:
    """The collector's side: OTLP protobuf to spans."""
    kept: list[ReadableSpan] = []

    class Keep(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            kept.extend(spans)
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    processor = BatchSpanProcessor(Keep(), max_queue_size=100_000)
    provider.add_span_processor(processor)
    work = spans_of(provider.get_tracer("x"))
    for _ in range(1000):
        work()
    processor.force_flush()
    request = encode_spans(kept)
    print("\nspans of the rim, ten attributes")
    works: dict[str, Callable[[], object]] = {
        "decode_request, per span": lambda: decode_request(request),
        "span_from_sdk, per span": lambda: [span_from_sdk(span) for span in kept],
    }
    for name, each in works.items():
        times = [per_call(each, 1, time.process_time) / 1000 for _ in range(rounds * 3)]
        report(name, times)


def main() -> None:
    """Run all parts; `--short` for a quick look."""
    rounds, count = (3, 2_000) if "--short" in sys.argv else (9, 10_000)
    print(f"Python {platform.python_version()} on {platform.machine()}, {rounds} rounds of {count}")
    bench_insert(rounds, count)
    bench_spans(rounds, count)
    bench_burst()
    bench_decode(rounds)


if __name__ == "__main__":
    main()
