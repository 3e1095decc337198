"""The rest of earlier processes: waiting records, open traces, and judgements that they began.

One of those may have ended the process. A healthy collector writes nothing of this. After a start
that found unfinished work, judgements are noted in the store before they are started. A record that
was noted and has no result is judged alone from then on. Whatever is alone in hand as the process
ends a second time is put aside.

A process may also be ended from outside, again and again. So a record that ended one alone is
tried once more, `POSTPONED_S` after the start: whoever ends a process every second is no record.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from collector.split import split
from collector.store.commit import Commit, RecordId
from collector.store.letters import DeadLetter
from collector.store.reads import LAST, NoMemoryError
from collector.store.rows import RecordRow, TraceKey
from collector.store.span_rows import TracePlace
from collector.store.store import Store
from collector.worker.derive import Deriver
from collector.worker.join import Join
from collector.worker.late import LateSpans
from collector.worker.letters import letter_of_record
from collector.worker.profiles import ProfileRegistry
from scouter.evaluate.engine.sessions import is_session_uid
from scouter.model.log_event import is_log_event

POISON: Final = (
    "poison",
    "the collector's process ended again and again while it was taken or evaluated, so it is put "
    "aside; look at its content and its profile, and replay it to have it tried all the same",
)
"""Reason and message of the letter of what ends processes."""
POSTPONED_S: Final = 2.0
"""Seconds from the start until a record is judged that was alone in hand as a process ended."""
PAUSE_S: Final = 0.05
"""Between two looks at something that is postponed."""
ALONE: Final = 2
"""Number of times that such a record was started: once beside others, once alone."""


def reading(offset: int) -> tuple[str, str]:
    """Space and uid that stand for reading from an offset of the log; no record has them."""
    return "", f"log:{offset}"


class Starts:
    """Judgements that earlier processes began, and those that this one begins.

    Args:
        counts: How often the judgement of each record was started.
        is_unfinished: True if the start found work that was not finished.
    """

    def __init__(self, counts: Mapping[RecordId, int], *, is_unfinished: bool) -> None:
        self._counts: Final = dict(counts)
        self._noted: Final[set[RecordId]] = set()
        self.is_careful = is_unfinished
        """True while judgements are noted before they begin."""

    def is_alone(self, space: str, uid: str) -> bool:
        """Tell whether a record is judged alone."""
        return bool(self._counts) and RecordId(space, uid) in self._counts

    def is_postponed(self, space: str, uid: str) -> bool:
        """Tell whether a record is judged only `POSTPONED_S` after the start."""
        return self._counts.get(RecordId(space, uid), 0) >= ALONE

    def is_poison(self, space: str, uid: str) -> bool:
        """Tell whether a record is not judged any more."""
        return self._counts.get(RecordId(space, uid), 0) > ALONE

    def to_note(self, space: str, uids: Iterable[str]) -> list[RecordId]:
        """The records to note before they are judged; none of a process that is not careful."""
        if not self.is_careful:
            return []
        found = [key for uid in uids if (key := RecordId(space, uid)) not in self._noted]
        self._noted.update(found)
        return found

    def times_read(self, offset: int) -> int:
        """Number of times that processes began to read from an offset, and read no further."""
        key = RecordId(*reading(offset))
        for each in [each for each in self._counts if not each.space and each != key]:
            del self._counts[each]
        return self._counts.get(key, 0)

    @property
    def is_reading(self) -> bool:
        """True while the place is not passed at which an earlier process ended.

        That is a place of the log, or a session: no waiting record stands for either.
        """
        return any(not each.space or is_session_uid(each.uid) for each in self._counts)

    def done(self, space: str, uids: Iterable[str]) -> None:
        """Take note of judgements that ended."""
        for uid in uids if self._counts else ():
            self._counts.pop(RecordId(space, uid), None)

    def rest(self) -> None:
        """Everything that the start found is finished."""
        if not self._counts:
            self.is_careful = False
            self._noted.clear()


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
        late: Is notified of the traces that got spans.
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
        self.starts: Final = Starts(store.started(store.low_seq), is_unfinished=is_unfinished)
        """Evaluations that were started and have no result: done alone, later, or not any more."""
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
            if self.starts.is_poison(row.space, row.uid):
                self._letters.extend(letter_of_record(each, *POISON) for each in self._whole(row))
                self.starts.done(row.space, [row.uid])
            elif self.starts.is_postponed(row.space, row.uid) and not is_over:
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
            if self.starts.is_poison(space, uid):
                self._put_aside(self._deriver.bare(space, trace_id, profile_uid, self._now_ns()))
                self.starts.done(space, [uid])
            elif self.starts.is_postponed(space, uid) and not is_over:
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
