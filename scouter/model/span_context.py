"""Places in OpenTelemetry's `SpanContext`, a tuple: its properties take three times as long."""

from typing import Any, Final

from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanContext, TraceFlags

TRACE_ID: Final = 0
IS_REMOTE: Final = 2
FLAGS: Final = 3
IS_VALID: Final = 5

SAMPLED: Final = int(TraceFlags.SAMPLED)
"""The flag of a trace that is kept."""


def as_tuple(context: Any) -> SpanContext:  # noqa: ANN401 - whatever a library takes for one
    """Make OpenTelemetry's own of a span context that only has its names."""
    try:
        flags = TraceFlags(context.trace_flags)
        return SpanContext(context.trace_id, context.span_id, context.is_remote, flags)
    except (AttributeError, TypeError, ValueError):
        return INVALID_SPAN_CONTEXT
