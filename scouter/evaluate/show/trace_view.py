"""A trace as a person reads it: as a tree, and as the columns of a waterfall."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from heapq import nlargest
from itertools import islice
from statistics import median
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.spans.filters import attribute_json
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.genai.facts import MODEL_CALLS, Kind, SpanFacts
from scouter.model.genai.reader import is_message_event, is_shown_as, kind_of, read_facts
from scouter.model.genai.work import sum_known
from scouter.model.log_event import (
    ForeignResult,
    foreign_results,
    is_foreign_result,
)
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
        input_tokens=sum_known(usage.input for usage in usages),
        output_tokens=sum_known(usage.output for usage in usages),
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


_LONG: Final = 5
"""An idle gap is squeezed from so many times the median span on."""
_MOST_GAPS: Final = 20
_GAP_SHARE: Final = 0.015
"""Width of a squeezed gap, as a part of the time in which something runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """Straight lines between points; every stretch between two of them is busy or idle."""

    at_ns: tuple[int, ...]
    """Since the trace began, ascending."""
    share: tuple[float, ...]
    """The place of each point on the axis, from 0 to 1."""
    idle: tuple[bool, ...]
    """True for each stretch that is a squeezed gap; one fewer than the points."""


def time_axis(spans: Iterable[tuple[int, int]], duration_ns: int) -> TimeAxis:
    """Lay out a trace's time so that long waits do not hide the work.

    A gap is a stretch in which no span without children runs. It is squeezed where it is longer
    than five times the median of those spans; the twenty longest are.

    Args:
        spans: Start and end of the spans without children, nanoseconds since the trace began.
        duration_ns: Of the trace.

    Cost: n log n for n spans.
    """
    ordered = sorted(spans)
    long_ns = _LONG * median([end - start for start, end in ordered]) if ordered else 0
    gaps = [gap for gap in _gaps(ordered, duration_ns) if gap[1] - gap[0] > long_ns]
    chosen = sorted(nlargest(_MOST_GAPS, gaps, key=lambda gap: gap[1] - gap[0]))
    busy_ns = duration_ns - sum(end - start for start, end in chosen)
    if busy_ns <= 0 or not chosen:
        return TimeAxis(at_ns=(0, duration_ns), share=(0.0, 1.0), idle=(False,))
    gap_ns = busy_ns * _GAP_SHARE
    chosen = [gap for gap in chosen if gap[1] - gap[0] > gap_ns]  # others would be stretched
    return _axis(chosen, gap_ns, duration_ns)


def _gaps(ordered: Sequence[tuple[int, int]], duration_ns: int) -> Iterable[tuple[int, int]]:
    """Stretches in which none of the spans runs."""
    until = 0
    for start, end in ordered:
        if start > until:
            yield until, start
        until = max(until, end)
    if until < duration_ns:
        yield until, duration_ns


def _axis(gaps: Sequence[tuple[int, int]], gap_ns: float, duration_ns: int) -> TimeAxis:
    at, place, idle = [0], [0.0], list[bool]()

    def go_to(end: int, width: float, *, is_idle: bool) -> None:
        if end > at[-1]:
            at.append(end)
            place.append(place[-1] + width)
            idle.append(is_idle)

    for start, end in gaps:
        go_to(start, start - at[-1], is_idle=False)
        go_to(end, gap_ns, is_idle=True)
    go_to(duration_ns, duration_ns - at[-1], is_idle=False)
    whole = place[-1] or 1.0
    return TimeAxis(
        at_ns=tuple(at), share=tuple([each / whole for each in place]), idle=tuple(idle)
    )


KINDS: Final = tuple(Kind)


class Mark(IntFlag):
    """Bits of a row."""

    ERROR = 1
    """The span's status is error."""
    FAILED = 2
    """A result that failed is about it; the next three likewise."""
    ERRORED = 4
    SKIPPED = 8
    PASSED = 16
    ORPHAN = 32
    """It names a parent that is not here."""


_MARK_OF: Final = {
    Outcome.FAILED: Mark.FAILED,
    Outcome.ERRORED: Mark.ERRORED,
    Outcome.SKIPPED: Mark.SKIPPED,
    Outcome.PASSED: Mark.PASSED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceColumns:
    """The rows of a waterfall, each after its parent, siblings by time; one array a field."""

    total: int
    """Spans of the trace; the arrays may hold its first rows only."""
    start_ns: int
    """Nanoseconds since the epoch."""
    duration_ns: int
    errors: int
    """Spans in error, of all."""
    strings: tuple[str, ...]
    kinds: tuple[str, ...]
    span_ids: str
    """16 hex digits each, one behind the other."""
    parent: tuple[int, ...]
    """Row of the parent, -1 for a root."""
    depth: tuple[int, ...]
    after_ns: tuple[int, ...]
    """Start, since the trace began."""
    length_ns: tuple[int, ...]
    kind: tuple[int, ...]
    """Position in `kinds`."""
    name: tuple[int, ...]
    """Position in `strings`."""
    marks: tuple[int, ...]
    """1 error, 2 failed, 4 errored, 8 skipped, 16 passed, 32 parent missing; added up."""
    results: tuple[tuple[int, int, int], ...]
    """Row, then task and outcome as positions in `strings`."""
    axis: TimeAxis


def trace_columns(
    tree: SpanTree, tasks: Iterable[ResultView] = (), limit: int | None = None
) -> TraceColumns:
    """Read the rows of a waterfall.

    Args:
        tree: The spans.
        tasks: Results of the records of the trace.
        limit: Rows at most, the first ones; marks and axis are those of the whole trace.

    Cost: n log n for n spans.
    """
    order = list(tree_order(tree.parents_at))
    shown = order[:limit]
    row_of = {at: row for row, at in enumerate(shown)}
    strings: dict[str, int] = {}
    about, results = _about(tree, tasks, row_of, strings)
    spans = [tree.spans[at] for at in shown]
    parents = [tree.parents_at[at] for at in shown]
    return TraceColumns(
        total=len(tree),
        start_ns=tree.start_ns,
        duration_ns=tree.duration_ns,
        errors=tree.errors.count(1),
        kinds=tuple([kind.value for kind in KINDS]),
        span_ids="".join([span.span_id for span in spans]),
        parent=tuple([row_of[above] if above >= 0 else -1 for above in parents]),
        depth=tuple([tree.depths[at] for at in shown]),
        after_ns=tuple([span.start_ns - tree.start_ns for span in spans]),
        length_ns=tuple([max(0, span.duration_ns) for span in spans]),
        kind=tuple([_KIND_AT[kind_of(span)] for span in spans]),
        name=tuple([strings.setdefault(span.name, len(strings)) for span in spans]),
        marks=tuple(
            about.get(span.span_id, 0)
            | (Mark.ERROR if span.status is StatusCode.ERROR else 0)
            | (Mark.ORPHAN if above < 0 and span.parent_span_id is not None else 0)
            for span, above in zip(spans, parents, strict=True)
        ),
        results=results,
        strings=tuple(strings),
        axis=time_axis(_leaves(tree), tree.duration_ns),
    )


_KIND_AT: Final = {kind: at for at, kind in enumerate(KINDS)}


def _about(
    tree: SpanTree, tasks: Iterable[ResultView], row_of: dict[int, int], strings: dict[str, int]
) -> tuple[dict[str, int], tuple[tuple[int, int, int], ...]]:
    """Bits by span id, and the results that are about a row."""
    bits: dict[str, int] = {}
    found: list[tuple[int, int, int]] = []
    row_by_id = {tree.span_ids[at]: row for at, row in row_of.items()}
    for task in tasks:
        texts = [strings.setdefault(text, len(strings)) for text in (task.task_id, task.outcome)]
        for span_id in task.span_ids:
            bits[span_id] = bits.get(span_id, 0) | _MARK_OF[task.outcome]
            if span_id in row_by_id:
                found.append((row_by_id[span_id], texts[0], texts[1]))
    return bits, tuple(sorted(found))


def _leaves(tree: SpanTree) -> list[tuple[int, int]]:
    above = set(tree.parents_at)
    begin_ns = tree.start_ns
    return [
        (span.start_ns - begin_ns, max(span.start_ns, span.end_ns) - begin_ns)
        for at, span in enumerate(tree.spans)
        if at not in above
    ]
