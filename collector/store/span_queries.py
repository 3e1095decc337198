"""Queries for spans and traces, and their answers: plain rows."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from collector.prices import ModelTokens
from collector.store.reads import OutcomeFilter
from scouter.client.models.answer import TextMatch
from scouter.evaluate.outcome import Outcome
from scouter.model.span import SpanKind, StatusCode, struct

_AROUND: Final = 60
_WHERE: Final = 100


def text_match(where: str, value: str, text: str) -> TextMatch:
    """Cut a value that has a text, in either case, to what stands around it.

    In the rare value whose small letters are longer, as of `İ`, the text is empty.

    Args:
        where: Name of the value.
        value: May be long.
        text: Not empty.
    """
    found = re.search(re.escape(text), value, re.IGNORECASE)
    begin, end = (0, 0) if found is None else found.span()
    first, last = max(0, begin - _AROUND), end + _AROUND
    return TextMatch(
        where=where if len(where) <= _WHERE else f"{where[:_WHERE]}…",
        before=("…" if first else "") + value[first:begin],
        text=value[begin:end],
        after=value[end:last] + ("…" if last < len(value) else ""),
    )


SEARCHED: Final[tuple[str, ...]] = (
    "service_name", "service_version", "environment", "operation", "provider", "request_model",
    "response_model", "agent_name", "tool_name", "conversation_id", "error_type", "session_id",
    "finish_reason", "user_id",
)  # fmt: skip
"""Columns that attributes have for themselves."""


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
    outcome: OutcomeFilter | None = None
    task_id: str | None = None
    """It has such a task; with `task_outcome`, with that outcome of it."""
    task_outcome: OutcomeFilter | None = None
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


_OF_SERVICE: Final = ("service_name", "service_version", "environment")
"""Columns that tell of one service: a version is that of the service that is requested."""
_BY_RARITY: Final = (
    "conversation_id", "session_id", "user_id", "error_type", "tool_name", "agent_name",
    "finish_reason", "response_model", "request_model", "provider", "operation",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery(SpanQuery):
    """Filter of the traces to list: some span of a trace meets each condition, not one span all.

    Service, version and environment are one condition. The spans are those of the period.
    """

    is_same_span: bool = False
    """One span meets all conditions, a text among them."""
    without_tool: str | None = None
    """No span of the trace, whatever its time, is a call of this tool."""

    def criteria(self) -> list[SpanQuery]:
        """The conditions, each as a filter of spans, in an order that is always the same.

        Those of which few spans are first, as a rule. None without a condition on spans; all as
        one for `is_same_span`.
        """
        any_span = SpanQuery(
            space=self.space, since_ns=self.since_ns, until_ns=self.until_ns, as_of=self.as_of
        )
        service = {name: self.columns[name] for name in _OF_SERVICE if name in self.columns}
        each: list[SpanQuery] = [
            *(replace(any_span, attributes=(pair,)) for pair in self.attributes),
            *(
                replace(any_span, columns={name: self.columns[name]})
                for name in _BY_RARITY
                if name in self.columns
            ),
            replace(any_span, name=self.name),
            replace(any_span, status=self.status),
            replace(any_span, min_tokens=self.min_tokens),
            replace(any_span, min_duration_ns=self.min_duration_ns),
            replace(any_span, columns=service),
        ]
        given = [criterion for criterion in each if criterion != any_span]
        if not self.is_same_span or not given:
            return given
        return [
            replace(
                any_span, name=self.name, columns=self.columns, attributes=self.attributes,
                status=self.status, min_duration_ns=self.min_duration_ns,
                min_tokens=self.min_tokens,
            )
        ]  # fmt: skip

    def beside(self, name: str) -> SpanQuery | None:
        """The condition that a span has to meet whose value of a column joins the filter.

        None where any span of a trace does.
        """
        for each in self.criteria():
            of_service = name in _OF_SERVICE and not each.columns.keys().isdisjoint(_OF_SERVICE)
            is_matched = name in each.columns or (name == "status" and each.status is not None)
            if self.is_same_span or of_service or is_matched:
                return each
        return None

    def refused(self) -> SpanQuery | None:
        """The spans that a trace must not have; None for no such condition."""
        if self.without_tool is None:
            return None
        return SpanQuery(
            space=self.space, columns={"tool_name": self.without_tool}, as_of=self.as_of
        )


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


class TraceTotals(NamedTuple):
    """Time, tokens and costs of a whole trace."""

    start_ns: int
    """Of the first span."""
    end_ns: int
    """Of the one that ended last."""
    input_tokens: int | None
    """None where no span tells."""
    output_tokens: int | None
    models: tuple[ModelTokens, ...] = ()
    """Its calls of models, each once, by model."""

    @property
    def duration_ns(self) -> int:
        """From the first begin to the last end."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecords:
    """The evaluated records of a trace, by the latest evaluation of each."""

    uid: str
    """Of the one that was evaluated last."""
    record_id: str
    """Likewise."""
    count: int
    outcomes: tuple[Outcome, ...]
    """That at least one has, in the order of their definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """A trace, counted over all of its stored spans."""

    trace_id: str
    name: str
    """Name of the root span; without a root, of the span that began first."""
    service_name: str
    """Likewise."""
    service_version: str
    """Likewise."""
    start_ns: int
    end_ns: int
    spans: int
    errors: int
    """Spans with the status error."""
    input_tokens: int | None
    """Input tokens of its model calls; None if no call tells them."""
    output_tokens: int | None
    models: tuple[ModelTokens, ...] = ()
    """As of `TraceTotals`."""
    tools: tuple[str, ...]
    """The tools of its first 200 calls, each once, in the order of their first calls."""
    records: TraceRecords | None
    """None without an evaluated record."""
    match: TextMatch | None = None
    """In a span, where a text was searched."""
    more_matches: tuple[TextMatch, ...] = ()
    """Likewise of further texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePage:
    """Traces in the order of their newest spans with the text, or that meet the first condition."""

    items: tuple[TraceSummary, ...]
    next_before: SpanPosition | None
    as_of: int
    """Last commit that the listing includes; the query for the next page needs it."""
    looked_until_ns: int | None = None
    """Arrival of the last span that a search for a text looked at, if it ended before the page was
    full and before the last span; else None."""
