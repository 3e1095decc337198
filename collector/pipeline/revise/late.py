"""Traces with an evaluation, so that a late span is noticed."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from collector.key_filter import KeyFilter
from collector.storage.log.span_codec import trace_hash
from collector.store.rows import TraceKey
from collector.worker.late_window import LateWindow

_BITS: Final = 1 << 25


class LateSpans:
    """Evaluated traces, as filters, and those of them that got spans since.

    Traces that an earlier process evaluated come from the store, beside everything else. Until they
    are here every trace may be an evaluated one, and none is given out.

    Args:
        window: Evaluations older than this are of no interest; forgotten after at most twice that.
    """

    def __init__(self, window: LateWindow) -> None:
        self._window, self._since = window, window.now
        self._judged = [KeyFilter(_BITS), KeyFilter(_BITS)]
        """Judged by this process in this window and in the last one, 4 MiB each."""
        self._earlier: Callable[[str], bool] | None = None
        """Judged by earlier processes; None until it is loaded."""
        self._touched: dict[TraceKey, int] = {}

    def judged(self, keys: Iterable[TraceKey]) -> None:
        """Remember traces of evaluations."""
        if self._window.now - self._since > self._window.length_s:
            self._judged = [KeyFilter(_BITS), self._judged[0]]
            self._since = self._window.now
        self._judged[0].add_all(trace_hash(trace_id) for _, trace_id in keys)

    def loaded(self, earlier: Callable[[str], bool], late: Iterable[TraceKey], seq: int) -> None:
        """Take over what the store knows.

        Args:
            earlier: True of all traces that were evaluated before.
            late: Of those, the ones with spans that no evaluation has seen.
            seq: Last commit.
        """
        self._earlier = earlier
        for key in late:
            self._touched.setdefault(key, seq)

    def touched(self, space: str, trace_ids: Iterable[str], seq: int) -> None:
        """Note that spans came, with the commit that stored them."""
        earlier, judged = self._earlier, self._judged
        for trace_id in trace_ids:
            number = trace_hash(trace_id)
            if judged[0].maybe(number) or judged[1].maybe(number):
                # An evaluation before this moment has not seen them, not even one that saw another
                # batch of the same commit.
                self._touched[space, trace_id] = seq
            elif earlier is None or earlier(trace_id):
                self._touched[space, trace_id] = seq - 1

    def pending(self) -> Mapping[TraceKey, int]:
        """Traces that may have got spans after an evaluation.

        Returns:
            By trace the last commit such that an evaluation with this input, or less, has not seen
            all.
        """
        return self._touched if self._earlier is not None else _NONE

    def done(self, keys: Iterable[TraceKey]) -> None:
        """These were looked at."""
        for key in keys:
            self._touched.pop(key, None)


_NONE: Final[Mapping[TraceKey, int]] = {}
