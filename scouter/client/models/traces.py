"""Spans, traces and their parts, and the use of models."""

import operator
from typing import Literal, TypeAlias

from pydantic import ConfigDict, Field, JsonValue

from scouter.client.models.answer import Answer, Costed, MoreMatches, TextMatch, Time
from scouter.client.models.evaluations import Evaluation
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.show.agent_lines import AgentLine, TurnText, TurnView
from scouter.evaluate.show.trace_view import ResultView, SpanView, TraceColumns, TraceView
from scouter.evaluate.spans.halves import By

SpanStatus: TypeAlias = Literal["ok", "error", "unset"]


class SpanItem(Answer):
    """A span without its attributes; those with a field of their own are there if it has them."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str
    kind: str = Field(description="Such as client.")
    status: SpanStatus
    start: Time
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
    user_id: str | None = None
    finish_reason: str | None = Field(
        default=None,
        description="Why a model's call ended, in one word for all providers: stop, length, "
        "tool_call, content_filter, error, or the provider's own.",
    )


class TraceItem(Costed):
    """A trace, counted over all of its spans."""

    trace_id: str
    name: str = Field(description="Of the root; without one, of the span that began first.")
    service_name: str
    service_version: str
    start: Time
    duration_ms: float
    spans: int
    errors: int = Field(description="Spans with the status error.")
    input_tokens: int | None = Field(description="Of its model calls.")
    output_tokens: int | None
    tools: tuple[str, ...] = Field(
        description="Of its first 200 calls, each once, in the order of their first calls."
    )
    records: int = Field(description="Evaluated ones.")
    uid: str | None = Field(description="Of the record that was evaluated last.")
    record_id: str | None = Field(description="Of that record.")
    outcomes: tuple[Outcome, ...] = Field(
        description="That the latest evaluation of at least one record has."
    )
    match: TextMatch | None = Field(
        description="The place of the text that was searched; null without one."
    )
    more_matches: MoreMatches = ()
    question: TurnText | None = Field(
        default=None,
        description="What the user asked, with `questions`; left out where no span tells, and of "
        "long traces.",
        exclude_if=operator.not_,
    )


class TraceLink(Answer):
    """A trace that belongs to another one, and the spans of both at which they meet."""

    trace: TraceItem
    by: By = Field(description="What tells that they belong together.")
    value: str = Field(description="The `traceparent`, or the ids that both have.")
    is_caller: bool = Field(description="It called the other one; else it was called by it.")
    span_id: str = Field(description="Of its own.")
    of_span_id: str = Field(description="Of the other one; it may not be stored.")


class TraceLinks(Answer):
    """The traces that belong to one under ids of their own, in the order in which they began."""

    trace_id: str
    items: tuple[TraceLink, ...]


class GenAIUsage(Costed):
    """Spans with one value of what they are put together by."""

    key: str = Field(description="Empty for model calls that do not tell it.")
    start: Time | None = Field(
        description="Of the bucket; null without `bucket`. Buckets are multiples of their length "
        "since 1970, in UTC."
    )
    calls: int = Field(description="One that several spans tell counts once.")
    errors: int = Field(description="Those with the status error.")
    error_rate: float | None = Field(description="0 to 1; null without a call.")
    input_tokens: int = Field(description="Of the model calls among them; cached ones included.")
    output_tokens: int = Field(description="Reasoning tokens are included.")
    cached_tokens: int = Field(description="The part of the input that was read from a cache.")
    reasoning_tokens: int = Field(description="The part of the output that nobody gets to read.")
    cache_written_tokens: int = Field(description="The part that was written to a cache.")
    unpriced_calls: int = Field(description="Model calls of unknown cost.")
    mean_ms: float | None = Field(description="Null without a call, as the quantiles.")
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    quantiles: Literal["exact", "estimated"] = Field(
        description="Exact: the smallest duration that such a share of the calls does not exceed."
        " Above a million calls on a page they are estimated by a t-digest."
    )


class ForeignResultItem(Answer):
    """Another evaluator's result for a span; null or empty where it does not say."""

    span_id: str
    time: Time
    name: str = Field(description="Of what was evaluated.")
    score: float | None
    label: str
    explanation: str
    response_id: str
    error: str = Field(description="Why there is no result.")


class Trace(Answer):
    """A trace with all of its spans and the evaluations of its records."""

    trace_id: str
    spans: tuple[dict[str, JsonValue], ...] = Field(
        description="With OTLP-JSON field names, by start time."
    )
    spanless_events: tuple[dict[str, JsonValue], ...] = Field(
        description="Log events whose span is not stored, each as a span below it, by time."
    )
    evaluations: tuple[Evaluation, ...] = Field(
        description="The 1000 newest at most, each record once."
    )
    foreign_results: tuple[ForeignResultItem, ...] = Field(
        description="Events `gen_ai.evaluation.result` of its spans that are not ours, by time."
    )


class TraceTree(Answer):
    """A trace as people read it, and the evaluations of its records."""

    trace_id: str
    view: TraceView = Field(description="Its spans as a tree, as far as `limit` goes.")
    evaluations: tuple[Evaluation, ...] = Field(
        description="The 1000 newest at most, each record once."
    )


class TraceRows(Answer):
    """A trace as columns, the evaluations of its records, and results that name no span of it."""

    trace_id: str
    service_name: str = Field(description="Of the root, as the next two; empty if it has none.")
    service_version: str
    environment: str
    columns: TraceColumns
    evaluations: tuple[Evaluation, ...]
    tasks: tuple[ResultView, ...]


class TraceAgents(Answer):
    """The agents of a trace, in the order in which they began."""

    items: tuple[AgentLine, ...]


class TraceTurn(Answer):
    """A trace as a turn of a conversation."""

    trace_id: str
    turn: TurnView


class TraceMatches(Answer):
    """Spans that a filter selects."""

    span_ids: tuple[str, ...] = Field(description="By start time.")


class CutText(Answer):
    """A text of which only the beginning is here."""

    pointer: str = Field(description="JSON pointer (RFC 6901) to it, from the span.")
    characters: int = Field(description="Characters of the whole text.")
    is_binary: bool = Field(description="It looks like base64, so that none of it is here.")


class SpanDetail(Answer):
    """One span as people read it."""

    trace_id: str
    span: SpanView
    cut: tuple[CutText, ...] = Field(description="Texts of which only the beginning is here.")
