"""Late spans: those that came for a trace after an evaluation had read it."""

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from collector.key_filter import KeyFilter
from collector.store.bodies import trace_hash
from collector.store.rows import TraceKey
from collector.store.store import Store
from collector.worker.late_window import LateWindow

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
        self._window: Final = window
        self._earlier: Final = store.recorded_traces()
        self._judged: Final = [KeyFilter(_BITS), KeyFilter(_BITS)]
        """By this process, in this window and in the one before."""
        self._since = window.now
        self._touched: dict[TraceKey, int] = {}

    def __bool__(self) -> bool:
        return bool(self._touched)

    def judged(self, trace_ids: Iterable[str]) -> None:
        """Remember traces that an evaluation reads."""
        if self._window.now - self._since > self._window.length_s:
            self._judged[:] = [KeyFilter(_BITS), self._judged[0]]
            self._since = self._window.now
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

    def since_ns(self) -> int:
        """A date that no evaluation which is young enough is older than."""
        return self._window.since_ns()
