"""Exporters beside Scouter's own export: a list, the console, OTLP over HTTP and gRPC."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from scouter.errors import ConfigError
from scouter.tracing.exporters import (
    GrpcSpanExporter,
    HttpSpanExporter,
    OtelExportConfig,
    StdoutSpanExporter,
    TestSpanExporter,
)
from scouter.tracing.tracer import flush_tracer, init_tracer
from scouter.transport.config import MockConfig
from tests.scouter.transport.receiver import run_receiver

LOW, HIGH = f"{1:032x}", f"{1 << 63:032x}"
"""Trace ids of the lower and the upper half of the sampler's range."""
PARENT = "cd" * 8


def test_a_list_at_once() -> None:
    """Without batches a span is there when its block ends, children first."""
    exporter = TestSpanExporter(batch_export=False)
    tracer = init_tracer("shop", transport_config=MockConfig(), exporter=exporter)

    with (
        tracer.start_as_current_span("outer", tags=[{"team": "x"}, {"n": 1}]),
        tracer.start_as_current_span("inner"),
    ):
        pass

    inner, outer = exporter.spans
    assert [inner.span_name, outer.span_name] == ["inner", "outer"]
    assert inner.parent_span_id == outer.span_id
    assert (outer.span_kind, outer.service_name) == ("INTERNAL", "shop")
    assert [(tag.span_id, tag.key, tag.value) for tag in exporter.tags] == [
        (outer.span_id, "team", "x"),
        (outer.span_id, "n", "1"),
    ]
    exporter.clear()
    assert (exporter.spans, exporter.tags) == ([], [])


def test_a_list_in_batches() -> None:
    exporter = TestSpanExporter()
    tracer = init_tracer("shop", exporter=exporter)

    tracer.start_span("a").end()
    assert flush_tracer()

    assert [span.name for span in exporter.spans] == ["a"]


def test_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    tracer = init_tracer("shop", exporter=StdoutSpanExporter(sample_ratio=0.5))

    for trace_id, name in ((LOW, "stored"), (HIGH, "left out")):
        tracer.start_span(name, trace_id=trace_id, span_id=PARENT).end()

    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["parent_id"]) == ("stored", f"0x{PARENT}")


def test_otlp_over_http() -> None:
    with run_receiver() as receiver:
        config = OtelExportConfig(endpoint=f"{receiver.uri}/v1/traces", headers={"x-team": "a"})
        tracer = init_tracer("shop", exporter=HttpSpanExporter(export_config=config))
        tracer.start_span("a", attributes={"n": 1}).end()
        assert flush_tracer()
        (span,) = receiver.spans()

    assert (span.name, span.service_name, span.attributes) == ("a", "shop", {"n": 1})


class Collected(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.headers: dict[str, Any] = {}

    def Export(self, request: Any, context: Any) -> Any:
        self.headers.update(context.invocation_metadata())
        self.names += [
            span.name
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collected() -> Iterator[tuple[Collected, int]]:
    """A gRPC server on a free port."""
    servicer = Collected()
    server = grpc.server(ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, port
    server.stop(0).wait(120)


def test_otlp_over_grpc(collected: tuple[Collected, int]) -> None:
    servicer, port = collected
    config = OtelExportConfig(
        endpoint=f"http://127.0.0.1:{port}",
        compression="gzip",
        headers={"x-team": "a"},
        timeout=120,
    )
    exporter = GrpcSpanExporter(batch_export=False, export_config=config)
    init_tracer("shop", exporter=exporter).start_span("a").end()

    assert servicer.names == ["a"]
    assert servicer.headers["x-team"] == "a"


@pytest.mark.parametrize("kind", [HttpSpanExporter, GrpcSpanExporter])
def test_what_cannot_work_is_refused(kind: type[HttpSpanExporter | GrpcSpanExporter]) -> None:
    with pytest.raises(ConfigError, match=r"compression 'brotli'.*gzip"):
        kind(export_config=OtelExportConfig(compression="brotli"))
    with pytest.raises(ConfigError, match="from 0 to 1"):
        kind(sample_ratio=1.5)
