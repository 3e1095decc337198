"""How many spans of a trace this process has started, for the stamp on its local roots."""

import threading

from opentelemetry.sdk.trace import ReadableSpan

MAX_TRACES = 10_000


class TraceCensus:
    """Counts sampled spans per live trace; bounded, and empty again in a forked child.

    A signal handler or the garbage collector can start and end spans on a thread that is inside a
    method here. So the lock can be taken again by its owner, and no call separates the reading
    of a count from its writing: the interpreter switches only at calls.

    Args:
        max_traces: Live traces at once; beyond it the oldest is forgotten, and its local root
            gets no stamp, so that nobody waits for a wrong number.
    """

    def __init__(self, max_traces: int = MAX_TRACES) -> None:
        self._max = max_traces
        self._counts: dict[int, int | None] = {}  # None: not to be relied upon
        self._evicted = False
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._counts)

    def started(self, trace_id: int, is_local_root: bool) -> None:
        """Count one span that was started."""
        with self._lock:
            counts = self._counts
            if trace_id in counts:
                count = counts[trace_id]
                counts[trace_id] = None if count is None else count + 1
                return
            # A child whose trace is not known may belong to one that was forgotten.
            counts[trace_id] = None if self._evicted and not is_local_root else 1
            if len(counts) > self._max:
                self._evicted = True
                for oldest in counts:
                    del counts[oldest]
                    break

    def root_ended(self, trace_id: int) -> int | None:
        """Spans since the previous local root of this trace ended; None if that is not known."""
        with self._lock:
            return self._counts.pop(trace_id, None)

    def forget(self) -> None:
        """Start anew; for a child process, where another thread may have held the lock."""
        self._lock = threading.RLock()
        self._counts = {}
        self._evicted = False


def is_local_root(span: ReadableSpan) -> bool:
    """Tell whether the span's parent, if any, lives in another process."""
    return span.parent is None or span.parent.is_remote
