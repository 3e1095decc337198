"""Spans of a trace that this process has started, counted for the stamp on its local roots."""

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

    A root without any parent is counted when it ends; nobody waits less for it, as it is missed
    as a parent before. So a trace of a single span leaves no mark.

    Args:
        max_traces: Live traces at once; beyond it the oldest is forgotten, and its local root
            gets no stamp, so that nobody waits for a wrong number.
    """

    def __init__(self, max_traces: int = MAX_TRACES) -> None:
        self._max = max_traces
        self.live: Final[dict[int, Iterator[int | None]]] = {}
        """Per trace: the next value is the number of spans so far. To take it counts one."""
        self.has_forgotten = False
        """True once a trace was forgotten: from then on roots have to be announced."""

    def __len__(self) -> int:
        return len(self.live)

    def started(self, trace_id: int, is_local_root: bool) -> None:
        """Count one span that was started below a parent, here or in another process."""
        # A child whose trace is not known may belong to one that was forgotten.
        is_known = is_local_root or not self.has_forgotten
        fresh = count(1) if is_known else _UNKNOWN
        counter = self.live.setdefault(trace_id, fresh)
        if counter is not fresh:
            next(counter)  # another thread's span came first
        self._keep_within_bound()

    def root_started(self, trace_id: int) -> None:
        """Announce a root without any parent, so that its children know that nothing is lost."""
        self.live.setdefault(trace_id, count())
        self._keep_within_bound()

    def _keep_within_bound(self) -> None:
        if len(self.live) <= self._max:
            return
        self.has_forgotten = True
        try:
            oldest = next(iter(self.live))
        except (RuntimeError, StopIteration):
            return  # others come and go at this moment: the next trace tries again
        self.live.pop(oldest, None)

    def local_root_ended(self, trace_id: int) -> int | None:
        """Spans since the previous local root of this trace ended; None if that is not known."""
        counter = self.live.pop(trace_id, None)
        return None if counter is None else next(counter)

    def root_ended(self, trace_id: int) -> int | None:
        """Count a root without any parent, and tell the same."""
        counter = self.live.pop(trace_id, None)
        if counter is None:
            return None if self.has_forgotten else 1
        children = next(counter)
        return None if children is None else children + 1

    def forget(self) -> None:
        """Start anew, as a child process does: the parent's live traces are the parent's."""
        self.live.clear()
        self.has_forgotten = False
