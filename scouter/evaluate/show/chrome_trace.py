"""A trace in Chrome's trace event format, which Perfetto and Chrome open.

Source: Trace Event Format, Google, "Duration" (`X`) and "Metadata" (`M`) events.
"""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

from pydantic import JsonValue

from scouter.evaluate.spans.attribute_value import attribute_json
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.span import Span


def chrome_trace(tree: SpanTree) -> dict[str, JsonValue]:
    """Write spans as complete events: a process for each service, a thread for what runs at once.

    Events of one thread lie inside or behind each other, as the format demands; a span goes to
    its parent's thread where it fits there.

    Args:
        tree: The spans.

    Returns:
        The document; times are microseconds since the trace began.

    Cost: n log n for n spans.
    """
    services: dict[str, int] = {}
    events: list[JsonValue] = []
    for at, lane in _lanes(tree):
        span = tree.spans[at]
        process = services.setdefault(span.service_name, len(services) + 1)
        events.append(_complete(span, tree.start_ns, process, lane))
    names: list[JsonValue] = [
        {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name or "spans"}}
        for name, process in services.items()
    ]
    return {"traceEvents": [*names, *events], "displayTimeUnit": "ms"}


def _complete(span: Span, start_ns: int, process: int, lane: int) -> dict[str, JsonValue]:
    held: Mapping[str, JsonValue] = {
        name: attribute_json(value) for name, value in span.attributes.items()
    }
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.kind.name.lower(),
        "ts": (span.start_ns - start_ns) / 1000,
        "dur": max(0, span.duration_ns) / 1000,
        "pid": process,
        "tid": lane + 1,
        "args": {
            "span_id": span.span_id,
            "parent_span_id": span.parent_span_id,
            "status": span.status.name.lower(),
            "status_message": span.status_message,
            **held,
        },
    }


def _lanes(tree: SpanTree) -> Iterator[tuple[int, int]]:
    """For every span in time order its position and its lane."""
    lane_of: list[int] = []
    open_until: list[list[int]] = []
    """By lane, the ends of what is open there: the innermost last."""
    free: list[tuple[int, int]] = []
    """End of the outermost span of each lane, and the lane; an old entry is skipped."""
    for at, span in enumerate(tree.spans):
        end_ns = max(span.start_ns, span.end_ns)
        above = tree.parents_at[at]
        lane = -1 if not 0 <= above < at else lane_of[above]
        if lane < 0 or not _fits(open_until[lane], span.start_ns, end_ns):
            lane = _free_lane(free, open_until, span.start_ns)
        if not open_until[lane]:
            heappush(free, (end_ns, lane))
        open_until[lane].append(end_ns)
        lane_of.append(lane)
        yield at, lane


def _fits(ends: list[int], start_ns: int, end_ns: int) -> bool:
    while ends and ends[-1] <= start_ns:
        ends.pop()
    return not ends or ends[-1] >= end_ns


def _free_lane(free: list[tuple[int, int]], open_until: list[list[int]], start_ns: int) -> int:
    """A lane in which nothing is open, or a new one."""
    while free and free[0][0] <= start_ns:
        _, lane = heappop(free)
        if _fits(open_until[lane], start_ns, start_ns) and not open_until[lane]:
            return lane
    open_until.append([])
    return len(open_until) - 1
