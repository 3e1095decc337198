"""Queries for spans, traces and the use of models, and their answers: plain rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from scouter.evaluate.outcome import Outcome
from scouter.model.span import SpanKind, StatusCode
from scouter.model.struct import struct


class SpanPosition(NamedTuple):
    """Place of a span in the order of listings, which go downwards from the largest."""

    seq: int
    """Number of the commit that stored it."""
    start_ns: int
    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBy:
    """An evaluation that a record of the trace has as its latest; None means any."""

    profile: str | None = None
    """Alias, name, uid or digest."""
    outcome: Outcome | None = None
    task_id: str | None = None
    """It has such a task; with `task_outcome`, with that outcome of it."""
    task_outcome: Outcome | None = None
    tags: tuple[tuple[str, str], ...] = ()
    """Keys and values that are all among its tags."""


def _no_columns() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanQuery:
    """Filter of the spans to list; a span has to meet all conditions that are given."""

    space: str
    name: str | None = None
    columns: Mapping[str, str] = field(default_factory=_no_columns)
    """Values of columns that attributes have for themselves, such as `operation`."""
    attributes: tuple[tuple[str, str], ...] = ()
    """Any attributes, by key; numbers and booleans as they are written."""
    status: StatusCode | None = None
    min_duration_ns: int | None = None
    min_tokens: int | None = None
    """Of one call of a model: input and output together."""
    since_ns: int | None = None
    """Spans that began then or later."""
    until_ns: int | None = None
    """Spans that began before."""
    judged: JudgedBy | None = None
    """Spans of traces that have such an evaluation; None for any, with one or without."""
    limit: int = 100
    before: SpanPosition | None = None
    """Continue below this position."""
    as_of: int | None = None
    """Only spans of this commit and earlier ones, so that the pages of one listing of traces fit
    together while more comes in."""


@struct
class SpanSummary:
    """A span without what only the span log has."""

    position: SpanPosition
    parent_span_id: str | None
    name: str
    kind: SpanKind
    status: StatusCode
    end_ns: int
    columns: Mapping[str, str]
    """Columns of `SpanQuery.columns` that have a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanPage:
    """Spans, what was stored last first, and where the next page begins."""

    items: tuple[SpanSummary, ...]
    next_before: SpanPosition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """A trace, counted over all of its stored spans."""

    trace_id: str
    name: str
    """Name of the root span; without a root, of the span that began first."""
    service_name: str
    """Likewise."""
    start_ns: int
    end_ns: int
    spans: int
    errors: int
    """Spans with the status error."""
    input_tokens: int | None
    """Input tokens of its model calls; None if no call tells them."""
    output_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePage:
    """Traces, that with the matching span that was stored last first."""

    items: tuple[TraceSummary, ...]
    next_before: SpanPosition | None
    as_of: int
    """Last commit that the listing includes; the query for the next page needs it."""
    looked_until_ns: int | None = None
    """Arrival of the last span that a search for a text looked at, if it ended before the page was
    full and before the last span; else None."""


class UsageGroup(StrEnum):
    """Property by which spans are grouped.

    The first five groups count calls of models. Tool and agent count executions of these. Operation
    and error count every span that has such a value. Route counts traces by the order of their
    agents and tools.
    """

    MODEL = "model"
    PROVIDER = "provider"
    SERVICE = "service"
    CONVERSATION = "conversation"
    FINISH_REASON = "finish_reason"
    OPERATION = "operation"
    AGENT = "agent"
    TOOL = "tool"
    ERROR = "error"
    ROUTE = "route"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """Filter of the spans to sum up; times are those at which spans began."""

    space: str
    group_by: UsageGroup
    bucket_ns: int | None = None
    """Length of the buckets of time, counted from the epoch; None for one sum over all."""
    since_ns: int | None = None
    until_ns: int | None = None
    limit: int = 1000
    offset: int = 0
    """Number of items to leave out at the beginning of the list."""
    as_of: int | None = None
    """Only spans of this commit and earlier ones, so that the pages of one listing fit together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTokens:
    """Tokens of the calls of one model."""

    models: tuple[str, ...]
    """The model that answered, then the one that was asked for, as far as they are known."""
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Part of the input."""
    reasoning_tokens: int = 0
    """Part of the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Spans with one value of what they are put together by."""

    key: str
    """Empty for model calls that do not tell it."""
    start_ns: int | None = None
    """Start of the bucket; None without buckets."""
    calls: int
    errors: int
    mean_ms: float | None
    """None without a call, as the quantiles."""
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    is_exact: bool
    """The quantiles are durations of calls; else estimates, within about a hundredth of the
    rank."""
    tokens: tuple[ModelTokens, ...]
    """Tokens of the model calls among the spans, by model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePage:
    """Sums by bucket; within a bucket the most calls come first, equal ones by key."""

    items: tuple[Usage, ...]
    next_offset: int | None
    as_of: int
    """Last commit that the listing includes; the query for the next page needs it."""
