"""The time axis of a trace: linear where something runs, short where everything waits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from statistics import median
from typing import Final

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
