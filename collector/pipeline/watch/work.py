"""The part of the pipeline's work that is about traces that profiles watch."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from collector.metrics import WATCHED_TO
from collector.pipeline.evaluate.commit import EvaluationWriter
from collector.pipeline.join.derive import Admit, Deriver
from collector.pipeline.join.join import Join
from collector.pipeline.join.read_back import traces_of
from collector.storage.port.work import WorkStore
from collector.store.erase import EraseTarget
from collector.store.rows import RecordRow, RecordsAppended
from collector.worker.profiles import ProfileRegistry
from collector.worker.trees import read_trees
from collector.worker.watch import Watcher
from scouter.model.span import Span

_NOTE_S: Final = 1.0
"""Between two notes of how far watched traces were derived: each is a commit."""


class WatchWork:
    """Lets records wait that are to be derived from traces; to be used by one thread.

    Args:
        store: Holds spans and records.
        registry: Finds the profiles that watch a trace.
        join: Holds the records until their traces are complete.
        writer: Waits for the store.
        admit: Lets the session of a record wait.
        take_records: Takes records that were accepted before their traces are complete.
        erase: Takes something out of the store and out of memory.
        most: Traces that wait in memory.
        clock: Monotonic seconds.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: WorkStore,
        registry: ProfileRegistry,
        join: Join,
        writer: EvaluationWriter,
        *,
        admit: Admit,
        take_records: Callable[[RecordsAppended], None],
        erase: Callable[[EraseTarget], object],
        most: int,
        clock: Callable[[], float],
        now_ns: Callable[[], int],
    ) -> None:
        self._store, self._registry, self._join, self._admit = store, registry, join, admit
        self._take_records, self._erase, self._most = take_records, erase, max(1, most)
        self._clock, self._now_ns = clock, now_ns
        self._watcher = Watcher(registry)
        forget = join.forget_watched
        self.deriver: Final = Deriver(store, registry, self._watcher, writer, admit, forget)
        """Makes the records once their traces are complete."""
        self._noted, self._noted_at = 0, clock() - _NOTE_S
        self._first_seq = 0
        self._is_recovered = False
        self._left: deque[tuple[str, dict[str, int]]] | None = None
        """Traces that an earlier process left behind; None before they are asked for."""
        self._superseded: defaultdict[str, set[str]] = defaultdict(set)
        """Derived records, by space, in whose place others came."""

    def resume(self, seq: int) -> None:
        """Begin behind what earlier processes derived.

        Args:
            seq: The last commit.
        """
        self.deriver.resume()
        self._first_seq = seq
        self._noted = self._store.totals().get(WATCHED_TO, 0)
        self._watcher.saw(self._noted or seq)

    def spans_came(self, space: str, spans: Iterable[Span], seq: int, now: float) -> None:
        """Look at spans that were stored.

        Args:
            space: Their space.
            spans: Those that are new, or better than before.
            seq: Their commit.
            now: The join's time.
        """
        self._look(space, spans, seq, now)
        self._watcher.saw(seq)

    def records_came(self, rows: Iterable[RecordRow]) -> None:
        """Take note of accepted records in whose favour derived ones go."""
        for space, uids in self.deriver.rivals(rows).items():
            self._superseded[space] |= uids

    @property
    def is_recovering(self) -> bool:
        """True while not all is looked at that an earlier process left behind."""
        return not self._is_recovered

    def step(self, now: float, is_late: Callable[[], bool]) -> None:
        """Take up what an earlier process left behind, and take out what is superseded.

        Args:
            now: The join's time.
            is_late: Leaves the rest of the former for the next step; some is always taken up.

        Raises:
            TransientError: The store cannot be read or written now.
        """
        if not self._is_recovered:
            self._is_recovered = self._recover(now, is_late)
        while self._superseded:
            space, uids = next(iter(self._superseded.items()))
            for row in self._store.records_of(space, uids):
                registered = self._registry.of_record(row)
                if registered is not None:
                    self._admit(row, registered)  # the rest of its session is evaluated anew
            self._erase(EraseTarget(space=space, superseded=tuple(sorted(uids))))
            del self._superseded[space]

    def note(self) -> None:
        """Have the store know up to which commit no trace is left that is to be derived."""
        if not self._is_recovered:
            return
        done_to = self._watcher.done_to
        is_due = self._clock() >= self._noted_at + _NOTE_S
        if is_due and done_to > self._noted and self._registry.watching_spaces():
            self._noted_at = self._clock()
            self._store.add_totals({WATCHED_TO: done_to - self._noted})
            self._noted = done_to

    def _look(self, space: str, spans: Iterable[Span], seq: int, now: float) -> None:
        if self._registry.watching(space) is None:
            return
        by_trace: defaultdict[str, list[Span]] = defaultdict(list)
        for span in spans:
            by_trace[span.trace_id].append(span)
        now_ns = self._now_ns()
        beyond: list[RecordRow] = []
        for trace_id, own in by_trace.items():
            known = self._join.watched_by((space, trace_id))
            for registered in self._watcher.selected(space, trace_id, own, seq, known):
                row = self._watcher.row(registered, trace_id, seq, now_ns)
                self._watcher.opened(row)
                if self._join.watched < self._most:
                    self._join.add_watched(row, now)
                else:  # the store has room for any number of records that wait
                    self._join.note_watched((space, trace_id), row.alias)
                    beyond.append(row)
        appended = self.deriver.accept(beyond) if beyond else None
        if appended is not None and appended.accepted:
            self._take_records(appended)

    def _recover(self, now: float, is_late: Callable[[], bool]) -> bool:
        """Look at the spans that an earlier process left behind the place that it noted.

        Returns:
            True once all of them were looked at.
        """
        if self._left is None:
            self._left = deque(self._left_behind())
        while self._left:
            space, last = self._left[0]
            for trace_id, tree in read_trees(self._store, space, list(last)).items():
                self._look(space, tree.spans, last[trace_id], now)
            self._left.popleft()
            if self._left and is_late():
                return False
        self._watcher.saw(self._first_seq)
        if self.deriver.has_derived:
            for space, uid in self._store.superseded_records():
                self._superseded[space].add(uid)
        return True

    def _left_behind(self) -> Iterator[tuple[str, dict[str, int]]]:
        """The traces with such spans, in parts, with the last commit of each."""
        spaces = self._registry.watching_spaces()
        if not spaces or not self._noted:
            return
        after = max(self._noted, self._registry.watching_since())
        by_space: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for each in self._store.new_traces(after):
            if each.space in spaces:
                by_space[each.space][each.trace_id] = each.seq
        for space, last in by_space.items():
            for part in traces_of(last):
                yield space, {trace_id: last[trace_id] for trace_id in part}
