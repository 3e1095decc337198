"""Tracing: OpenTelemetry spans that records can be evaluated with."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.model.attributes import ACTIVE_ENTITY as SCOUTER_ACTIVE_ENTITY_UID_BAGGAGE_KEY
    from scouter.tracing.capture import (
        SpanCapture,
        captured_spans,
        captured_spans_of_scenario,
        disable_local_span_capture,
        drain_local_span_capture,
        enable_local_span_capture,
    )
    from scouter.tracing.decorate import FunctionType, get_function_type
    from scouter.tracing.exporters import (
        GrpcSpanExporter,
        HttpSpanExporter,
        OtelExportConfig,
        OtelProtocol,
        SpanTag,
        StdoutSpanExporter,
        TestSpanExporter,
    )
    from scouter.tracing.instrumentor import ScouterInstrumentor, instrument, uninstrument
    from scouter.tracing.middleware import ScouterTracingMiddleware
    from scouter.tracing.propagation import (
        active_profile,
        active_scenario,
        extract_span_context_from_headers,
        get_tracing_headers_from_current_span,
        scenario_scope,
    )
    from scouter.tracing.span import ScouterSpan, SpanKind
    from scouter.tracing.span import ScouterSpan as ActiveSpan
    from scouter.tracing.tracer import (
        ScouterTracer,
        ScouterTracerProvider,
        flush_tracer,
        get_current_active_span,
        get_tracer,
        init_tracer,
        shutdown_tracer,
    )
    from scouter.tracing.tracer import ScouterTracer as Tracer
    from scouter.transport.config import BatchConfig
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = (
    "SCOUTER_ACTIVE_ENTITY_UID_BAGGAGE_KEY",
    "ActiveSpan",
    "BatchConfig",
    "FunctionType",
    "GrpcSpanExporter",
    "HttpSpanExporter",
    "OtelExportConfig",
    "OtelProtocol",
    "ScouterInstrumentor",
    "ScouterSpan",
    "ScouterTracer",
    "ScouterTracerProvider",
    "ScouterTracingMiddleware",
    "SpanCapture",
    "SpanKind",
    "SpanTag",
    "StdoutSpanExporter",
    "TestSpanExporter",
    "Tracer",
    "active_profile",
    "active_scenario",
    "captured_spans",
    "captured_spans_of_scenario",
    "disable_local_span_capture",
    "drain_local_span_capture",
    "enable_local_span_capture",
    "extract_span_context_from_headers",
    "flush_tracer",
    "get_current_active_span",
    "get_function_type",
    "get_tracer",
    "get_tracing_headers_from_current_span",
    "init_tracer",
    "instrument",
    "scenario_scope",
    "shutdown_tracer",
    "uninstrument",
)
