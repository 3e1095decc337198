"""The spans that the join keeps in memory: those of traces touched lately."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from collector.pipeline.join.joined_trace import JoinedTrace
from collector.store.rows import TraceKey


class SpanMemory:
    """Counts spans, and says whose are to be let go.

    Args:
        max_spans: Spans to keep at most.
        max_bytes: Bytes of them (as stored) to keep at most.
    """

    def __init__(self, max_spans: int, max_bytes: int) -> None:
        self._max_spans: Final = max_spans
        self._max_bytes: Final = max_bytes
        self._recent: OrderedDict[TraceKey, JoinedTrace] = OrderedDict()
        self._bytes = 0.0
        self.count = 0
        """Spans inside."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the spans inside, as they are stored."""
        return round(self._bytes)

    def grow(self, trace: JoinedTrace, count: int, size_bytes: float) -> None:
        """Count spans that a trace got."""
        trace.size_bytes += size_bytes
        self.count += count
        self._bytes += size_bytes

    def empty(self, trace: JoinedTrace) -> None:
        """Count the spans of a trace no longer."""
        self.grow(trace, -len(trace.spans or ()), -trace.size_bytes)

    def touch(self, key: TraceKey, trace: JoinedTrace) -> None:
        """Take note that a trace is the one most recently used."""
        if trace.spans:
            self._recent[key] = trace
            self._recent.move_to_end(key)

    def forget(self, key: TraceKey, trace: JoinedTrace) -> None:
        """Take note that a trace is let go as a whole."""
        self.empty(trace)
        self._recent.pop(key, None)

    def overflow(self) -> Iterator[tuple[TraceKey, JoinedTrace]]:
        """Give out the traces touched longest ago until the rest fits; each has to be emptied.

        One trace alone may be twice as large.
        """
        while self._recent and self._is_over(2 if len(self._recent) == 1 else 1):
            yield self._recent.popitem(last=False)

    def _is_over(self, times: int) -> bool:
        return self.count > times * self._max_spans or self._bytes > times * self._max_bytes
