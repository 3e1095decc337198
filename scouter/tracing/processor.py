"""The span processor: marks spans with scenario and profile, counts, captures, hands over."""

from collections.abc import Iterator, Mapping
from itertools import count, repeat
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry import baggage
from opentelemetry.context import Context, get_current
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.util.types import AnyValue

from scouter.model.attributes import (
    ACTIVE_ENTITY,
    CONVERSATION_ID,
    ENTITY_PREFIX,
    SCENARIO_OUTSIDE,
    SCENARIO_TRY,
    TRUNCATED,
    truncated_mark,
)
from scouter.model.ids import FLAGS, IS_REMOTE, SAMPLED, TRACE_ID
from scouter.queue.origin import ORIGINS
from scouter.queue.sampling import id_is_sampled
from scouter.tracing.limits import parts_cut
from scouter.tracing.stamp import RedactedSpan, StampedSpan
from scouter.transport.guard import GUARD
from scouter.transport.span_copy import identity_of

if TYPE_CHECKING:
    from scouter.queue.redaction import Redactor
    from scouter.queue.sampling import Sampling
    from scouter.tracing.capture import SpanCapture
    from scouter.tracing.export import SpanExport


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


_MAX_ENTITY_CHARS = 256
"""Baggage comes from other processes too: longer values are not copied onto spans."""

_NOTHING: Mapping[str, object] = {}


class SpanState(Protocol):
    """The part of the process' tracing state that a processor reads; see `Runtime`."""

    capture: "SpanCapture"
    census: "TraceCensus"
    export: "SpanExport | None"
    ended: "SpanExport | None"
    extra_processors: tuple[SpanProcessor, ...]
    redactor: "Redactor | None"
    sampling: "Sampling"

    def flush(self, timeout_s: float) -> bool:
        """Deliver what was queued so far; False if the time ran out."""
        ...


class ScouterSpanProcessor(SpanProcessor):
    """Feeds the process' runtime from one TracerProvider; never blocks, never raises.

    Args:
        runtime: Capture buffer, census and export of the process.
    """

    def __init__(self, runtime: SpanState) -> None:
        self._runtime = runtime
        self._census = runtime.census
        self.thins = False
        """Leave out spans by the process' sample ratio: the provider's sampler is not ours."""
        self.extra: dict[str, AnyValue] = {}
        """Attributes for our copy of each span."""
        self.propagate_baggage = True
        """Copy scenario and active profile from baggage onto spans."""
        self.default_entity: str | None = None
        """Uid of the profile that our copy of a span belongs to which no profile was active for."""
        self.is_active = True
        """False after `uninstrument`: OpenTelemetry cannot take a processor out again."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Copy scenario and profile from the context's baggage, and count the span."""
        if not self.is_active:
            return
        try:
            runtime = self._runtime
            context, parent = identity_of(span)
            if self.propagate_baggage:
                around = get_current() if parent_context is None else parent_context
                # A context with a parent span and nothing else has no baggage.
                has_any = around and (parent is None or len(around) > 1)
                entries = baggage.get_all(around) if has_any else _NOTHING
                if entries or ORIGINS.resolve is not None:
                    self._mark(span, entries)
            if context is not None and context[FLAGS] & SAMPLED:
                census, trace_id = self._census, context[TRACE_ID]
                if parent is not None:
                    counter = census.live.get(trace_id)
                    if counter is None:
                        census.started(trace_id, parent[IS_REMOTE])
                    else:
                        next(counter)
                elif census.has_forgotten:
                    census.root_started(trace_id)
            if runtime.extra_processors:
                self._start_extra(span, parent_context)
        except Exception as error:  # noqa: BLE001 - the host must not suffer from our bug
            GUARD.internal("span processor, start", error)

    def _start_extra(self, span: Span, parent_context: Context | None) -> None:
        if not self._runtime.capture.is_enabled:
            for processor in self._runtime.extra_processors:
                processor.on_start(span, parent_context)

    def _mark(self, span: Span, entries: Mapping[str, object]) -> None:
        origin = ORIGINS.of(entries)
        if origin.scenario_id is not None:
            marks: dict[str, AnyValue] = {**origin.marks}
            is_inside = origin.try_key not in (None, SCENARIO_OUTSIDE)
            if is_inside and CONVERSATION_ID not in (span.attributes or ()):
                marks[CONVERSATION_ID] = origin.try_key
            span.set_attributes(marks)
            self._runtime.capture.started(span.get_span_context(), marks)
        entity = entries.get(ACTIVE_ENTITY)
        if isinstance(entity, str) and len(entity) <= _MAX_ENTITY_CHARS:
            span.set_attribute(ENTITY_PREFIX + entity, entity)

    def on_end(self, span: ReadableSpan) -> None:
        """Capture the span, or queue it for the transport."""
        if not self.is_active:
            return
        owed: SpanExport | None = None  # counts the span until it is handed over
        try:
            runtime = self._runtime
            owed = None if runtime.capture.is_enabled else runtime.export
            context, parent = identity_of(span)
            if context is not None:
                trace_id, count = context[TRACE_ID], None
                if parent is None:
                    count = self._census.root_ended(trace_id)
                elif parent[IS_REMOTE]:
                    count = self._census.local_root_ended(trace_id)
                extra = self.extra
                if self.default_entity is not None and not _has_entity(span):
                    extra = {**extra, ENTITY_PREFIX + self.default_entity: self.default_entity}
                if cut := parts_cut(span):
                    mark = truncated_mark((span.attributes or {}).get(TRUNCATED), cut)
                    extra = {**extra, TRUNCATED: mark}
                if runtime.capture.is_enabled:
                    self._capture(span, extra)
                    return
                if context[FLAGS] & SAMPLED:
                    self._hand_over(span, trace_id, extra, count)
            owed = None
            for processor in runtime.extra_processors:
                processor.on_end(span)
        except Exception as error:  # noqa: BLE001 - the host must not suffer from our bug
            self._count_fault(owed)
            GUARD.internal("span processor, end", error)

    def _count_fault(self, owed: "SpanExport | None") -> None:
        if owed is not None:
            owed.drop("internal")
        elif self._runtime.capture.is_enabled:
            self._runtime.capture.failed += 1

    def _hand_over(
        self, span: ReadableSpan, trace_id: int, extra: dict[str, AnyValue], count: int | None
    ) -> None:
        """Queue a span for the transport, or count it."""
        runtime = self._runtime
        export = runtime.export
        if export is None:
            if runtime.ended is not None:
                runtime.ended.drop("closed")
        elif self.thins and not self._keeps(trace_id):
            export.drop("sampled")
        elif ORIGINS.has_replayed and SCENARIO_TRY in (span.attributes or ()):
            export.drop("replay_over")
        else:
            if runtime.redactor is not None:  # where that fails, the span is not sent as it is
                span, extra = _redacted(span, extra, runtime.redactor)
            export.put_unmeasured((span, extra, count))

    def _keeps(self, trace_id: int) -> bool:
        ratio = self._runtime.sampling.ratio
        return ratio is None or id_is_sampled(trace_id, ratio)

    def _capture(self, span: ReadableSpan, extra: dict[str, AnyValue]) -> None:
        runtime, context = self._runtime, span.get_span_context()
        if span.dropped_attributes and context is not None:
            extra = {**runtime.capture.marks_of(context), **extra}
        if runtime.redactor is not None:
            span, extra = _redacted(span, extra, runtime.redactor)
        runtime.capture.add(StampedSpan(span, None, extra) if extra else span)
        runtime.capture.ended(context)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Deliver what was queued so far."""
        return not self.is_active or self._runtime.flush(timeout_millis / 1000)

    def shutdown(self) -> None:
        """Deliver what was queued so far; the runtime itself outlives its providers."""
        if self.is_active:
            self._runtime.flush(5.0)


def _has_entity(span: ReadableSpan) -> bool:
    return any(key.startswith(ENTITY_PREFIX) for key in span.attributes or ())


def _redacted(
    span: ReadableSpan, extra: dict[str, AnyValue], redactor: "Redactor"
) -> tuple[ReadableSpan, dict[str, AnyValue]]:
    return RedactedSpan(span, redactor), redactor.attributes(extra)
