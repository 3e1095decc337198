"""Length and tokens of the traces behind a side."""

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Final

from collector.comparing.side import Side
from collector.store.span_queries import TraceTotals
from collector.store.store import Store
from scouter.client.models.comparison import TraceFigures

_MOST: Final = 100
"""Records of a side whose traces are looked at: the newest."""


def figures_of(store: Store, space: str, sides: Iterable[Side]) -> list[TraceFigures | None]:
    """Sum up the traces of the newest 100 records of each side; None where nothing is stored.

    Cost: a look at the hash of each span in the commits that may hold one of the traces.
    """
    traces = [
        {each.trace_id for each in side.results.records[:_MOST] if each.trace_id}
        if side.run is None
        else set[str]()
        for side in sides
    ]
    found = store.trace_totals(space, set[str]().union(*traces))
    return [_figures(found, some) for some in traces]


def _figures(found: Mapping[str, TraceTotals], wanted: Iterable[str]) -> TraceFigures | None:
    traces = [found[each] for each in wanted if each in found]
    if not traces:
        return None
    took = sorted(max(0, each.duration_ns) / 1e6 for each in traces)
    return TraceFigures(
        traces=len(traces),
        median_ms=statistics.median(took),
        p95_ms=took[math.ceil(0.95 * len(took)) - 1],
        input_tokens=_mean(each.input_tokens for each in traces),
        output_tokens=_mean(each.output_tokens for each in traces),
    )


def _mean(numbers: Iterable[int | None]) -> float | None:
    """The mean of those that are told."""
    told = [each for each in numbers if each is not None]
    return statistics.fmean(told) if told else None
