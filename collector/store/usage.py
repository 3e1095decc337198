"""The use of models, tools and agents: the question and its answer."""

from dataclasses import dataclass
from enum import StrEnum


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
