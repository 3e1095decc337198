"""The tracing names of OpenTelemetry's API, in whose place Scouter's own stand where it has any."""

from opentelemetry.trace import get_tracer_provider, set_tracer_provider, use_span

from scouter.tracing.span import ScouterSpan as Span
from scouter.tracing.span import SpanKind
from scouter.tracing.tracer import ScouterTracer as Tracer
from scouter.tracing.tracer import get_current_active_span as get_current_span
from scouter.tracing.tracer import get_tracer

__all__ = (
    "Span",
    "SpanKind",
    "Tracer",
    "get_current_span",
    "get_tracer",
    "get_tracer_provider",
    "set_tracer_provider",
    "use_span",
)
