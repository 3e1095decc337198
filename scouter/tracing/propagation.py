"""W3C Trace Context and Baggage over plain header dicts."""

from collections.abc import Mapping
from typing import Final

from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

# Not the global propagator: what this process is set to speak elsewhere does not matter here.
W3C: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])


def get_tracing_headers_from_current_span() -> dict[str, str]:
    """Headers that make another process continue the current trace.

    Returns:
        `traceparent`, and `tracestate` and `baggage` where there is anything to say; plus
        `trace_id`, `span_id` and `is_sampled`, which old readers look at. Empty without a span.
    """
    context = trace.get_current_span().get_span_context()
    headers: dict[str, str] = {}
    if not context.is_valid:
        return headers
    W3C.inject(headers)
    headers["trace_id"] = f"{context.trace_id:032x}"
    headers["span_id"] = f"{context.span_id:016x}"
    headers["is_sampled"] = "true" if context.trace_flags.sampled else "false"
    return headers


def context_from_headers(headers: Mapping[str, str], context: Context | None = None) -> Context:
    """The context that headers of another process describe, added to the given or current one."""
    return W3C.extract({key.lower(): value for key, value in headers.items()}, context)


def extract_span_context_from_headers(headers: Mapping[str, str]) -> dict[str, str] | None:
    """Read the remote span that headers name.

    Args:
        headers: Any case of names.

    Returns:
        `trace_id`, `span_id` and `is_sampled` as texts, or None if there is no valid
        `traceparent`.
    """
    found = trace.get_current_span(context_from_headers(headers, Context())).get_span_context()
    if not found.is_valid:
        return None
    return {
        "trace_id": f"{found.trace_id:032x}",
        "span_id": f"{found.span_id:016x}",
        "is_sampled": "true" if found.trace_flags.sampled else "false",
    }
