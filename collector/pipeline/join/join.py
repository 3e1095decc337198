"""The join of records with their traces: a data structure that is told the time.

A record whose plan reads spans is ready when its trace is complete and settled; else after a quiet
period without any arrival for the trace; else at its deadline. All times are arrival times, in
seconds of the clock that the caller reads (`InputClock`). The time of a trace whose spans may come
by a broker falls behind it while a broker lags (`held_s`).

Memory: spans are kept for traces touched lately, up to a number and a size. Beyond it the least
recently touched traces are let go, and their spans are asked back when they are needed (`unloaded`,
`Ready.spans` None). Where nothing is missing then, records can be evaluated before (`leaving`), and
the results are kept. The facts of a trace with a waiting record stay: ids and counts, and counts
alone where the trace is complete. Contexts of waiting records are kept up to a bound of bytes;
records beyond it come back without (`Ready.is_whole` False).
"""

import bisect
import itertools
import operator
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from collector.pipeline.join.appointments import Appointments
from collector.pipeline.join.input_clock import Via
from collector.pipeline.join.joined_trace import (
    NOT_WATCHED,
    EarlyResult,
    JoinedTrace,
    Leaving,
    Need,
    Share,
    Waiting,
    rough_bytes,
    share_of,
)
from collector.pipeline.join.ready import Ready, Room, Seen
from collector.pipeline.join.record_memory import RecordMemory
from collector.pipeline.join.rules import is_quiet, next_look, take_decided
from collector.pipeline.join.span_memory import SpanMemory
from collector.store.rows import (
    Completeness,
    EvaluatedRecord,
    RecordRow,
    TraceKey,
    WaitingRecord,
)
from collector.worker.behind import Due
from collector.worker.times import JoinTimes
from collector.worker.trace_facts import TraceFacts
from collector.worker.turns import Turns
from scouter.model.span import Span

_NOTHING: Final = Seen()
_OVERDUE: Final = Seen(completeness=Completeness.DEADLINE)
_arrived: Final = operator.attrgetter("arrived")
_trace_id: Final = operator.attrgetter("trace_id")


class Join:
    """Holds records until their traces are complete.

    Args:
        times: Waiting times.
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
        self._times, self._held_s = times, held_s
        self._spans: Final = SpanMemory(memory_spans, span_bytes)
        self._appointments: Final = Appointments(held_s)
        self._records: Final = RecordMemory(memory_bytes)
        self._traces: dict[TraceKey, JoinedTrace] = {}
        self._line: Turns[Waiting | TraceKey] = Turns()
        """Keys of traces, and records that wait for no trace, in the order of handling."""
        self._due_bytes: defaultdict[str, float] = defaultdict(float)
        """By space the bytes of those, as far as they were measured."""
        self._unknown: list[Waiting] = []
        self._unloaded: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._leaving: list[Leaving] = []

    @property
    def waiting(self) -> int:
        """Records inside that have no evaluation yet."""
        return sum(self._records.waiting.values()) - self.watched

    def waiting_of(self, share: Share) -> int:
        """Number of waiting records that take this share of memory."""
        return self._records.waiting[share]

    @property
    def watched(self) -> int:
        """Records that are to be derived of traces inside, and that nobody accepted yet."""
        return self._records.waiting[Share.WATCHED]

    @property
    def reopened(self) -> int:
        """Records inside that wait for a new evaluation."""
        return self._records.reopened

    @property
    def spans_in_memory(self) -> int:
        """Spans inside."""
        return self._spans.count

    @property
    def span_bytes(self) -> int:
        """Bytes of the spans inside, as they are stored."""
        return self._spans.size_bytes

    @property
    def context_bytes(self) -> int:
        """Bytes of the contexts (as JSON) and early results of waiting records inside."""
        return self._records.size_bytes

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
            space: Their space.
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
                self._records.forget_early(trace)
            taken = [trace.take(span) for span in group]
            grown = sum(taken)
            trace.stored_bytes += len(taken) * mean_bytes
            self._spans.grow(trace, grown, grown * mean_bytes)
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
        is_first: bool = False,
    ) -> None:
        """Take a record that was accepted.

        Args:
            record: The record.
            need: The spans that it waits for.
            now: The time.
            via: BROKER if it came by one: its spans then do so, too. A record that came directly
                says nothing of the way of its spans.
            is_first: True if the store had no span of its trace when it took the record.
        """
        waiting = Waiting(
            record=record,
            need=need,
            arrived=now,
            share=share_of(need),
        )
        self._add(waiting, via, is_first=is_first)

    def watched_by(self, key: TraceKey) -> frozenset[str]:
        """The aliases whose profiles are known to watch a trace."""
        trace = self._traces.get(key)
        return NOT_WATCHED if trace is None else trace.watched

    def note_watched(self, key: TraceKey, alias: str) -> None:
        """Take note that a profile of an alias watches a trace that is inside."""
        trace = self._traces.get(key)
        if trace is not None:
            trace.watched |= {alias}

    def forget_watched(self, row: RecordRow) -> None:
        """Forget that a profile watches a trace; a later span may select it again."""
        trace = self._traces.get((row.space, row.trace_id or ""))
        if trace is not None:
            trace.watched -= {row.alias}

    def add_watched(self, row: RecordRow, now: float) -> None:
        """Let a record wait that is to be derived from its trace: no store has it yet.

        Args:
            row: The known fields of the record; the others follow from the spans.
            now: The time.
        """
        waiting = Waiting(record=row, need=Need.TRACE, arrived=now, share=Share.WATCHED)
        self._add(waiting, Via.UNKNOWN)
        self.note_watched((row.space, row.trace_id or ""), row.alias)

    def add_stored(
        self, stored: WaitingRecord, need: Need, came_at: float, via: Via = Via.UNKNOWN
    ) -> None:
        """Take a record that was read back without its context, which is read once it is decided.

        Args:
            stored: The record.
            need: The spans that it waits for.
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

    def add_evaluated(self, evaluated: EvaluatedRecord, now: float) -> None:
        """Take a record that is to be evaluated again, without its context and evaluation."""
        waiting = Waiting(
            record=evaluated.record,
            need=Need.TRACE,
            arrived=now,
            size_bytes=evaluated.size_bytes,
            is_whole=False,
            is_reopened=True,
        )
        self._add(waiting, Via.UNKNOWN)

    def add_again(self, ready: Ready, need: Need, now: float) -> None:
        """Take back a record that was given out; it keeps the time that it has waited."""
        self._take_back(ready, need, share_of(need), now)

    def give_back(self, ready: Ready, now: float) -> None:
        """Take back a record that there was no time for."""
        self._take_back(ready, ready.need, ready.share, now)

    def _take_back(self, ready: Ready, need: Need, share: Share, now: float) -> None:
        self._add(
            Waiting(
                record=ready.record,
                need=need,
                arrived=now - ready.waited_s,
                size_bytes=ready.size_bytes,
                share=share,
                is_whole=ready.is_whole,
                is_reopened=ready.is_reopened,
            ),
            Via.UNKNOWN,
        )

    def _add(self, waiting: Waiting, via: Via, *, is_first: bool = False) -> None:
        record, need, now = waiting.record, waiting.need, waiting.arrived
        self._records.enter(waiting)
        if need is Need.NOTHING or (need is Need.TRACE and record.trace_id is None):
            self._records.hold(waiting, is_due=True)
            self._line_up(waiting, now)
            return
        self._records.hold(waiting)
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
        """Space and uid of every record inside, but for those that are yet to be derived.

        Cost: one look at each trace.
        """
        traced = [trace.waiting for trace in self._traces.values() if trace.waiting]
        lined_up = (each for each in self._line if isinstance(each, Waiting))
        every = itertools.chain(lined_up, self._unknown, *traced)
        return {
            (each.record.space, each.record.uid)
            for each in every
            if each.share is not Share.WATCHED
        }

    def unloaded(self) -> Mapping[str, Collection[str]]:
        """By space the traces that a record waits for and whose stored spans are to be asked for.

        No space is here without one.
        """
        return self._unloaded

    def to_load(self, key: TraceKey) -> int:
        """Spans that the store is known to have of such a trace; it may have more."""
        trace = self._traces.get(key)
        return 0 if trace is None else trace.to_load

    def load(self, key: TraceKey, spans: Iterable[Span], now: float) -> None:
        """Take everything that the store has of a trace that was named by `unloaded`."""
        self._asked(key)
        trace = self._traces.get(key)
        if trace is None:
            return
        self._spans.empty(trace)
        fresh = JoinedTrace(now, is_loaded=True)
        before = len(trace.facts)
        # The store is never behind what was handed over, so its version of a span wins.
        found = {**(trace.spans or {}), **{span.span_id: span for span in spans}}
        trace.stored_bytes = 0.0
        for span in found.values():
            size_bytes = rough_bytes(span)
            self._spans.grow(trace, fresh.take(span), size_bytes)
            trace.stored_bytes += size_bytes
        trace.facts, trace.spans, trace.is_loaded = fresh.facts, fresh.spans, True
        self._records.forget_early(trace)
        self._move(trace)
        if len(trace.facts) > before:
            trace.last_span = trace.last_arrival = self._local(trace, now)
        self._touch(key, trace)
        self._shrink()

    def load_none(self, key: TraceKey, now: float) -> None:
        """Take note that the spans of a trace are too many to be loaded.

        Nobody knows then whether it is complete: its records wait until it is quiet.
        """
        self._asked(key)
        trace = self._traces.get(key)
        if trace is None:
            return
        self._spans.empty(trace)
        self._records.forget_early(trace)
        trace.facts, trace.spans, trace.is_loaded = TraceFacts(), None, True
        trace.last_span = trace.last_arrival = self._local(trace, now)
        self._touch(key, trace)

    def leaving(self) -> list[Leaving]:
        """Take the traces that memory has let go, for a last look; ask after every addition."""
        found, self._leaving = self._leaving, []
        return found

    def keep(self, waiting: Waiting, early: EarlyResult) -> None:
        """Take the result of a record that was `leaving`, if there is room for it."""
        self._records.keep(waiting, early)

    def take_unknown(self, now: float) -> list[Ready]:
        """Give out the records that wait for their profile, to add them again."""
        found = [self._release(each, now) for each in self._unknown]
        self._unknown.clear()
        return found

    def erase(self, space: str, uids: Collection[str], trace_ids: Iterable[str]) -> None:
        """Forget records, and all that is known of some traces: the store is asked again.

        Args:
            space: Their space.
            uids: Of the records.
            trace_ids: Traces that lost spans.

        Cost: one look at each trace.
        """

        def is_kept(each: Waiting | TraceKey) -> bool:
            if not isinstance(each, Waiting):
                return True
            is_erased = each.record.space == space and each.record.uid in uids
            if is_erased:
                self._records.leave(each)
            return not is_erased

        def is_left(each: Waiting | TraceKey) -> bool:
            if is_kept(each) or not isinstance(each, Waiting):
                return True
            self._due_bytes[space] -= each.size_bytes
            return False

        def keep(waiting: list[Waiting]) -> list[Waiting]:
            return list(filter(is_kept, waiting))

        self._line.keep(is_left)
        self._unknown = keep(self._unknown)
        touched = {(space, trace_id) for trace_id in trace_ids}
        for key, trace in list(self._traces.items()):
            trace.waiting = keep(trace.waiting) if trace.waiting else trace.waiting
            if key in touched and not trace.waiting:
                self._forget(key, trace)
                self._asked(key)
            elif key in touched:
                self._records.forget_early(trace)
                self._spans.forget(key, trace)
                trace.forget()
                self._touch(key, trace)

    def look(self, now: float) -> None:
        """Line up every trace, and every record without one, whose time has come."""
        for waiting in self._expired_unknown(now):
            self._line_up(waiting, now)
        for key, trace, local in self._appointments.due(now, self._traces):
            if trace.waiting:
                trace.due_since = now
                trace.due_bytes = trace.stored_bytes + sum(
                    each.size_bytes for each in trace.waiting
                )
                self._due_bytes[key[0]] += trace.due_bytes
                self._line.put(key[0], key)
            elif is_quiet(trace, self._times, local):
                self._forget(key, trace)
            else:
                self._schedule(key, trace)

    @property
    def has_due(self) -> bool:
        """True if something is lined up."""
        return bool(self._line)

    def due(self, now: float) -> dict[str, Due]:
        """By space what is lined up.

        Args:
            now: The time.

        Cost: a look at the first of each space.
        """
        found: dict[str, Due] = {}
        for space, count, first in self._line.heads():
            if isinstance(first, Waiting):
                since = first.due_since
            else:
                trace = self._traces.get(first)
                since = None if trace is None else trace.due_since
            oldest_s = 0.0 if since is None else max(0.0, now - since)
            found[space] = Due(count, oldest_s, self._due_bytes[space])
        return found

    def next_space(self) -> str | None:
        """The space whose turn it is; None if nothing is lined up."""
        return self._line.next_space()

    def take(self, space: str, now: float, room: Room) -> list[Ready]:
        """Take out records of a space that wait no longer.

        Args:
            space: The space.
            now: The time.
            room: Of what is taken together; one record is always taken.
        """
        part: list[Ready] = []
        while (item := self._line.pop(space)) is not None:
            if not isinstance(item, Waiting):
                is_whole = self._take_trace(item, now, room, part)
            elif is_whole := room.admits(1, item.size_bytes, 0):
                is_late = item.need is Need.PROFILE
                part.append(self._release(item, now, _OVERDUE if is_late else _NOTHING))
            if not is_whole:
                self._line.put_first(space, item)
                break
            if isinstance(item, Waiting):
                self._due_bytes[space] -= item.size_bytes
        else:
            self._due_bytes.pop(space, None)
        return part

    def next_due(self) -> float | None:
        """Time at which `look` should be called again: never after anything becomes ready."""
        first = self._appointments.next_due()
        times = [] if first is None else [first]
        if self._unknown:
            times.append(self._unknown[0].arrived + self._times.deadline_s)
        if self._line:
            times.append(float("-inf"))
        return min(times, default=None)

    # --- inside -----------------------------------------------------------------------------

    def _line_up(self, waiting: Waiting, since: float) -> None:
        """Let a record wait for the turn of its space."""
        waiting.due_since = since
        self._due_bytes[waiting.record.space] += waiting.size_bytes
        self._line.put(waiting.record.space, waiting)

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

    def _take_trace(self, key: TraceKey, now: float, room: Room, part: list[Ready]) -> bool:
        """Take the records of a trace whose time has come; False if some are left for later.

        Something may have come since it was lined up: then it waits on.
        """
        trace = self._traces.get(key)
        if trace is None:
            return True
        lined_up_at, trace.due_since = trace.due_since, None
        local = self._local(trace, now)
        decided, completeness = take_decided(trace, self._times, local)
        spans = None if trace.spans is None else tuple(trace.spans.values())
        seen = Seen(spans, len(trace.facts), completeness, trace.facts.missing_parents)
        to_read = len(trace.facts) if spans is None else 0
        for at, waiting in enumerate(decided):
            if not room.admits(1, waiting.size_bytes, 0 if at else to_read):
                trace.waiting = decided[at:] + trace.waiting
                trace.due_since = lined_up_at
                return False
            part.append(self._release(waiting, local, seen))
        self._due_bytes[key[0]] -= trace.due_bytes
        self._schedule(key, trace)
        return True

    def _expired_unknown(self, now: float) -> list[Waiting]:
        wait_s = self._times.deadline_s
        expired = list(
            itertools.takewhile(lambda each: each.arrived + wait_s <= now, self._unknown)
        )
        del self._unknown[: len(expired)]
        return expired

    def _touch(self, key: TraceKey, trace: JoinedTrace) -> None:
        """Something about the trace changed: it is recent, and its next time may be earlier."""
        self._spans.touch(key, trace)
        if trace.waiting and not trace.is_loaded:
            self._unloaded[key[0]][key[1]] = None
        self._schedule(key, trace)

    def _schedule(self, key: TraceKey, trace: JoinedTrace) -> None:
        """Look at the trace at its next possible time; an earlier appointment is kept as it is.

        A trace that is lined up is looked at anyway.
        """
        at = None if trace.due_since is not None else next_look(trace, self._times)
        if at is not None:  # else `load` makes the appointment
            self._appointments.make(key, trace, at)

    def _release(self, waiting: Waiting, now: float, seen: Seen = _NOTHING) -> Ready:
        """Let a record go."""
        self._records.leave(waiting)
        return Ready.of(waiting, seen, now - waiting.arrived)

    def _asked(self, key: TraceKey) -> None:
        """Take note that the stored spans of a trace are not to be asked for any more."""
        space, trace_id = key
        if trace_id in self._unloaded.get(space, ()):
            del self._unloaded[space][trace_id]
            if not self._unloaded[space]:
                del self._unloaded[space]

    def _forget(self, key: TraceKey, trace: JoinedTrace) -> None:
        self._spans.forget(key, trace)
        if trace.due_since is not None:
            self._due_bytes[key[0]] -= trace.due_bytes
        del self._traces[key]

    def _shrink(self) -> None:
        """Let go of the spans touched longest ago until the rest fits."""
        for key, trace in self._spans.overflow():
            if trace.waiting:
                self._let_go(key, trace)
            else:
                self._forget(key, trace)

    def _let_go(self, key: TraceKey, trace: JoinedTrace) -> None:
        """Drop the spans of a trace that is waited for."""
        spans = tuple((trace.spans or {}).values())
        # A derived record has no context yet.
        first = [
            each for each in trace.waiting if not each.is_reopened and not each.record.is_derived
        ]
        # Else more is to come, or to be read from the store, and a look would be in vain.
        if first and trace.is_loaded and trace.facts.is_complete:
            self._leaving.append(Leaving(key=key, spans=spans, waiting=first))
        self._spans.empty(trace)
        trace.let_go()
