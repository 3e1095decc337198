"""Contents of a context: trace, baggage, the active profile and the scenario of a replay."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from opentelemetry import baggage, context, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace import SpanContext, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from scouter.errors import ConfigError, DataError
from scouter.model.attributes import (
    ACTIVE_ENTITY,
    SCENARIO_ATTEMPT,
    SCENARIO_ID,
    SCENARIO_ID_MAX_CHARS,
    SCENARIO_TRY,
)
from scouter.model.ids import is_span_id, is_trace_id
from scouter.queue.origin import ORIGINS

if TYPE_CHECKING:
    from scouter.drift.profile import AgentEvalProfile

_FALSE: Final = ("false", "0")

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
    # Version 00 knows one flag. OpenTelemetry sets a newer one too ("the trace id is random"),
    # and some readers compare the flags as a whole.
    head, _, flags = headers["traceparent"].rpartition("-")
    headers["traceparent"] = f"{head}-{int(flags, 16) & TraceFlags.SAMPLED:02x}"
    headers["trace_id"] = f"{context.trace_id:032x}"
    headers["span_id"] = f"{context.span_id:016x}"
    headers["is_sampled"] = "true" if context.trace_flags.sampled else "false"
    return headers


def context_from_headers(headers: Mapping[str, str], context: Context | None = None) -> Context:
    """The context that headers of another process describe, added to the given or current one.

    Without a valid `traceparent` the headers `trace_id` and `span_id` of old senders name the
    parent; it is sampled unless `is_sampled` says no.
    """
    found = W3C.extract(_lower(headers), context)
    parent = _named_in(headers, sampled="true")
    if parent is None:
        return found
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), found)


def extract_span_context_from_headers(headers: Mapping[str, str]) -> dict[str, str] | None:
    """Read the remote span that headers name.

    Args:
        headers: Any case of names. `traceparent`, or `trace_id` and `span_id` of old senders,
            whose span counts as sampled only where `is_sampled` says so.

    Returns:
        `trace_id`, `span_id` and `is_sampled` as texts, or None if the headers name no span.
    """
    parent = _named_in(headers, sampled="false")
    if parent is None:
        return None
    return {
        "trace_id": f"{parent.trace_id:032x}",
        "span_id": f"{parent.span_id:016x}",
        "is_sampled": "true" if parent.trace_flags.sampled else "false",
    }


def parent_context(
    context: Context | None,
    headers: Mapping[str, str] | None,
    trace_id: str | None,
    span_id: str | None,
    remote_sampled: bool | None,
    parent_context_id: str | None = None,
) -> Context | None:
    """The context that a new span starts in.

    Args:
        context: Context to begin with; the current one if not given.
        headers: A remote parent; if they name one, it wins over the ids.
        trace_id: With `span_id`: a remote parent, in hex.
        span_id: See `trace_id`.
        remote_sampled: Whether that parent is sampled; it is if not given.
        parent_context_id: Another span of the trace that goes on there, in hex; the others win,
            and without such a trace it says nothing.

    Raises:
        DataError: `trace_id`, `span_id` or `parent_context_id` is not hex of the right length.
    """
    if headers:
        context = context_from_headers(headers, context)
        if _named_in(headers, sampled="true") is not None:
            return context
    if trace_id is None and span_id is None:
        return context if parent_context_id is None else _under(parent_context_id, context)
    sampled = "false" if remote_sampled is False else "true"
    parent = _span_context(trace_id or "", span_id or "", sampled)
    if parent is None:
        raise DataError(
            f"remote parent {trace_id!r}, {span_id!r}: expected 32 and 16 hex digits, not all zero"
        )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), context)


def _under(span_id: str, context: Context | None) -> Context | None:
    """The context with another span of its trace as the current one."""
    if not is_span_id(span_id.lower()):
        raise DataError(f"parent_context_id {span_id!r}: expected 16 hex digits, not all zero")
    now = trace.get_current_span(context).get_span_context()
    if not now.is_valid:
        return context
    parent = SpanContext(
        now.trace_id, int(span_id, 16), now.is_remote, now.trace_flags, now.trace_state
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), context)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in headers.items()}


def _named_in(headers: Mapping[str, str], sampled: str) -> SpanContext | None:
    """The span that headers name: by `traceparent`, else by the ids of old senders."""
    lower = _lower(headers)
    found = trace.get_current_span(W3C.extract(lower, Context())).get_span_context()
    if found.is_valid:
        return found
    ids = lower.get("trace_id", ""), lower.get("span_id", "")
    return _span_context(*ids, lower.get("is_sampled", sampled))


def _span_context(trace_id: str, span_id: str, sampled: str) -> SpanContext | None:
    trace_id, span_id = trace_id.lower(), span_id.lower()
    if not is_trace_id(trace_id) or not is_span_id(span_id):
        return None
    keep = sampled.lower() not in _FALSE
    flags = TraceFlags(TraceFlags.SAMPLED if keep else TraceFlags.DEFAULT)
    return SpanContext(int(trace_id, 16), int(span_id, 16), True, flags)


@contextmanager
def active_profile(profile: "AgentEvalProfile | str") -> Generator[None]:
    """Mark every span started inside, also in processes called from here, with a profile.

    Args:
        profile: The profile, or its uid.
    """
    uid = profile if isinstance(profile, str) else profile.uid
    token = context.attach(baggage.set_baggage(ACTIVE_ENTITY, uid))
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def scenario_scope(
    scenario_id: str, attempt: int | None = None, try_key: str | None = None
) -> Generator[None]:
    """Mark everything that happens inside as part of one scenario.

    Spans started inside get the attribute `scouter.eval.scenario_id`, records captured inside
    are filed under the scenario. No span is made, and the spans inside do not become children of
    a span outside: each scenario has traces of its own.

    Args:
        scenario_id: The scenario's id, not empty, at most `SCENARIO_ID_MAX_CHARS` long.
        attempt: Number of the attempt, from 0; spans get it as `scouter.eval.attempt`.
        try_key: A key of this try of the attempt, unlike that of any other try; spans get it as
            `scouter.eval.try`. A record or span with such a key is never sent, not even after the
            replay.

    Raises:
        ConfigError: The id is empty or too long.
    """
    if not scenario_id:
        raise ConfigError("a scenario needs an id that is not empty")
    if len(scenario_id) > SCENARIO_ID_MAX_CHARS:
        raise ConfigError(
            f"scenario id {scenario_id[:40]!r}…: {len(scenario_id)} characters; shorten it to "
            f"{SCENARIO_ID_MAX_CHARS} or fewer"
        )
    inside = trace.set_span_in_context(trace.INVALID_SPAN, context.get_current())
    inside = baggage.set_baggage(SCENARIO_ID, scenario_id, inside)
    if attempt is not None:
        inside = baggage.set_baggage(SCENARIO_ATTEMPT, str(attempt), inside)
    if try_key is not None:
        ORIGINS.has_replayed = True
        inside = baggage.set_baggage(SCENARIO_TRY, try_key, inside)
    token = context.attach(inside)
    try:
        yield
    finally:
        context.detach(token)


def active_scenario() -> str | None:
    """Id of the scenario that the calling code runs in, if any."""
    value = baggage.get_baggage(SCENARIO_ID)
    return value if isinstance(value, str) else None
