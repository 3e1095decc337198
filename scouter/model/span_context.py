"""Places in OpenTelemetry's `SpanContext`, a tuple: its properties take three times as long."""

from typing import Final

from opentelemetry.trace import TraceFlags

TRACE_ID: Final = 0
IS_REMOTE: Final = 2
FLAGS: Final = 3
IS_VALID: Final = 5

SAMPLED: Final = int(TraceFlags.SAMPLED)
"""The flag of a trace that is kept."""
