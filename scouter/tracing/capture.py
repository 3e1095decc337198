"""Spans that stay in memory instead of being sent: what offline evaluation looks at."""

import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Final, cast

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext
from opentelemetry.util.types import AnyValue

from scouter.model.attributes import SCENARIO_ID, SCENARIO_TRY
from scouter.transport.process import FORKED, SPAN, watch

if TYPE_CHECKING:
    from scouter.model.span import Span

MAX_SPANS: Final = 100_000


class SpanCapture:
    """A bounded buffer of finished spans, in the order in which they ended.

    Args:
        max_spans: Spans beyond it are dropped and counted in `overflow`.
    """

    def __init__(self, max_spans: int = MAX_SPANS) -> None:
        self._max = max_spans
        self._lock = threading.RLock()
        self._change = threading.Condition(self._lock)
        self._open: dict[tuple[int, int], Mapping[str, AnyValue]] = {}
        # Converted when first read, not on the agent's own time.
        self._spans: list[ReadableSpan | Span] = []
        self.is_enabled = False
        """True while spans stay here and nothing is sent; set by `enable` and `disable`."""
        self.overflow = 0
        """Spans that did not fit since `enable`."""
        self.failed = 0
        """Spans since `enable` that are missing by an error in this package."""

    def enable(self) -> None:
        """Capture spans from now on; earlier ones are forgotten."""
        watch(self)
        with self._lock:
            self._spans = []
            self._open = {}
            self.overflow = self.failed = 0
            self.is_enabled = True

    def disable(self) -> None:
        """Send spans again; what was captured and not drained is forgotten."""
        with self._lock:
            self.is_enabled = False
            self._spans = []

    def after_fork_in_child(self) -> None:
        """Make a new lock: another thread may have had the old one."""
        self._lock = threading.RLock()
        self._change = threading.Condition(self._lock)

    def started(self, span: SpanContext, marks: Mapping[str, AnyValue]) -> None:
        """Note an open span and the attributes that name its owner, while spans are captured."""
        if self.is_enabled:
            with self._lock:
                self._open[span.trace_id, span.span_id] = marks

    def marks_of(self, span: SpanContext) -> Mapping[str, AnyValue]:
        """The attributes that name the owner of an open span: a limit takes the oldest first."""
        with self._lock:
            return self._open.get((span.trace_id, span.span_id), {})

    def ended(self, span: SpanContext | None) -> None:
        """Note that a span has ended."""
        if span is not None:
            with self._change:
                if self._open.pop((span.trace_id, span.span_id), None) is not None:
                    self._change.notify_all()

    def open_of(self, owner: str) -> int:
        """The number of an owner's spans that have started and not ended."""
        with self._lock:
            return sum(each.get(SCENARIO_TRY) == owner for each in self._open.values())

    def wait_ended(self, owner: str, timeout_s: float) -> bool:
        """Wait until all spans of an owner have ended.

        Returns:
            False if the time ran out.
        """
        with self._change:
            return self._change.wait_for(lambda: not self.open_of(owner), timeout_s)

    def add(self, span: "ReadableSpan | Span") -> None:
        """Keep one finished span, or a log event."""
        if FORKED.takes(SPAN):
            return
        with self._lock:
            if len(self._spans) < self._max:
                self._spans.append(span)
            else:
                self.overflow += 1

    def drain(self) -> "list[Span]":
        """Take out all spans."""
        with self._lock:
            spans = self._plain()
            del self._spans[: len(spans)]
        return spans

    def take(self, is_wanted: "Callable[[Span], bool]") -> "list[Span]":
        """Take out the spans that a test picks; the others stay, in their order.

        Cost: linear in the number of captured spans.
        """
        with self._lock:
            spans = self._plain()
            chosen = [is_wanted(span) for span in spans]
            self._spans[: len(spans)] = [
                span for span, taken in zip(spans, chosen, strict=True) if not taken
            ]
        return [span for span, taken in zip(spans, chosen, strict=True) if taken]

    def spans(self) -> "list[Span]":
        """All spans; they stay."""
        with self._lock:
            return self._plain()

    def spans_of(self, trace_ids: Iterable[str]) -> "list[Span]":
        """The spans of these traces (32 hex digits each); they stay."""
        wanted = {trace_id.lower() for trace_id in trace_ids}
        return [span for span in self.spans() if span.trace_id in wanted]

    def spans_of_scenario(self, scenario_id: str) -> "list[Span]":
        """The spans made inside `scenario_scope(scenario_id)`; they stay."""
        return [s for s in self.spans() if s.attributes.get(SCENARIO_ID) == scenario_id]

    def _plain(self) -> "list[Span]":
        """All spans so far, as a receiver reads them: a signal handler may add one meanwhile."""
        from scouter.transport.otlp import read_back  # few processes ever keep spans

        stored, count = self._spans, len(self._spans)
        plain: list[Span] = []
        for is_new, run in groupby(stored[:count], lambda span: isinstance(span, ReadableSpan)):
            if is_new:
                plain += read_back(cast("list[ReadableSpan]", list(run)))
            else:
                plain += cast("Iterable[Span]", run)
        self.failed += count - len(plain)
        stored[:count] = plain
        return plain


CAPTURE: Final = SpanCapture()
"""The process' buffer; every Scouter processor of the process feeds it."""


def enable_local_span_capture() -> None:
    """Keep spans in memory and send nothing, until `disable_local_span_capture`."""
    CAPTURE.enable()


def disable_local_span_capture() -> None:
    """Send spans again and forget what was captured."""
    CAPTURE.disable()


def drain_local_span_capture() -> "list[Span]":
    """Take out all captured spans."""
    return CAPTURE.drain()


def captured_spans(trace_ids: Iterable[str] | None = None) -> "list[Span]":
    """The captured spans, of these traces if given; they stay captured."""
    return CAPTURE.spans() if trace_ids is None else CAPTURE.spans_of(trace_ids)


def captured_spans_of_scenario(scenario_id: str) -> "list[Span]":
    """The captured spans of one scenario; they stay captured."""
    return CAPTURE.spans_of_scenario(scenario_id)


class LocalCapture:
    """The process' capture, under the names that the original's tracer has for it."""

    def enable_local_capture(self) -> None:
        """Keep the process' spans in memory and send nothing."""
        CAPTURE.enable()

    def disable_local_capture(self) -> None:
        """Send spans again and forget what was captured."""
        CAPTURE.disable()

    def drain_local_spans(self) -> "list[Span]":
        """Take out all captured spans of the process."""
        return CAPTURE.drain()

    def get_local_spans_by_trace_ids(self, trace_ids: Iterable[str]) -> "list[Span]":
        """The captured spans of these traces; they stay captured."""
        return CAPTURE.spans_of(trace_ids)
