"""Late spans: those that came for a trace after an evaluation had read it."""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from collector.key_filter import KeyFilter
from collector.store.bodies import trace_hash
from collector.store.rows import TraceKey
from collector.store.store import Store

_PARTS: Final = 256
"""Number of parts of the window; the date is noted once in each."""


class LateWindow:
    """Knows the date of a window ago: evaluations bear dates, the window is one of time that ran.

    It does not run while the input stands still or no collector runs, nor by a date that is set.
    In doubt an evaluation is young enough.

    Args:
        window_s: Its length.
        now: Seconds of the time that runs while nothing holds it up.
        now_ns: The date.
    """

    def __init__(self, window_s: float, now: float, now_ns: int) -> None:
        self.length_s: Final = window_s
        self.now = now
        """The time that ran."""
        self._began, self._now_ns = now, now_ns
        self._marks = deque([(now, now_ns)])
        """Times with their dates; the second one is younger than the window."""

    def ended(self, earlier_ns: int) -> None:
        """Say until when an earlier process ran: what passed between it and this one is no time."""
        at, now_ns = self._marks[0]
        if at == self._began:
            self._marks[0] = (at, min(now_ns, earlier_ns))

    def run(self, now: float, now_ns: int) -> None:
        """Tell the time and the date."""
        is_back = now_ns < self._now_ns
        self.now, self._now_ns = now, now_ns
        if is_back or now >= self._marks[-1][0] + self.length_s / _PARTS:
            self._marks.append((now, now_ns))
            while len(self._marks) > 1 and self._marks[1][0] <= now - self.length_s:
                self._marks.popleft()

    def since_ns(self) -> int:
        """A date that no evaluation which is young enough is older than."""
        (at, at_ns), *later = self._marks
        begin_ns = at_ns + int((self.now - self.length_s - at) * 1e9)  # later, if paused since
        return min(begin_ns, self._now_ns, *(now_ns for _, now_ns in later))


_BITS: Final = 1 << 25
"""Bits of a filter of the traces that this process evaluated, 4 MB."""
_TRACES: Final = 1_000
"""Traces that are looked up together."""


class LateTrace(NamedTuple):
    """A trace that may have spans which an evaluation has not seen."""

    space: str
    trace_id: str
    seq: int
    """The last commit with spans of it: whoever has seen less is to be evaluated again."""


class LateSpans:
    """The evaluated traces, as filters, and those of them that got spans since.

    Of the traces that earlier processes evaluated each has a record in the store.

    Args:
        store: Has the records.
        window: Evaluations older than this stay.
    """

    def __init__(self, store: Store, window: LateWindow) -> None:
        self.window: Final = window
        self._earlier: Final = store.recorded_traces(window.since_ns())
        self._judged: Final = [KeyFilter(_BITS), KeyFilter(_BITS)]
        """By this process, in this window and in the one before."""
        self._since = window.now
        self._touched: dict[TraceKey, int] = {}

    def __bool__(self) -> bool:
        return bool(self._touched)

    def judged(self, trace_ids: Iterable[str]) -> None:
        """Remember traces that an evaluation reads."""
        if self.window.now - self._since > self.window.length_s:
            self._judged[:] = [KeyFilter(_BITS), self._judged[0]]
            self._since = self.window.now
        self._judged[0].add_all(map(trace_hash, trace_ids))

    def touched(self, space: str, trace_ids: Iterable[str], seq: int) -> None:
        """Note that spans came, or were refused, with the commit that says so."""
        for trace_id in trace_ids:
            number = trace_hash(trace_id)
            if any(each.maybe(number) for each in (*self._judged, self._earlier)):
                self._touched[space, trace_id] = seq

    def low_seq(self, other: int) -> int:
        """The oldest commit that is needed to find what was not looked at, unless `other` is."""
        return min([other, *self._touched.values()])

    def some(self) -> list[LateTrace]:
        """Some of the traces to be looked at, all of one space."""
        first = next(iter(self._touched), None)
        if first is None:
            return []
        found = (
            LateTrace(space, trace_id, seq)
            for (space, trace_id), seq in self._touched.items()
            if space == first[0]
        )
        return list(islice(found, _TRACES))

    def done(self, traces: Iterable[LateTrace]) -> None:
        """These were looked at."""
        for each in traces:
            if self._touched.get((each.space, each.trace_id)) == each.seq:
                del self._touched[each.space, each.trace_id]
