"""A trace as a person reads it: the one form behind every place that shows traces.

Terminal, HTML report and API all show this; none of them reads spans in a way of its own. Values
are whole here; whoever shows them cuts them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.spans.filters import attribute_json
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.evaluation_event import (
    ForeignResult,
    foreign_results,
    is_foreign_result,
)
from scouter.model.genai.facts import MODEL_CALLS, Kind, SpanFacts
from scouter.model.genai.reader import is_message_event, is_shown_as, read_facts
from scouter.model.genai.work import sum_told
from scouter.model.span import Span, StatusCode

_LEAST_WIDTH: Final = 0.004
"""Least width of a bar, in [0, 1] of the trace, so that a span of no length is seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """Result of one task, with the spans that it is about."""

    task_id: str
    outcome: Outcome
    reason: str = ""
    message: str = ""
    profile: str = ""
    record: str = ""
    """The record's id, or its uid where it has none."""
    score: float | None = None
    """The number beside the outcome."""
    actual: JsonValue = None
    """The value that the task found."""
    span_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """An event of a span, but for those that hold messages or results of other evaluators."""

    name: str
    after_ns: int
    """Since the trace began."""
    attributes: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanView:
    """One span, with what its GenAI attributes say in fields of their own."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    depth: int
    """Parents above it that are here."""
    is_orphan: bool = False
    """True if the span names a parent that is not here."""
    name: str
    kind: str
    """Kind of the span in OTLP, such as `client`."""
    status: str
    """`unset`, `ok` or `error`."""
    error: str = ""
    """The error's message, or its type; empty without one."""
    service: str = ""
    after_ns: int
    """Nanoseconds from the trace's beginning to the span's."""
    duration_ns: int
    agent: str = ""
    tool: str = ""
    model: str = ""
    arguments: JsonValue = None
    """Arguments of the tool call."""
    result: JsonValue = None
    """Result of the tool call; null also where `has_result` is false."""
    has_result: bool = False
    input_messages: tuple[JsonValue, ...] = ()
    output_messages: tuple[JsonValue, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    attributes: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """All that are in none of the fields above that hold values of any size."""
    events: tuple[EventView, ...] = ()
    tasks: tuple[ResultView, ...] = ()
    """Results that are about this span."""
    foreign: tuple[ForeignResult, ...] = ()
    """Results that other evaluators gave for the span, by time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceView:
    """The spans of one trace, or of all that belong together, as a tree."""

    spans: tuple[SpanView, ...]
    """Spans in the tree's order: each after its parent, siblings by time; `depth` is the level.

    A chain may be thousands of spans long, so they do not lie inside each other.
    """
    left_out: int = 0
    """Spans beyond the limit."""
    start_ns: int = 0
    """Nanoseconds since the epoch."""
    duration_ns: int = 0
    """Nanoseconds from the first start to the last end."""
    errors: int = 0
    """Spans in error, of all."""
    input_tokens: int | None = None
    """Tokens that all model calls read, each counted once; null where none tells."""
    output_tokens: int | None = None
    tasks: tuple[ResultView, ...] = ()
    """Results that name none of the spans shown."""

    def place(self, span: SpanView) -> tuple[float, float]:
        """Say where a span's bar begins and how long it is, both in [0, 1] of the trace."""
        length_ns = max(self.duration_ns, 1)  # a clock that ran backwards makes no negative bar
        left = min(span.after_ns / length_ns, 1 - _LEAST_WIDTH)
        return left, min(max(span.duration_ns / length_ns, _LEAST_WIDTH), 1 - left)


def view_trace(
    spans: Iterable[Span], tasks: Iterable[ResultView] = (), limit: int | None = None
) -> TraceView:
    """Read spans and the results about them.

    Args:
        spans: Of any number of traces, in any order.
        tasks: Results of their records.
        limit: Most spans to show; all are counted.

    Cost: n log n for n spans, and linear in the values of those shown.
    """
    tree = SpanTree(spans)
    given = tuple(tasks)
    about: dict[str, list[ResultView]] = {}
    for task in given:
        for span_id in task.span_ids:
            about.setdefault(span_id, []).append(task)
    shown = [
        _view(tree, at, tuple(about.get(tree.span_ids[at], ())))
        for at in islice(tree_order(tree.parents_at), limit)
    ]
    seen = {span.span_id for span in shown}
    usages = [act.facts.usage for act in tree.acts if act.facts.kind in MODEL_CALLS]
    return TraceView(
        spans=tuple(shown),
        left_out=len(tree) - len(shown),
        start_ns=tree.start_ns,
        duration_ns=tree.duration_ns,
        errors=tree.errors.count(1),
        input_tokens=sum_told(usage.input for usage in usages),
        output_tokens=sum_told(usage.output for usage in usages),
        tasks=tuple(task for task in given if seen.isdisjoint(task.span_ids)),
    )


def view_span(tree: SpanTree, at: int, tasks: Iterable[ResultView] = ()) -> SpanView:
    """Read one span as `view_trace` does.

    Args:
        tree: The spans of its trace.
        at: Its position in time order.
        tasks: Results of records; those that name the span are shown.
    """
    span_id = tree.span_ids[at]
    return _view(tree, at, tuple(task for task in tasks if span_id in task.span_ids))


def tree_order(parents_at: Sequence[int]) -> Iterator[int]:
    """Positions in the order of the tree, each after its parent, siblings by time."""
    children: dict[int, list[int]] = {}
    for at in range(len(parents_at) - 1, -1, -1):
        children.setdefault(parents_at[at], []).append(at)
    stack = children.get(-1, [])
    while stack:
        at = stack.pop()
        yield at
        stack.extend(children.get(at, ()))


def _view(tree: SpanTree, at: int, tasks: tuple[ResultView, ...]) -> SpanView:
    span, depth = tree.spans[at], tree.depths[at]
    facts = read_facts(span)
    return SpanView(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        depth=depth,
        is_orphan=span.parent_span_id is not None and not depth and tree.parent(span) is None,
        name=span.name,
        kind=span.kind.name.lower(),
        status=span.status.name.lower(),
        error=_error(span, facts),
        service=span.service_name,
        after_ns=span.start_ns - tree.start_ns,
        duration_ns=span.duration_ns,
        agent=facts.agent,
        tool=facts.tool,
        model=facts.response_model or facts.request_model,
        arguments=facts.arguments,
        result=facts.result,
        has_result=facts.has_result,
        input_messages=tuple(facts.input_messages or ()),
        output_messages=tuple(facts.output_messages or ()),
        input_tokens=facts.usage.input,
        output_tokens=facts.usage.output,
        attributes=_others(span, facts.kind),
        events=tuple(_events(span, tree.start_ns, facts.kind)),
        tasks=tasks,
        foreign=tuple(foreign_results((span,))),
    )


def _others(span: Span, kind: Kind) -> dict[str, JsonValue]:
    return {
        name: attribute_json(value)
        for name, value in span.attributes.items()
        if not is_shown_as(kind, name)
    }


def _events(span: Span, start_ns: int, kind: Kind) -> Iterator[EventView]:
    for event in span.events:
        is_message = kind in MODEL_CALLS and is_message_event(event.name)
        if not is_message and not is_foreign_result(event.name, event.attributes):
            yield EventView(
                name=event.name,
                after_ns=event.time_ns - start_ns,
                attributes={name: attribute_json(v) for name, v in event.attributes.items()},
            )


def _error(span: Span, facts: SpanFacts) -> str:
    """Find the error of a span; a tool's may be in its result alone."""
    if span.status is not StatusCode.ERROR:
        return "" if facts.kind is Kind.OTHER else facts.error
    if span.status_message:
        return span.status_message
    for event in span.events:
        if event.name == "exception":
            kind = event.attributes.get("exception.type", "")
            return f"{kind}: {event.attributes.get('exception.message', '')}"
    return facts.error
