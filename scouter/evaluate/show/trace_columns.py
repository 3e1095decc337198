"""A trace as columns: what a waterfall of any length needs, and no value of an attribute.

Its time axis is linear where something runs, and short where everything waits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntFlag
from heapq import nlargest
from statistics import median
from typing import Final

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.show.trace_view import ResultView, tree_order
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.genai.facts import Kind
from scouter.model.genai.reader import kind_of
from scouter.model.span import StatusCode

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
