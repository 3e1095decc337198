"""An agent with nothing but the stock OpenTelemetry SDK: spans and its record over gRPC."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final

import httpx
import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    InMemoryLogRecordExporter,
    LogRecordExportResult,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.support.collector_process import CollectorProcess, tasks_by_id
from tests.support.processes import wait_until

StartCollector = Callable[..., CollectorProcess]
AUTOCONFIGURED: Final = """
import logging

from opentelemetry import metrics, trace
from opentelemetry._logs import LogRecord, get_logger_provider
from opentelemetry.sdk._configuration import _OTelSDKConfigurator

_OTelSDKConfigurator().configure(auto_instrumentation_version="0")
logging.basicConfig(level="WARNING")  # to standard error
with trace.get_tracer("agent").start_as_current_span("work") as span:
    print(f"{span.get_span_context().trace_id:032x}")
metrics.get_meter("agent").create_counter("turns").add(1)
get_logger_provider().get_logger("agent").emit(LogRecord(body="a line"))
for provider in trace.get_tracer_provider(), metrics.get_meter_provider(), get_logger_provider():
    provider.shutdown()
"""
"""The work of `opentelemetry-instrument` before it starts a program, and a program."""


IGNORED: Final = "scouter_ingest_ignored"


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """With a profile that counts the spans named `step`."""
    folder = tmp_path_factory.mktemp("collector")
    count = TraceAssertion.span_count(SpanFilter.by_name("step"))
    task = TraceAssertionTask("two_steps", count, 2, ComparisonOperator.Equals)
    profile = AgentEvalProfile([task], alias="traced").save_to_json(folder / "traced.json")
    started = CollectorProcess(folder, "--profile", profile, "--grpc", "127.0.0.1:0")
    started.start()
    yield started
    started.close()


@pytest.mark.parametrize("as_text", [False, True])
def test_a_stock_agent_gets_its_record_judged_with_its_spans(
    collector: CollectorProcess, as_text: bool
) -> None:
    before, record_id = collector.metrics(), f"r-{as_text}"
    resource = Resource({"service.name": "stock-agent", "service.version": "1.2"})
    endpoint = f"http://{collector.grpc}"
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, insecure=True)))
    loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPLogExporter(endpoint, insecure=True)
    loggers.add_log_record_processor(BatchLogRecordProcessor(exporter))

    tracer, logger = tracers.get_tracer("agent"), loggers.get_logger("agent")
    record = {"profile": "traced", "record_id": record_id, "context": {"answer": "in four days"}}
    with tracer.start_as_current_span("root") as root:
        for _ in range(2):
            with tracer.start_as_current_span("step"):
                pass
        logger.emit(
            LogRecord(
                event_name="scouter.eval_record",
                body=json.dumps(record) if as_text else record,
                attributes={"customer": "acme"},
            )
        )
        logger.emit(LogRecord(body="a line that is no record"))
    tracers.shutdown()
    loggers.shutdown()

    wait_until(lambda: collector.evaluations(record_id=record_id), what="the record is evaluated")
    (item,) = collector.evaluations(record_id=record_id)
    assert (item["record_id"], item["outcome"], item["completeness"]) == (
        record_id, "passed", "complete",
    )  # fmt: skip
    assert item["trace_id"] == f"{root.get_span_context().trace_id:032x}"
    assert tasks_by_id(item)["two_steps"]["actual"] == 2
    assert item["tags"] == {
        "customer": "acme", "service.name": "stock-agent", "service.version": "1.2",
    }  # fmt: skip
    for line in (
        f'{IGNORED}_log_records_total{{receiver="grpc"}}',
        'scouter_ingest_duration_seconds_count{receiver="grpc",signal="logs"}',
    ):
        assert collector.metrics()[line] == before.get(line, 0) + 1


def test_genai_events_survive_kill_9_between_answer_and_store(
    start_collector: StartCollector,
) -> None:
    """Acknowledged by gRPC, killed at once, sent again after the restart: each is there once."""
    collector = start_collector("--grpc", "127.0.0.1:0")
    resource = Resource({"service.name": "stock-agent"})
    made, sent = InMemorySpanExporter(), InMemoryLogRecordExporter()
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(made))
    loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(sent))
    with tracers.get_tracer("agent").start_as_current_span("chat") as span:
        for number in range(50):
            loggers.get_logger("agent").emit(
                LogRecord(event_name="gen_ai.choice", body={"index": number, "text": "é" * number})
            )
    spans, events = made.get_finished_spans(), sent.get_finished_logs()

    def send() -> None:
        endpoint = f"http://{collector.grpc}"  # another port after a restart
        logs = OTLPLogExporter(endpoint, insecure=True)
        traces = OTLPSpanExporter(endpoint, insecure=True)
        assert logs.export(events) is LogRecordExportResult.SUCCESS
        assert traces.export(spans) is SpanExportResult.SUCCESS
        logs.shutdown()
        traces.shutdown()

    send()
    collector.kill()
    collector.start()
    send()

    trace_id = f"{span.get_span_context().trace_id:032x}"
    (found,) = collector.get(f"/api/v1/traces/{trace_id}")["spans"]
    index = [
        pair["value"]["intValue"]
        for event in found["events"]
        for pair in event["attributes"]
        if pair["key"] == "index"
    ]
    assert index == [str(number) for number in range(50)]
    sheet = collector.get("/api/v1/conservation")["events"]
    assert (sheet["accepted"], sheet["stored"], sheet["duplicates"]) == (50, 50, 50)


def test_the_stock_exporter_waits_and_comes_back_when_the_memory_is_full(
    start_collector: StartCollector, caplog: pytest.LogCaptureFixture
) -> None:
    """A request of 700 kB that never ends fills a memory of 1 MB; the exporter's fits later."""
    collector = start_collector(
        "--grpc", "127.0.0.1:0", "--max-body", "900KB", "--max-inflated", "100KB",
        "--max-in-flight", "1MB",
    )  # fmt: skip
    caplog.set_level(logging.WARNING)
    exporter = OTLPSpanExporter(f"http://{collector.grpc}", insecure=True, timeout=120)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    with provider.get_tracer("agent").start_as_current_span("large") as large:
        large.set_attribute("text", "x" * 500_000)

    line = 'scouter_ingest_refused_total{reason="full",receiver="grpc",signal="traces"}'
    flushing = threading.Thread(target=provider.force_flush)

    def slowly() -> Iterator[bytes]:
        yield b"{" + b" " * 700_000
        wait_until(
            lambda: collector.metrics()["scouter_ingest_in_flight_bytes"] >= 600_000,
            what="the request that never ends holds its memory",
        )
        flushing.start()
        wait_until(lambda: collector.metrics().get(line, 0) >= 1, what="a refusal")
        yield b"}"

    headers = {"Content-Type": "application/json"}
    answer = httpx.post(
        f"{collector.url}/v1/traces", content=slowly(), headers=headers, timeout=120
    )
    assert answer.status_code == 200, answer.text
    flushing.join(120)
    provider.shutdown()
    assert "RESOURCE_EXHAUSTED" in caplog.text
    trace_id = f"{large.get_span_context().trace_id:032x}"
    (span,) = collector.get(f"/api/v1/traces/{trace_id}")["spans"]
    assert span["name"] == "large"


@pytest.mark.parametrize(
    ("protocol", "compression"),
    [
        ("http/protobuf", "gzip"),
        ("grpc", "gzip"),
    ],
)
def test_an_autoconfigured_agent_logs_no_error(
    collector: CollectorProcess, protocol: str, compression: str
) -> None:
    """Spans, logs and metrics, as the SDK sends them where nobody said what not to send."""
    receiver = "grpc" if protocol == "grpc" else "http"
    exports, lines = (
        f'{IGNORED}_{each}_total{{receiver="{receiver}"}}'
        for each in ("metric_exports", "log_records")
    )
    before = collector.metrics()
    endpoint = f"http://{collector.grpc}" if protocol == "grpc" else collector.url
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_COMPRESSION": compression,
        "OTEL_EXPORTER_OTLP_INSECURE": "true",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "otlp",
    }
    done = subprocess.run(
        [sys.executable, "-c", AUTOCONFIGURED], env=os.environ | environ,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    (span,) = collector.get(f"/api/v1/traces/{done.stdout.strip()}")["spans"]
    assert span["name"] == "work"
    metrics = collector.metrics()
    assert metrics[exports] >= before.get(exports, 0) + 1
    assert metrics[lines] == before.get(lines, 0) + 1
