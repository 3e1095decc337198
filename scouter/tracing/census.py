"""How many spans of a trace this process has started, for the stamp on its local roots."""

from collections.abc import Iterator
from itertools import count, repeat
from typing import Final

MAX_TRACES = 10_000

_UNKNOWN: Final[Iterator[None]] = repeat(None)
"""The count of a trace whose count is not to be relied upon."""


class TraceCensus:
    """Counts sampled spans per live trace; bounded, and empty again in a forked child.

    Without a lock, as every span passes here: each step on the shared state is one call in C,
    which no other thread, signal handler or garbage collector divides.

    Args:
        max_traces: Live traces at once; beyond it the oldest is forgotten, and its local root
            gets no stamp, so that nobody waits for a wrong number.
    """

    def __init__(self, max_traces: int = MAX_TRACES) -> None:
        self._max = max_traces
        self._counts: dict[int, Iterator[int | None]] = {}
        self._evicted = False

    def __len__(self) -> int:
        return len(self._counts)

    def started(self, trace_id: int, is_local_root: bool) -> None:
        """Count one span that was started."""
        counts = self._counts
        if trace_id in counts:
            next(counts.get(trace_id, _UNKNOWN))  # it may have ended since the question
            return
        # A child whose trace is not known may belong to one that was forgotten.
        next(counts.setdefault(trace_id, count() if is_local_root else self._child()))
        if len(counts) > self._max:
            self._evict()

    def _child(self) -> Iterator[int | None]:
        return _UNKNOWN if self._evicted else count()

    def _evict(self) -> None:
        self._evicted = True
        try:
            oldest = next(iter(self._counts))
        except (RuntimeError, StopIteration):
            return  # others come and go at this moment: the next trace tries again
        self._counts.pop(oldest, None)

    def root_ended(self, trace_id: int) -> int | None:
        """Spans since the previous local root of this trace ended; None if that is not known."""
        counter = self._counts.pop(trace_id, None)
        return None if counter is None else next(counter)

    def forget(self) -> None:
        """Start anew, as a child process does: the parent's live traces are the parent's."""
        self._counts = {}
        self._evicted = False
