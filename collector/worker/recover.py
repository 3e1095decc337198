"""The rest of earlier processes: waiting records, open traces, and judgements that they began."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from collector.split import split
from collector.store.commit import Commit
from collector.store.letters import DeadLetter
from collector.store.limits import NoMemoryError
from collector.store.reads import LAST
from collector.store.rows import RecordRow, TraceKey
from collector.store.span_rows import TracePlace
from collector.store.store import Store
from collector.worker.begun import POISON, POSTPONED_S, Begun
from collector.worker.derive import Deriver
from collector.worker.join import Join
from collector.worker.late import LateSpans
from collector.worker.letters import letter_of_record
from collector.worker.profiles import ProfileRegistry
from scouter.model.log_event import is_log_event

_TRACES: Final = 200
_SPANS: Final = 2_000
"""Traces and their spans that are read together."""


class Recovery:
    """Reads what is left from the store's low mark on; traces that profiles watch come by and by.

    Args:
        store: Has what is left.
        registry: The profiles.
        join: Gets the traces.
        deriver: Finds the profiles that watch them.
        late: Is told of the traces that got spans.
        has_items: True if the log has something that was not read.
        clock: Monotonic seconds.
        now_ns: Wall clock.

    Raises:
        TransientError: The store cannot be read now.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        join: Join,
        deriver: Deriver,
        late: LateSpans,
        *,
        has_items: bool,
        clock: Callable[[], float],
        now_ns: Callable[[], int],
    ) -> None:
        self._store, self._join, self._deriver = store, join, deriver
        self._clock, self._now_ns = clock, now_ns
        self._low_seq, self._began = store.low_seq, clock()
        waiting = store.undecided(store.low_seq)
        watching = registry.watching_spaces()
        recent = store.traces_since(store.low_seq)
        self._traces: Final = {key: each for key, each in recent.items() if key[0] in watching}
        """The traces that a profile may watch."""
        for (space, trace_id), each in recent.items():
            late.touched(space, [trace_id], each.last_seq)
        is_unfinished = has_items or bool(waiting or self._traces)
        self.begun: Final = Begun(store.begun(store.low_seq), is_unfinished=is_unfinished)
        """Judgements that were begun and have no result: done alone, later, or not any more."""
        self._letters: Final[list[DeadLetter]] = []
        """Of records that are not judged any more."""
        self._derived: Final[list[RecordRow]] = []
        """Those of them that no store has yet."""
        self._records: Final[list[RecordRow]] = waiting
        self._postponed: Final[list[RecordRow]] = []
        self._left: Final = deque(self._parts(self._traces))
        self._postponed_traces: Final[list[TraceKey]] = []

    def __bool__(self) -> bool:
        """True while something is left to be taken up that is not postponed."""
        return bool(self._records or self._left)

    @property
    def waiting(self) -> int:
        """Accepted records that are still to be taken up."""
        return len(self._records) + len(self._postponed)

    @property
    def is_postponed(self) -> bool:
        """True while something is postponed, as processes have ended by it."""
        return bool(self._postponed or self._postponed_traces)

    def low_seq(self, other: int) -> int:
        """The oldest commit that is needed for what is left, unless another one is older."""
        return min(self._low_seq, other) if self or self.is_postponed else other

    def fill(self, commit: Commit) -> None:
        """Write what is not judged any more into a commit."""
        commit.letters += self._letters
        commit.records += self._derived
        self._letters.clear()
        self._derived.clear()

    def step(self, wait: Callable[[RecordRow], None], now: float) -> None:
        """Take up what is left: all records, and some traces.

        Args:
            wait: Lets a record wait.
            now: The time of the join.

        Raises:
            TransientError: The store cannot be read now; it may be called again.
        """
        is_over = self._clock() >= self._began + POSTPONED_S
        if is_over and self._postponed_traces:
            self._left.extend(self._parts(self._postponed_traces))
            self._postponed_traces.clear()
        if is_over and self._postponed:
            for row in self._postponed:
                wait(row)
            self._postponed.clear()
        while self._records:
            row = self._records[-1]
            if self.begun.is_poison(row.space, row.uid):
                self._letters.extend(letter_of_record(each, *POISON) for each in self._whole(row))
                self.begun.done(row.space, [row.uid])
            elif self.begun.is_postponed(row.space, row.uid) and not is_over:
                self._postponed.append(row)
            else:
                wait(row)
            self._records.pop()
        if self._left:
            self._take_up(self._left[0], now, is_over=is_over)
            self._left.popleft()

    def _whole(self, row: RecordRow) -> Iterable[RecordRow]:
        """A record with its context, if there is memory to read it."""
        keys = [(row.seq, row.uid)]
        try:
            return self._store.records_at(row.space, keys).values()
        except NoMemoryError:
            return self._store.records_at(row.space, keys, has_contexts=False).values()

    def _take_up(self, part: list[TraceKey], now: float, *, is_over: bool) -> None:
        space = part[0][0]
        places = [TracePlace(trace_id) for _, trace_id in part]
        found = {
            (trace_id, *each)
            for trace_id, spans in self._store.spans_at(space, places, LAST, LAST).found.items()
            for each in self._deriver.selected(
                space,
                trace_id,
                [span for span in spans if not is_log_event(span)],
                self._traces[space, trace_id].last_seq,
                self._join.aliases((space, trace_id)),
            )
        }
        there = self._store.stored_records(space, [uid for *_, uid in found])
        for trace_id, alias, profile_uid, uid in found:
            key = (space, trace_id)
            if uid in there:
                continue
            if self.begun.is_poison(space, uid):
                self._put_aside(self._deriver.bare(space, trace_id, profile_uid, self._now_ns()))
                self.begun.done(space, [uid])
            elif self.begun.is_postponed(space, uid) and not is_over:
                self._postponed_traces.append(key)
            else:
                self._join.reopen(key, self._low_seq, now)
                self._join.watch(key, alias, profile_uid, uid, now)

    def _put_aside(self, row: RecordRow | None) -> None:
        if row is not None:
            self._derived.append(row)
            self._letters.append(letter_of_record(row, *POISON))

    def _parts(self, keys: Iterable[TraceKey]) -> Iterator[list[TraceKey]]:
        by_space: dict[str, list[TraceKey]] = {}
        for key in keys:
            by_space.setdefault(key[0], []).append(key)
        for own in by_space.values():
            yield from split(own, lambda key: (1, self._traces[key].spans), (_TRACES, _SPANS))
