"""The join: which records wait, which are due, and whose turn it is. It holds no spans.

All times are those of the log, in seconds (`LogTime`). Everything in here was committed: whatever
is due is read from the store, and a restart fills the join anew from there.
"""

import bisect
import heapq
import itertools
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from collector.store.rows import TraceKey
from collector.store.span_rows import TracePlace
from collector.worker.behind import Due
from collector.worker.open_trace import Decision, JoinTimes, Needed, OpenTrace, Paused, Waiting
from collector.worker.turns import Turns
from scouter.model.span import Span

_HELD_S: Final = 0.5
"""Between two looks at a trace while time stands still for it."""
_MEASURED: Final = 256
"""Items of a space whose sizes are looked at."""
_arrived: Final = operator.attrgetter("arrived")


class Kind(Enum):
    """Reasons that a record waits."""

    ACCEPTED = "accepted"
    WATCHED = "watched"
    """It is to be derived from a trace."""
    AGAIN = "again"
    """Its evaluation has not seen all spans."""

    @staticmethod
    def of(waiting: Waiting) -> "Kind":
        """The kind of a record that waits."""
        if waiting.watched_by:
            return Kind.WATCHED
        return Kind.AGAIN if waiting.is_again else Kind.ACCEPTED


class Join:
    """Records that wait for their traces, their profiles or their turn.

    Spaces take turns, whatever one of them has waiting.

    Args:
        times: Waiting times.
    """

    def __init__(self, times: JoinTimes) -> None:
        self._times: Final = times
        self._traces: Final[dict[TraceKey, OpenTrace]] = {}
        self._looks: Final[list[tuple[float, int, TraceKey]]] = []
        """A heap; only the place that a trace names as its `look_at` counts."""
        self._tie: Final = itertools.count()
        self._unknown: Final[list[Waiting]] = []
        """Records whose profile nobody registered, in the order in which they came."""
        self.paused = Paused()
        """The time for which it stood still, up to the time that methods are given."""
        self._unknown_paused_s = 0.0
        """The same up to the times of the records whose profile nobody registered."""
        self._line: Final[Turns[TraceKey | Waiting]] = Turns()
        self._needed: Final = Needed()
        self.counts: Final[dict[Kind, int]] = dict.fromkeys(Kind, 0)
        """Records that wait, by why."""

    def __len__(self) -> int:
        """Records that wait, those included that are to be derived, or judged again."""
        return len(self._needed)

    def low_seq(self, next_seq: int) -> int:
        """The oldest commit whose rows are needed; the next one if no stored row is."""
        return self._needed.lowest(next_seq)

    # --- what comes in ----------------------------------------------------------------------

    def add_spans(
        self,
        space: str,
        spans: Iterable[Span],
        seq: int,
        now: float,
        *,
        known: Mapping[str, int],
        opens: bool,
        of_broker: Collection[str] = (),
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        """Take note of spans that a commit stored.

        Args:
            space: Their space.
            spans: In any order.
            seq: The commit.
            now: The time.
            known: Traces of which the store had spans before, with the bytes of these.
            opens: True to open traces that no record waits for, as a profile may watch them.
            of_broker: Traces of which a span came by a broker.
            sizes: Bytes of the spans, by trace id.
        """
        by_trace: dict[str, list[Span]] = {}
        for span in spans:
            by_trace.setdefault(span.trace_id, []).append(span)
        for trace_id, own in by_trace.items():
            key = (space, trace_id)
            trace = self._traces.get(key)
            if trace is None and opens:
                trace = self._open(key, now, seq, stored_bytes=known.get(trace_id))
            if trace is not None:
                trace.stand_still(self.paused)
                trace.came(by_broker=trace_id in of_broker, is_span=True)
                trace.take(own, seq, now, 0 if sizes is None else sizes.get(trace_id, 0))
                self._schedule(key, trace)

    def wait_for_trace(
        self,
        key: TraceKey,
        waiting: Waiting,
        now: float,
        *,
        stored_bytes: int | None,
        of_broker: bool = False,
    ) -> None:
        """Let a record wait for its trace.

        Args:
            key: The trace.
            waiting: The record.
            now: The time.
            stored_bytes: Bytes of the spans that the store has of it, 0 where they were not
                measured; None if it has none.
            of_broker: True if it came by a broker: its spans then do so, too. One that came
                directly says nothing of them.
        """
        trace = self._traces.get(key)
        if trace is None:
            trace = self._open(key, now, waiting.seq, stored_bytes=stored_bytes)
        trace.stand_still(self.paused)
        trace.came(by_broker=of_broker)
        self._enter(waiting)
        bisect.insort(trace.waiting, waiting, key=_arrived)
        trace.last_arrival = max(trace.last_arrival, waiting.arrived)
        self._schedule(key, trace)

    def is_again(self, key: TraceKey, uid: str) -> bool:
        """Tell whether a record waits for a trace to be judged again."""
        trace = self._traces.get(key)
        return trace is not None and trace.has_again(uid)

    def wait_for_profile(self, waiting: Waiting) -> None:
        """Let a record wait for the registration of its profile."""
        self._hold_unknown()
        self._enter(waiting)
        bisect.insort(self._unknown, waiting, key=_arrived)

    def wait_for_turn(self, waiting: Waiting) -> None:
        """Let a record wait for nothing but the turn of its space."""
        self._enter(waiting)
        self._line.put(waiting.space, waiting)

    def watch(self, key: TraceKey, alias: str, profile_uid: str, uid: str, now: float) -> None:
        """Let a record wait that is to be derived from an open trace.

        Args:
            key: The trace.
            alias: The alias whose profile watches it.
            profile_uid: That profile.
            uid: The record's.
            now: The time.
        """
        trace = self._traces[key]
        trace.aliases |= {alias}
        waiting = Waiting(
            space=key[0],
            uid=uid,
            seq=trace.opened_seq,
            arrived=now,
            alias=alias,
            watched_by=profile_uid,
        )
        self.wait_for_trace(key, waiting, now, stored_bytes=0)

    def wait_again(self, waiting: Waiting, place: TracePlace | None) -> None:
        """Let a record that was decided on wait for the next turn of its space, before all others.

        Args:
            waiting: The record.
            place: Where the spans of its trace are; None if it waited for none.
        """
        if place is None:
            self.put_back(waiting)
            return
        key = (waiting.space, place.trace_id)
        trace = self._traces.get(key)
        if trace is None:
            trace = self._open(key, waiting.arrived, place.last_seq, stored_bytes=0)
            trace.first_seq, trace.opened_seq = place.first_seq, waiting.seq
        self._enter(waiting)
        bisect.insort(trace.waiting, waiting, key=_arrived)
        if waiting.watched_by:
            trace.aliases |= {waiting.alias}
        if not trace.is_due:
            self.put_back(key)

    def aliases(self, key: TraceKey) -> frozenset[str]:
        """The aliases whose profiles are known to watch a trace."""
        trace = self._traces.get(key)
        return frozenset() if trace is None else trace.aliases

    def reopen(self, key: TraceKey, low_seq: int, now: float) -> None:
        """Open a trace that an earlier process left in the store.

        Args:
            key: The trace.
            low_seq: A restart finds it from this commit on.
            now: The time.
        """
        if key not in self._traces:
            self._schedule(key, self._open(key, now, low_seq, stored_bytes=0))

    def take_unknown(self) -> list[Waiting]:
        """Give out the records that wait for a profile."""
        self._hold_unknown()
        found = self._unknown[:]
        self._unknown.clear()
        for waiting in found:
            self._leave(waiting)
        return found

    def forget(self, space: str, uids: Collection[str]) -> None:
        """Let records that were erased wait no longer; those in line are missed when it is theirs.

        Cost: a look at everything that waits.
        """

        def is_gone(waiting: Waiting) -> bool:
            return waiting.space == space and waiting.uid in uids

        for each in (self._unknown, *(trace.waiting for trace in self._traces.values())):
            for waiting in [waiting for waiting in each if is_gone(waiting)]:
                each.remove(waiting)
                self._leave(waiting)

    # --- what is due ------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Line up every record whose time has come, and forget the traces that nothing waits for.

        Cost: a heap's step for each trace that is looked at.
        """
        wait_s = self._times.deadline_s
        if self._unknown and self._unknown[0].arrived + wait_s <= now:
            self._hold_unknown()
        while self._unknown and self._unknown[0].arrived + wait_s <= now:
            waiting = self._unknown.pop(0)
            self._line.put(waiting.space, waiting)
        while self._looks and self._looks[0][0] <= now:
            at, _, key = heapq.heappop(self._looks)
            trace = self._traces.get(key)
            if trace is None or trace.look_at != at:
                continue
            trace.look_at = None
            if trace.stand_still(self.paused):
                self._schedule(key, trace, now + _HELD_S)
            elif trace.waiting:
                trace.is_due, trace.due_since = True, now
                self._line.put(key[0], key)
            elif trace.is_quiet(self._times, now):
                del self._traces[key]
            else:
                self._schedule(key, trace)

    @property
    def has_due(self) -> bool:
        """True if something is lined up."""
        return bool(self._line)

    def due(self, now: float) -> dict[str, Due]:
        """By space what is lined up; its size by the mean of those that wait longest."""
        found: dict[str, Due] = {}
        for space, count, items in self._line.heads(_MEASURED):
            first = items[0]
            since = first.arrived if isinstance(first, Waiting) else self._traces[first].due_since
            mean_bytes = sum(map(self._size_of, items)) / len(items)
            found[space] = Due(count, max(0.0, now - since), count * mean_bytes)
        return found

    def _size_of(self, item: TraceKey | Waiting) -> int:
        if isinstance(item, Waiting):
            return item.size_bytes
        trace = self._traces[item]
        return trace.size_bytes + sum(each.size_bytes for each in trace.waiting)

    def next_due(self) -> float | None:
        """Time at which to `look` again, never after anything is due; None if nothing waits."""
        if self._line:
            return float("-inf")
        times = [self._looks[0][0]] if self._looks else []
        if self._unknown:
            times.append(self._unknown[0].arrived + self._times.deadline_s)
        return min(times, default=None)

    def next_space(self) -> str | None:
        """The space whose turn it is; None if nothing is lined up."""
        return self._line.next_space()

    def take(self, space: str) -> TraceKey | Waiting | None:
        """Take what waits longest of a space: a trace to `decide` on, or a record without one."""
        item = self._line.pop(space)
        if isinstance(item, Waiting):
            self._leave(item)
        elif item is not None:
            self._traces[item].is_due = False
        return item

    def put_back(self, item: TraceKey | Waiting) -> None:
        """Let something that was taken have the first place in its space's next turn."""
        if isinstance(item, Waiting):
            self._enter(item)
            self._line.put_first(item.space, item)
        else:
            self._traces[item].is_due = True
            self._line.put_first(item[0], item)

    def place(self, key: TraceKey) -> TracePlace:
        """The commits with spans of an open trace: all, where only the store knows them."""
        trace = self._traces[key]
        if not trace.first_seq:
            return TracePlace(key[1])
        return TracePlace(key[1], trace.first_seq, trace.last_seq)

    def waiting_of(self, key: TraceKey) -> Sequence[Waiting]:
        """The records that wait for a trace."""
        return self._traces[key].waiting

    def decide(self, key: TraceKey, spans: Iterable[Span], now: float) -> Decision:
        """Take out the records of a trace that wait no longer.

        Args:
            key: A trace that was taken.
            spans: All that the store has of it.
            now: The time. Where more is to come, the trace waits on.
        """
        trace = self._traces[key]
        trace.stand_still(self.paused)
        decision = trace.decide(spans, self._times, now)
        for waiting in decision.waiting:
            self._leave(waiting)
        if trace.waiting:
            self._schedule(key, trace)
        else:  # a later span opens it anew
            del self._traces[key]
        return decision

    # --- inside -----------------------------------------------------------------------------

    def _enter(self, waiting: Waiting) -> None:
        self._needed.add(waiting.seq)
        self.counts[Kind.of(waiting)] += 1

    def _leave(self, waiting: Waiting) -> None:
        self._needed.remove(waiting.seq)
        self.counts[Kind.of(waiting)] -= 1

    def _open(self, key: TraceKey, now: float, seq: int, *, stored_bytes: int | None) -> OpenTrace:
        is_new = stored_bytes is None
        trace = self._traces[key] = OpenTrace(
            now, seq, is_new=is_new, paused_s=self.paused.unknown_s
        )
        trace.size_bytes = stored_bytes or 0
        return trace

    def _hold_unknown(self) -> None:
        """Move the times of records without a profile on, by the time that stood still."""
        seconds = self.paused.unknown_s - self._unknown_paused_s
        self._unknown_paused_s = self.paused.unknown_s
        if seconds > 0:
            self._unknown[:] = [replace(w, arrived=w.arrived + seconds) for w in self._unknown]

    def _schedule(self, key: TraceKey, trace: OpenTrace, not_before: float = 0.0) -> None:
        """Make an appointment; an earlier one stays, as looking too early costs little."""
        if trace.is_due:
            return
        trace.stand_still(self.paused)
        at = max(trace.next_look(self._times), not_before)
        if trace.look_at is None or at < trace.look_at:
            trace.look_at = at
            heapq.heappush(self._looks, (at, next(self._tie), key))
