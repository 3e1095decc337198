"""Appointments: the times at which the join looks at a trace again."""

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from collector.pipeline.join.input_clock import Via
from collector.pipeline.join.joined_trace import JoinedTrace
from collector.store.rows import TraceKey


class Appointments:
    """One for each trace, in the time of the sources that it waits for.

    Args:
        held_s: By how much the time of those who wait for such sources is behind; never shrinks.
    """

    def __init__(self, held_s: Callable[[Via], float]) -> None:
        self._held_s: Final = held_s
        self._heaps: Final[Mapping[Via, list[tuple[float, int, TraceKey]]]] = {
            via: [] for via in Via
        }
        self._tie: Final = itertools.count()

    def make(self, key: TraceKey, trace: JoinedTrace, at: float) -> None:
        """Make one; an earlier one is kept as it is."""
        if trace.scheduled is None or at < trace.scheduled:
            trace.scheduled = at
            heapq.heappush(self._heaps[trace.via], (at, next(self._tie), key))

    def due(
        self, now: float, traces: Mapping[TraceKey, JoinedTrace]
    ) -> Iterator[tuple[TraceKey, JoinedTrace, float]]:
        """Give out the traces whose time has come, each with its own time."""
        for via, heap in self._heaps.items():
            local = now - self._held_s(via)
            while heap and heap[0][0] <= local:
                at, _, key = heapq.heappop(heap)
                trace = traces.get(key)
                if trace is None or trace.scheduled != at or trace.via is not via:
                    continue  # it has a new one
                trace.scheduled = None
                yield key, trace, local

    def next_due(self) -> float | None:
        """The time of the next one."""
        heaps = self._heaps.items()
        return min((heap[0][0] + self._held_s(via) for via, heap in heaps if heap), default=None)
