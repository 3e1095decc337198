"""The join of records with their traces: a data structure that is told the time.

A record whose plan reads spans is ready when its trace is complete and settled; else after a quiet
period without any arrival for the trace; else at its deadline. All times are arrival times, in
seconds of the clock that the caller reads (`InputClock`). The time of a trace whose spans may come
by a broker falls behind it while a broker lags (`held_s`).

Memory: spans are kept for traces touched lately, up to a number and a size; beyond it the least
recently touched are let go, and what is needed of them is asked back (`unloaded`, `Ready.spans`
None). Where nothing is missing then, records can be judged before (`leaving`), and the results are
kept. Of a trace with a waiting record the facts stay: ids and counts, and counts alone where it is
complete. Contexts of waiting records are kept up to a bound of bytes; records beyond it come back
without (`Ready.is_whole` False).
"""

import bisect
import dataclasses
import heapq
import itertools
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pydantic_core

from collector.pipeline.input_clock import Via
from collector.pipeline.joined_trace import (
    EarlyResult,
    JoinedTrace,
    Leaving,
    Need,
    Share,
    Waiting,
    rough_bytes,
    share_of,
)
from collector.storage.json_text import dump_json
from collector.storage.known_keys import TraceKey
from collector.storage.rows import Completeness, RecordRow, WaitingRecord
from scouter.model.span import Span

__all__ = ("Join", "JoinTimes", "Need", "Ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTimes:
    """How long to wait, in seconds; see the settings of the same names."""

    settle_s: float = 0.5
    foreign_settle_s: float = 7.0
    quiet_s: float = 30.0
    deadline_s: float = 300.0
    late_window_s: float = 86_400.0
    session_quiet_s: float = 60.0
    session_deadline_s: float = 3600.0


@dataclass(slots=True, kw_only=True)
class Ready:
    """A record that waits no longer. Treat it as read-only, as the rows of the store."""

    record: RecordRow
    need: Need
    spans: Sequence[Span] | None
    """The trace's spans in order of arrival; None if memory has let them go."""
    completeness: Completeness
    missing_parents: int
    waited_s: float
    size_bytes: int = 0
    """Size of the context as JSON, where it was measured: of records that had to wait."""
    span_count: int = 0
    """Spans of the trace, in memory or not."""
    is_whole: bool = True
    """False if the context has to be read from the store."""
    is_reopened: bool = False
    """True if it has a verdict already, which late spans have made doubtful."""
    early: EarlyResult | None = None
    """What its tasks say of the trace, if it was judged before memory let the spans go."""

    @property
    def needs_spans(self) -> bool:
        """True if its trace has to be read from the store."""
        return self.need is Need.TRACE and self.spans is None and self.early is None


class _Seen(NamedTuple):
    """What is known of a trace when its records are let go."""

    spans: Sequence[Span] | None = ()
    span_count: int = 0
    completeness: Completeness = Completeness.COMPLETE
    missing_parents: int = 0


_NOTHING: Final = _Seen()


def _json_bytes(context: object) -> int:
    try:
        return len(pydantic_core.to_json(context, inf_nan_mode="strings"))
    except pydantic_core.PydanticSerializationError:  # half a character is in it
        return len(dump_json(context).encode())


_arrived: Final = operator.attrgetter("arrived")
_trace_id: Final = operator.attrgetter("trace_id")


class Join:
    """Holds records until their traces are complete.

    Args:
        times: How long to wait.
        memory_spans: Spans to keep at most.
        memory_bytes: Bytes of contexts (as JSON) and early results of waiting records to keep at
            most.
        span_bytes: Bytes of spans (as stored) to keep at most.
        held_s: By how much the time of those who wait for such sources is behind the time that is
            handed in; never shrinks.
    """

    def __init__(
        self,
        times: JoinTimes,
        memory_spans: int,
        memory_bytes: int = 32 * 2**20,
        *,
        span_bytes: int = 64 * 2**20,
        held_s: Callable[[Via], float] = lambda via: 0.0,
    ) -> None:
        self._times, self._memory_spans, self._memory_bytes = times, memory_spans, memory_bytes
        self._max_span_bytes, self._held_s = span_bytes, held_s
        self._traces: dict[TraceKey, JoinedTrace] = {}
        self._in_memory: OrderedDict[TraceKey, None] = OrderedDict()
        self._span_count = 0
        self._span_bytes = 0.0
        self._context_bytes = 0
        self._reopened = 0
        self._waiting = dict.fromkeys(Share, 0)
        self._at_once: list[Waiting] = []
        self._unknown: list[Waiting] = []
        self._unloaded: set[TraceKey] = set()
        self._leaving: list[Leaving] = []
        self._heaps: dict[Via, list[tuple[float, int, TraceKey]]] = {via: [] for via in Via}
        """When to look at which trace, by whose time that is."""
        self._tie: Final = itertools.count()

    @property
    def waiting(self) -> int:
        """Records inside that have no verdict yet."""
        return sum(self._waiting.values())

    def waiting_of(self, share: Share) -> int:
        """Those of them that take this room."""
        return self._waiting[share]

    @property
    def reopened(self) -> int:
        """Records inside that wait for a new verdict."""
        return self._reopened

    @property
    def spans_in_memory(self) -> int:
        """Spans inside."""
        return self._span_count

    @property
    def span_bytes(self) -> int:
        """Bytes of the spans inside, as they are stored."""
        return round(self._span_bytes)

    @property
    def context_bytes(self) -> int:
        """Bytes of the contexts (as JSON) and early results of waiting records inside."""
        return self._context_bytes

    def add_spans(
        self,
        space: str,
        spans: Sequence[Span],
        known_traces: frozenset[str],
        now: float,
        *,
        via: Via = Via.DIRECT,
        size_bytes: int = 0,
    ) -> None:
        """Take spans that were stored.

        Args:
            space: Where they belong.
            spans: New spans, or better ones than before under the same key.
            known_traces: Traces of which the store had spans already.
            now: The time.
            via: The way that they came.
            size_bytes: Of all of them, as stored.
        """
        touched: dict[TraceKey, JoinedTrace] = {}
        mean_bytes = size_bytes / max(1, len(spans))
        for trace_id, group in itertools.groupby(spans, key=_trace_id):
            key = (space, trace_id)
            trace = self._traces.get(key)
            if trace is None:
                trace = self._new(key, now, is_loaded=trace_id not in known_traces)
            if trace.spans is None:
                self._forget_early(trace)
            grown = sum([trace.take(span) for span in group])
            self._grow(trace, grown, grown * mean_bytes)
            touched[key] = trace
        for key, trace in touched.items():
            if trace.brought_by is not Via.BROKER:
                trace.brought_by = via
            self._move(trace)
            trace.last_span = trace.last_arrival = self._local(trace, now)
            self._touch(key, trace)
        self._shrink()

    def add_record(
        self,
        record: RecordRow,
        need: Need,
        now: float,
        *,
        via: Via = Via.UNKNOWN,
        is_reopened: bool = False,
        is_first: bool = False,
    ) -> None:
        """Take a record that was accepted, or one that is to be judged again.

        Args:
            record: The record.
            need: What it waits for.
            now: The time.
            via: BROKER if it came by one: so do the spans then. One that came directly says
                nothing of the way of the spans.
            is_reopened: True if it has a verdict.
            is_first: True if the store had no span of its trace when it took the record.
        """
        waiting = Waiting(
            record=record,
            need=need,
            arrived=now,
            share=share_of(need),
            is_reopened=is_reopened,
        )
        self._add(waiting, via, is_first=is_first)

    def add_stored(
        self, stored: WaitingRecord, need: Need, came_at: float, via: Via = Via.UNKNOWN
    ) -> None:
        """Take a record that was read back without its context, which is read once it is decided.

        Args:
            stored: The record.
            need: What it waits for.
            came_at: The time when it began to wait.
            via: BROKER if it came by one.
        """
        waiting = Waiting(
            record=stored.record,
            need=need,
            arrived=came_at,
            size_bytes=stored.context_bytes,
            share=Share.STORED,
            is_whole=False,
        )
        self._add(waiting, via)

    def add_again(self, ready: Ready, need: Need, now: float) -> None:
        """Take back a record that was given out; it keeps the time that it has waited."""
        self._add(
            Waiting(
                record=ready.record,
                need=need,
                arrived=now - ready.waited_s,
                size_bytes=ready.size_bytes,
                share=share_of(need),
                is_whole=ready.is_whole,
                is_reopened=ready.is_reopened,
            ),
            Via.UNKNOWN,
        )

    def _add(self, waiting: Waiting, via: Via, *, is_first: bool = False) -> None:
        record, need, now = waiting.record, waiting.need, waiting.arrived
        if waiting.is_reopened:
            self._reopened += 1
        else:
            self._waiting[waiting.share] += 1
        if need is Need.NOTHING or (need is Need.TRACE and record.trace_id is None):
            self._at_once.append(waiting)
            return
        self._hold(waiting)
        if need is Need.PROFILE or record.trace_id is None:
            bisect.insort(self._unknown, waiting, key=_arrived)
            return
        key = (record.space, record.trace_id)
        trace = self._traces.get(key)
        if trace is None:
            trace = self._new(key, now, is_loaded=is_first)
        if via is Via.BROKER:
            trace.brought_by = via
            self._move(trace)
        waiting.arrived = self._local(trace, now)
        bisect.insort(trace.waiting, waiting, key=_arrived)
        trace.last_arrival = max(trace.last_arrival, waiting.arrived)
        self._touch(key, trace)

    def record_keys(self) -> set[tuple[str, str]]:
        """Space and uid of every record inside.

        Cost: one look at each trace.
        """
        traced = [trace.waiting for trace in self._traces.values() if trace.waiting]
        every = itertools.chain(self._at_once, self._unknown, *traced)
        return {(each.record.space, each.record.uid) for each in every}

    def unloaded(self) -> list[TraceKey]:
        """Traces that a record waits for and whose stored spans have to be asked for."""
        return list(self._unloaded)

    def to_load(self, key: TraceKey) -> int:
        """Spans that the store is known to have of such a trace; it may have more."""
        trace = self._traces.get(key)
        return 0 if trace is None else trace.to_load

    def load(self, key: TraceKey, spans: Iterable[Span], now: float) -> None:
        """Take everything that the store has of a trace that was named by `unloaded`."""
        self._unloaded.discard(key)
        trace = self._traces.get(key)
        if trace is None:
            return
        self._grow(trace, -len(trace.spans or ()), -trace.size_bytes)
        fresh = JoinedTrace(now, is_loaded=True)
        before = len(trace.facts)
        # The store is never behind what was handed over, so its version of a span wins.
        found = {**(trace.spans or {}), **{span.span_id: span for span in spans}}
        for span in found.values():
            self._grow(trace, fresh.take(span), rough_bytes(span))
        trace.facts, trace.spans, trace.is_loaded = fresh.facts, fresh.spans, True
        self._forget_early(trace)
        self._move(trace)
        if len(trace.facts) > before:
            trace.last_span = trace.last_arrival = self._local(trace, now)
        self._touch(key, trace)
        self._shrink()

    def leaving(self) -> list[Leaving]:
        """Take the traces that memory has let go, for a last look; ask after every addition."""
        found, self._leaving = self._leaving, []
        return found

    def keep(self, waiting: Waiting, early: EarlyResult) -> None:
        """Take the result of a record that was `leaving`, if there is room for it."""
        if self._context_bytes + early.size_bytes <= self._memory_bytes:
            self._context_bytes += early.size_bytes
            waiting.early = early

    def take_unknown(self, now: float) -> list[Ready]:
        """Give out the records that wait for their profile, to add them again."""
        found = [self._release(each, now) for each in self._unknown]
        self._unknown.clear()
        return found

    def due(self, now: float) -> list[Ready]:
        """Take out every record that waits no longer."""
        found = [self._release(each, now) for each in self._at_once]
        self._at_once.clear()
        found += self._expired_unknown(now)
        for via, heap in self._heaps.items():
            local = now - self._held_s(via)
            while heap and heap[0][0] <= local:
                at, _, key = heapq.heappop(heap)
                trace = self._traces.get(key)
                if trace is None or trace.scheduled != at or trace.via is not via:
                    continue
                trace.scheduled = None
                found += self._look_at(key, trace, local)
        return found

    def next_due(self) -> float | None:
        """When `due` should be asked again: never after anything becomes ready."""
        heaps = self._heaps.items()
        times = [heap[0][0] + self._held_s(via) for via, heap in heaps if heap]
        if self._unknown:
            times.append(self._unknown[0].arrived + self._times.deadline_s)
        if self._at_once:
            times.append(float("-inf"))
        return min(times, default=None)

    # --- inside -----------------------------------------------------------------------------

    def _new(self, key: TraceKey, now: float, *, is_loaded: bool) -> JoinedTrace:
        local = now - self._held_s(Via.UNKNOWN)
        trace = self._traces[key] = JoinedTrace(local, is_loaded=is_loaded)
        return trace

    def _local(self, trace: JoinedTrace, now: float) -> float:
        return now - self._held_s(trace.via)

    def _move(self, trace: JoinedTrace) -> None:
        """Let the trace wait for other sources, if it should; what has passed has passed."""
        via = trace.wants()
        if via is trace.via:
            return
        shift = self._held_s(trace.via) - self._held_s(via)
        trace.via, trace.scheduled = via, None  # `_touch` makes a new appointment
        trace.last_arrival += shift
        trace.last_span += shift
        for waiting in trace.waiting:
            waiting.arrived += shift

    def _grow(self, trace: JoinedTrace, count: int, size_bytes: float) -> None:
        """Count spans that a trace got, or let go."""
        trace.size_bytes += size_bytes
        self._span_count += count
        self._span_bytes += size_bytes

    def _look_at(self, key: TraceKey, trace: JoinedTrace, now: float) -> list[Ready]:
        """Decide about a trace whose time has come."""
        times, facts, waiting = self._times, trace.facts, trace.waiting
        ready: list[Waiting] = []
        completeness = Completeness.COMPLETE
        is_quiet = now >= trace.last_arrival + times.quiet_s
        if not waiting:
            if is_quiet:
                self._forget(key, trace)
                return []
        elif trace.is_loaded:  # else an appointment made before the record came
            is_settled = facts.is_complete and now >= trace.last_span + self._settle_s(trace)
            if is_settled or is_quiet:
                ready, trace.waiting = waiting, []
                completeness = Completeness.COMPLETE if facts.is_complete else Completeness.QUIET
            else:
                wait_s = times.deadline_s
                ready = [each for each in waiting if each.arrived + wait_s <= now]
                trace.waiting = [each for each in waiting if each.arrived + wait_s > now]
                completeness = Completeness.DEADLINE
        self._schedule(key, trace)
        if not ready:
            return []
        spans = None if trace.spans is None else tuple(trace.spans.values())
        seen = _Seen(spans, len(facts), completeness, facts.missing_parents)
        return [self._release(each, now, seen) for each in ready]

    def _expired_unknown(self, now: float) -> list[Ready]:
        wait_s = self._times.deadline_s
        expired = list(
            itertools.takewhile(lambda each: each.arrived + wait_s <= now, self._unknown)
        )
        del self._unknown[: len(expired)]
        seen = _NOTHING._replace(completeness=Completeness.DEADLINE)
        return [self._release(each, now, seen) for each in expired]

    def _settle_s(self, trace: JoinedTrace) -> float:
        times = self._times
        return times.foreign_settle_s if trace.facts.is_foreign else times.settle_s

    def _touch(self, key: TraceKey, trace: JoinedTrace) -> None:
        """Something about the trace changed: it is recent, and its next time may be earlier."""
        if trace.spans:
            self._in_memory[key] = None
            self._in_memory.move_to_end(key)
        if trace.waiting and not trace.is_loaded:
            self._unloaded.add(key)
        self._schedule(key, trace)

    def _schedule(self, key: TraceKey, trace: JoinedTrace) -> None:
        """Look at the trace at its next possible time; an earlier appointment is kept as it is."""
        times = self._times
        if trace.waiting and not trace.is_loaded:
            return  # `load` makes the appointment
        at = trace.last_arrival + times.quiet_s
        if trace.waiting:
            at = min(at, trace.waiting[0].arrived + times.deadline_s)
            if trace.is_loaded and trace.facts.is_complete:
                at = min(at, trace.last_span + self._settle_s(trace))
        if trace.scheduled is None or at < trace.scheduled:
            trace.scheduled = at
            heapq.heappush(self._heaps[trace.via], (at, next(self._tie), key))

    def _hold(self, waiting: Waiting) -> None:
        """Keep a record's context if there is room for it."""
        record = waiting.record
        if not waiting.size_bytes:
            waiting.size_bytes = _json_bytes(record.context)
        is_full = self._context_bytes + waiting.size_bytes > self._memory_bytes
        if is_full or waiting.is_reopened:  # the latter's verdict has to be read anyway
            waiting.record = dataclasses.replace(record, context=None)
            waiting.is_whole = False
        elif waiting.is_whole:
            waiting.held_bytes = waiting.size_bytes
            self._context_bytes += waiting.held_bytes

    def _release(self, waiting: Waiting, now: float, seen: _Seen = _NOTHING) -> Ready:
        """Let a record go."""
        self._context_bytes -= waiting.held_bytes
        if waiting.early is not None:
            self._context_bytes -= waiting.early.size_bytes
        if waiting.is_reopened:
            self._reopened -= 1
        else:
            self._waiting[waiting.share] -= 1
        return Ready(
            record=waiting.record,
            need=waiting.need,
            spans=seen.spans,
            span_count=seen.span_count,
            completeness=seen.completeness,
            missing_parents=seen.missing_parents,
            waited_s=now - waiting.arrived,
            size_bytes=waiting.size_bytes,
            is_whole=waiting.is_whole,
            is_reopened=waiting.is_reopened,
            early=waiting.early,
        )

    def _forget(self, key: TraceKey, trace: JoinedTrace) -> None:
        self._grow(trace, -len(trace.spans or ()), -trace.size_bytes)
        self._in_memory.pop(key, None)
        del self._traces[key]

    def _shrink(self) -> None:
        """Let go of the spans touched longest ago until the rest fits."""
        while len(self._in_memory) > 1 and (
            self._span_count > self._memory_spans or self._span_bytes > self._max_span_bytes
        ):
            key, _ = self._in_memory.popitem(last=False)
            trace = self._traces[key]
            if trace.waiting:
                self._let_go(trace)
            else:
                self._forget(key, trace)

    def _let_go(self, trace: JoinedTrace) -> None:
        """Drop the spans of a trace that is waited for."""
        spans = tuple((trace.spans or {}).values())
        first = [each for each in trace.waiting if not each.is_reopened]
        # Else more is to come, or to be read from the store, and a look would be in vain.
        if first and trace.is_loaded and trace.facts.is_complete:
            self._leaving.append(Leaving(spans=spans, waiting=first))
        self._grow(trace, -len(spans), -trace.size_bytes)
        trace.let_go()

    def _forget_early(self, trace: JoinedTrace) -> None:
        """Take away what was said of a trace before its last span came."""
        for waiting in trace.waiting:
            if waiting.early is not None:
                self._context_bytes -= waiting.early.size_bytes
                waiting.early = None
