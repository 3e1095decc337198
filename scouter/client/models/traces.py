"""Spans, traces and the use of models."""

import datetime

from pydantic import JsonValue

from scouter.client.models.answer import Answer
from scouter.client.models.evaluations import Evaluation
from scouter.client.models.text_match import TextMatch
from scouter.evaluate.show.trace_view import TraceView


class SpanItem(Answer):
    """A span without its attributes; the promoted ones are None where the span has none."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str
    kind: str
    status: str
    start: datetime.datetime
    duration_ms: float
    service_name: str | None = None
    service_version: str | None = None
    environment: str | None = None
    operation: str | None = None
    provider: str | None = None
    request_model: str | None = None
    response_model: str | None = None
    agent_name: str | None = None
    tool_name: str | None = None
    conversation_id: str | None = None
    error_type: str | None = None
    session_id: str | None = None
    finish_reason: str | None = None


class TraceItem(Answer):
    """A trace in one line."""

    trace_id: str
    name: str | None = None
    """Name of the root span, where that span is stored."""
    service_name: str | None = None
    service_version: str | None = None
    start: datetime.datetime
    duration_ms: float
    spans: int
    errors: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    tools: tuple[str, ...] = ()
    """Of its first 200 calls, each once, in the order of their first calls."""
    records: int = 0
    """Evaluated ones."""
    uid: str | None = None
    """Of the record that was evaluated last."""
    record_id: str | None = None
    """Of that record."""
    outcomes: tuple[str, ...] = ()
    """That the latest evaluation of at least one record has."""
    match: TextMatch | None = None
    """The place of the text that was searched; None without one."""


class GenAIUsage(Answer):
    """Calls, errors, tokens, cost and times of one group: a model, a tool or another key."""

    key: str | None = None
    start: datetime.datetime | None = None
    """Start of the bucket of time; None without buckets."""
    calls: int
    errors: int
    error_rate: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """The part of the input that was read from a cache."""
    reasoning_tokens: int | None = None
    """The part of the output that nobody gets to read."""
    cost: float | None = None
    """USD by the collector's price file; None without a price."""
    unpriced_calls: int = 0
    mean_ms: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    quantiles: str | None = None
    """`exact` or `estimated`."""


class ForeignResultItem(Answer):
    """Another evaluator's result for a span."""

    span_id: str
    time: datetime.datetime
    name: str
    score: float | None = None
    label: str = ""
    explanation: str = ""
    response_id: str = ""
    error: str = ""


class Trace(Answer):
    """One trace."""

    trace_id: str
    spans: tuple[dict[str, JsonValue], ...]
    """With OTLP-JSON field names, by start time; `scouter.model.otlp_json` reads them."""
    spanless_events: tuple[dict[str, JsonValue], ...] = ()
    """Log events whose span is not stored, each as a span below it."""
    evaluations: tuple[Evaluation, ...] = ()
    foreign_results: tuple[ForeignResultItem, ...] = ()


class TraceTree(Answer):
    """One trace as people read it; see `scouter.evaluate.show.trace_view`."""

    trace_id: str
    view: TraceView
    evaluations: tuple[Evaluation, ...] = ()
