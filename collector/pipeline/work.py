"""The pipeline's work, without its thread: take what was committed, decide what is ready."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from collector.pipeline.evaluate.begun import Evaluating, RecordKey
from collector.pipeline.evaluate.commit import Evaluations, EvaluationWriter
from collector.pipeline.evaluate.decide import Decider
from collector.pipeline.evaluate.records import judge_early
from collector.pipeline.join.input_clock import InputClock, Via
from collector.pipeline.join.join import Join
from collector.pipeline.join.joined_trace import Need, Share, Waiting, share_of
from collector.pipeline.join.parked import Parked
from collector.pipeline.join.read_back import ReadBack, traces_of
from collector.pipeline.revise.late import LateSpans
from collector.pipeline.sessions.work import SessionWork
from collector.pipeline.watch.work import WatchWork
from collector.storage.port.store import Store
from collector.store.erase import Erased, EraseTarget
from collector.store.letters import LettersRemoved
from collector.store.limits import NoMemoryError, TooLargeError
from collector.store.rows import (
    EvaluationRow,
    RecordPlace,
    RecordRow,
    RecordsAppended,
    Scope,
    SpansAppended,
    TraceKey,
)
from collector.worker.answers import Answered
from collector.worker.behind import NOTHING, BehindWatch
from collector.worker.kept_values import parts_of_rows
from collector.worker.late_window import LateWindow
from collector.worker.measures import WorkerMeasures
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.progress import Progress
from collector.worker.records import TraceView
from collector.worker.revision import Revision
from collector.worker.times import JoinTimes
from collector.worker.turns import until
from scouter.errors import TransientError
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.log_event import is_evidence, is_log_event

_log: Final = logging.getLogger(__name__)
_READ_AGAIN_S: Final = 1.0
_STEP_S: Final = 0.5
"""For turns, before what came in meanwhile is looked at."""
_EARLY_S: Final = 0.1
"""For a look at traces that memory lets go."""

Observer = Callable[[Sequence[EvaluationRow], Sequence[float]], None]
"""Is told of stored evaluations that are the first ones, or the first ones that are decided, and of
the seconds that each record had waited for its trace."""


class PipelineWork:
    """Owns the join; to be used by one thread.

    Args:
        store: Takes evaluations; traces are read back from it.
        registry: Finds the profile of a record.
        join: An empty join.
        times: Waiting times of the join.
        memory_records: Waiting records that the join gets; see `Parked`.
        inputs: The join's time.
        measures: Metrics of the work.
        observers: Told of every stored first evaluation.
        on_pending: Told that an evaluation was stored of which some tasks are pending.
        stopping: Once set, a store that takes nothing is given up.
        clock: Monotonic seconds, for latencies and turns.
        now_ns: Wall clock.
        progress: Told of the records that were decided.
        evaluating: Told of the records that are being evaluated.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        join: Join,
        times: JoinTimes,
        *,
        memory_records: int,
        inputs: InputClock,
        measures: WorkerMeasures,
        observers: Sequence[Observer],
        on_pending: Callable[[], None] = lambda: None,
        stopping: threading.Event,
        clock: Callable[[], float],
        now_ns: Callable[[], int] = time.time_ns,
        progress: Progress | None = None,
        evaluating: Evaluating | None = None,
    ) -> None:
        self._store, self._registry, self._join, self._times = store, registry, join, times
        self._inputs, self._measures, self._observers = inputs, measures, tuple(observers)
        self._clock, self._now_ns, self._on_pending = clock, now_ns, on_pending
        self._evaluating = Evaluating(None) if evaluating is None else evaluating
        self._writer = EvaluationWriter(
            store, self._stored, stopping, Progress(clock) if progress is None else progress
        )
        self._back = ReadBack(store, self._writer.insist)
        self._parked = Parked(memory_records)
        self._window = LateWindow(times.late_window_s, inputs.tick(), now_ns())
        self._late = LateSpans(self._window)
        self._looked_at = self._read_again_at = clock()
        self._seq = self._erased_seq = 0
        self.behind: Final = BehindWatch(clock)
        self._watch = WatchWork(
            store, registry, join, self._writer,
            admit=self._admit, take_records=self.take_records, erase=self.erase,
            most=memory_records // 2, clock=clock, now_ns=now_ns,
        )  # fmt: skip
        self._decider = Decider(
            registry, join, self._back, self._writer, self._late, self._evaluating,
            self._watch.deriver,
            inputs=inputs, need=self._need, seq=lambda: self._seq, clock=clock, now_ns=now_ns,
        )  # fmt: skip
        self.sessions: Final = SessionWork(
            store, registry, times,
            late=self._late, writer=self._writer, evaluating=self._evaluating, clock=clock,
            now_ns=now_ns,
        )  # fmt: skip
        """Part of the work that is about sessions."""

    # --- what comes in ----------------------------------------------------------------------

    def resume(self) -> None:
        """Take up the records that an earlier process left waiting; their clocks start anew."""
        self._seq = self._store.last_seq()
        try:
            self._parked.resume(self._store.waiting_count())
        except TransientError as error:
            _log.warning("nobody knows how many records wait: %s", error)
            self._parked.resume(None)
        self._take_parked()
        self.sessions.resume(self._session_time())
        self._watch.resume(self._seq)

    def take_spans(self, appended: SpansAppended, via: Via = Via.DIRECT) -> None:
        """Take spans that are durable."""
        self._seq = appended.seq
        now = self._inputs.tick()
        stored = appended.stored
        if stored and is_log_event(stored[0]):
            stored = tuple(filter(is_evidence, stored))
        self._join.add_spans(
            appended.space, stored, appended.known_traces, now,
            via=via, size_bytes=appended.stored_bytes,
        )  # fmt: skip
        spans = () if stored and is_log_event(stored[0]) else stored  # an event is no span to match
        self._watch.spans_came(appended.space, spans, appended.seq, now)
        touched = {span.trace_id for span in stored}
        self.sessions.spans_came(appended.space, touched, self._session_time())
        self._late.touched(appended.space, touched, appended.seq)
        self._judge_leaving()  # the last, as it may read from the store

    def take_refused(self, space: str, trace_ids: Collection[str], seq: int) -> None:
        """Take note that traces lack a span: evaluations on them are looked at again."""
        self._seq = max(self._seq, seq)
        self.sessions.spans_came(space, trace_ids, self._session_time())
        self._late.touched(space, trace_ids, seq)

    def take_records(self, appended: RecordsAppended, via: Via = Via.DIRECT) -> None:
        """Take records that are durable."""
        self._seq = appended.seq
        now, even = self._inputs.tick(), self._even_time()
        for accepted in appended.accepted:
            is_whole = accepted.profile_uid and not accepted.lacks_session
            row = accepted if is_whole else replace(accepted, seq=appended.seq)
            place = RecordPlace(appended.seq, row.space, row.uid)
            if self._parked.has_taken(place):
                self._need(row, is_new=bool(row.profile_uid))
                continue
            need = self._need(row)
            share = share_of(need)
            waiting = self._join.waiting_of(share)
            if need is Need.NOTHING or not self._parked.turns_away(
                place, via, share, waiting, even
            ):
                is_first = row.trace_id in appended.new_traces
                self._join.add_record(row, need, now, via=via, is_first=is_first)
        self._watch.records_came(appended.accepted)

    def admit_again(self, letter_id: str, row: RecordRow) -> LettersRemoved:
        """Remove a dead letter, and let its record wait again.

        One thread does this and reads what is parked: else the record could be taken twice.

        Raises:
            TransientError: The store takes nothing now.
        """
        removed = self._store.remove_dead_letters(row.space, [letter_id]).result()
        if removed.letter_ids:
            self._join.add_record(row, self._need(row), self._inputs.tick())
        return removed

    def revise(self, revisions: Sequence[Revision]) -> frozenset[str]:
        """Store evaluations of another version of a profile, each behind the one before.

        One thread does this and evaluates again: else one of two revisions would be lost. A
        revision from before the last erasure is passed over, as it may quote erased data.

        Returns:
            Uids of the records and sessions whose latest evaluation is still the one before.

        Raises:
            TransientError: The store takes nothing now.
        """
        self._writer.flush()
        latest = self._store.latest_evaluations([each.key for each in revisions])
        found: list[Revision] = []
        for each in revisions:
            before = latest.get(each.key)
            may_hold_erased = each.row.input_seq < self._erased_seq
            if before and before.revision + 1 == each.row.revision and not may_hold_erased:
                found.append(each)
        rows = [each.row for each in found]
        for part in parts_of_rows(rows):
            self._store.append_evaluations(part).result()
        self._tell_of_pending(rows)
        self._late.judged([key for each in found for key in each.traces])
        for each in found:
            # Nobody has watched traces since they were read that no evaluation had read before.
            if each.row.input_seq < self._seq and not latest[each.key].reads_spans:
                self._late.touched(each.row.space, each.trace_ids, self._seq)
        return frozenset(row.record_uid for row in rows)

    def settle(self, answers: Sequence[Answered]) -> list[bool]:
        """Store pending evaluations with a judge's answers, each as the next revision.

        One thread does this and evaluates again, as for `revise`. The answers may quote data that
        was erased since the question was made.

        Args:
            answers: At most one for each record or session.

        Returns:
            False for each whose evaluation is another one now, or may have held what was erased: it
            is to be looked at again. True for the others: stored, or dropped as the record is gone.

        Raises:
            TransientError: The store takes nothing now.
        """
        self._writer.flush()
        latest = self._store.latest_evaluations([each.key for each in answers])
        now_ns, settled = self._now_ns(), list[bool]()
        rows: list[EvaluationRow] = []
        for each in answers:
            before = latest.get(each.key)
            is_latest = before is not None and before.evaluation_id == each.before.evaluation_id
            if is_latest and each.read_seq >= self._erased_seq:
                rows.append(each.revision(now_ns))
                settled.append(True)
            else:
                settled.append(before is None)
        waits = [0.0] * len(rows)
        self._writer.put(
            Evaluations(rows=rows, waits_s=waits, ready_at=self._clock(), is_answered=True)
        )
        self._writer.flush()
        return settled

    def erase(self, target: EraseTarget) -> Erased:
        """Take something out of the store, and forget what waits of it.

        The thread that judges does this: no evaluation on what goes is in the making then.

        Raises:
            TransientError: The store takes nothing now.
        """
        if not self._store.catch_up():
            raise TransientError(self._store.fault() or "the store is behind", 5)
        self._writer.flush()
        erased = self._store.erase(target).result()
        self._erased_seq = self._store.last_seq()
        self._join.erase(erased.space, erased.uids, erased.traces)
        self._decider.reopened.difference_update((erased.space, uid) for uid in erased.uids)
        return erased

    def take_profiles(self) -> None:
        """Look again at records of unknown profiles; observers know all evaluations then."""
        self._writer.flush()
        now = self._inputs.tick()
        for ready in self._join.take_unknown(now):
            self._join.add_again(ready, self._need(ready.record), now)

    def take_judged(
        self, earlier: Callable[[str], bool], late: Iterable[TraceKey], seq: int, ended_ns: int
    ) -> None:
        """Take what the store knows about traces evaluated by earlier processes, and their end."""
        self._window.ended(ended_ns)
        self._late.loaded(earlier, late, seq)

    # --- what follows from it ---------------------------------------------------------------

    def step(self) -> bool:
        """Re-open what late spans make doubtful, and decide what is ready; not for long.

        Spaces take turns, so that each of them waits for the others by some turns at most.

        Returns:
            True if nothing is left that could be done now.

        Raises:
            TransientError: The store cannot be read or written now; call it again later.
        """
        is_late = until(self._clock, _STEP_S)
        self._window.run(self._even_time(), self._now_ns())
        self._watch.step(self._inputs.tick(), is_late)
        self._reopen(is_late)
        self._take_parked()
        self._load()
        self._join.look(self._inputs.tick())
        while self._join.has_due:
            self._decider.turn()
            if is_late():
                break
        self.sessions.decide(self._session_time(), self._seq, is_late)
        self._writer.flush()
        self._watch.note()
        self._look_behind()
        return not (self._is_at_work or self._join.has_due)

    def next_step_s(self) -> float:
        """Seconds until `step` has something to do, at most; without, so that time runs."""
        if self._is_at_work:
            return 0.0
        waits = [self._inputs.max_step_s / 2]
        now = self._inputs.tick()
        for due, time_s in (
            (self._join.next_due(), now),
            (self.sessions.next_due(), self._session_time()),
        ):
            if due is not None:
                waits.append(max(0.0, due - time_s))
        if self._late.pending():
            waits.append(max(0.0, self._looked_at + self._look_every_s - self._clock()))
        if self._wanted():
            waits.append(max(0.0, self._read_again_at - self._clock()))
        return min(waits)

    # --- inside -----------------------------------------------------------------------------

    @property
    def _is_at_work(self) -> bool:
        """True if something is left to do that no appointment of the join tells of."""
        is_at_work = self._watch.is_recovering or self.sessions.has_due
        return is_at_work or bool(self._join.unloaded())

    def _look_behind(self) -> None:
        """Have it noticed if what is due waits for long."""
        due = self._join.due(self._inputs.tick())
        for space, each in self.sessions.due(self._session_time()).items():
            due[space] = each.plus(due.get(space, NOTHING))
        self.behind.look(due, self._parked.due(self._even_time(), self._times.deadline_s))

    @property
    def _look_every_s(self) -> float:
        return min(self._times.settle_s, 0.25)

    def _session_time(self) -> float:
        """The time of sessions: it stands still with any source that could bring more of one."""
        return self._inputs.tick() - self._inputs.held_s(Via.UNKNOWN)

    @property
    def waiting(self) -> int:
        """Records without a stored evaluation, in memory or not."""
        in_hand = self._decider.in_hand + self._writer.in_flight
        return self._join.waiting + self._parked.count + in_hand

    def _even_time(self) -> float:
        """The time that runs while no broker lags."""
        return self._inputs.tick() - self._inputs.held_s(Via.BROKER)

    def _wanted(self) -> int:
        """Number of parked records for which there is room now."""
        is_held = bool(self._inputs.behind())
        return self._parked.wanted(self._join.waiting_of(Share.STORED), is_held=is_held)

    def _take_parked(self) -> None:
        """Read some records that memory had no room for, if it has."""
        wanted = self._wanted()
        if not wanted or self._clock() < self._read_again_at:
            return
        self._writer.flush()  # what is decided is read as decided
        try:
            page = self._store.waiting_records(wanted, self._parked.read_to)
        except TransientError as error:  # the others go on meanwhile
            _log.warning("records that wait in the store cannot be read now: %s", error)
            self._read_again_at = self._clock() + _READ_AGAIN_S
            return
        inside = self._join.record_keys()
        now, even = self._inputs.tick(), self._even_time()
        taken = 0
        for each in page:
            row, place = each.record, each.place
            if _key(row) in inside:
                continue
            # Its session waits since it came, unless nobody knew then that there is one.
            need = self._need(row, is_new=not row.profile_uid)
            came_at = now - (even - self._parked.came_at(place, even))
            self._join.add_stored(each, need, came_at, self._parked.via_of(place))
            taken += 1
        self._parked.read([each.place for each in page], wanted, taken)

    def _need(self, row: RecordRow, *, is_new: bool = True) -> Need:
        """Say what a record waits for, and let its session wait where the profile is known."""
        registered = self._registry.of_record(row)
        if registered is None:
            _log.warning(
                "records name the profile %.200r, which is not registered; they wait until the "
                "deadline, then they are dead letters. Start with --profile FILE, the same file as "
                "the agent's", row.profile_ref,
            )  # fmt: skip
            return Need.PROFILE
        plan = registered.profile.plan
        reads = plan.reads_spans or row.is_derived
        reads |= row.lacks_session and plan.session is not None
        need = Need.TRACE if reads and row.trace_id is not None else Need.NOTHING
        if is_new and not (row.lacks_session and need is Need.TRACE):
            self._admit(row, registered)  # else once its trace has said which one it is
        return need

    def _admit(self, row: RecordRow, registered: RegisteredProfile) -> None:
        self.sessions.admit(row, registered, self._session_time())

    def _load(self) -> None:
        """Read some traces of each space; the others when all had their turn."""
        join = self._join
        for space, ids in list(join.unloaded().items()):
            part = next(traces_of(ids, lambda id, of=space: join.to_load((of, id))))
            self._load_part(space, part)

    def _load_part(self, space: str, part: Sequence[str]) -> None:
        try:
            found = self._store.spans_of(space, part)
        except NoMemoryError as error:
            if len(part) > 1:
                self._load_part(space, part[: len(part) // 2])
                self._load_part(space, part[len(part) // 2 :])
                return
            if not isinstance(error, TooLargeError):
                raise
            self._join.load_none((space, part[0]), self._inputs.tick())
            return
        now = self._inputs.tick()
        for trace_id in part:
            self._join.load((space, trace_id), found.get(trace_id, ()), now)
        self._judge_leaving()

    def _judge_leaving(self) -> None:
        """Evaluate records whose trace would have to be read back; they wait on with the result.

        It saves time, so it takes little: what it does not get to is read back.
        """
        groups: defaultdict[tuple[str, str], list[Waiting]] = defaultdict(list)
        profiles: dict[str, RegisteredProfile] = {}
        views: dict[TraceKey, TraceView] = {}
        leaves = self._join.leaving()
        read = self._back.contexts(leaves)
        lost = self._back.lost(each.key for each in leaves)
        for leaving in leaves:
            view = TraceView.of(SpanTree(leaving.spans, lost=lost.get(leaving.key, "")))
            for waiting in leaving.waiting:
                row = waiting.record
                registered = self._registry.of_record(row)
                is_suspect = self._evaluating.is_suspect(_key(row))
                is_whole = waiting.is_whole or _key(row) in read
                if registered is not None and is_whole and not is_suspect:
                    profiles[registered.uid] = registered
                    groups[row.space, registered.uid].append(waiting)
                    views[row.space, row.trace_id or ""] = view
        for (space, uid), items in groups.items():
            rows = [read.get((space, each.record.uid), each.record) for each in items]
            seen = {id: view for (of, id), view in views.items() if of == space}
            try:
                with self._evaluating.noted([_key(row) for row in rows]):
                    results = judge_early(rows, profiles[uid], seen, until(self._clock, _EARLY_S))
            except Exception:  # noqa: BLE001, S112 the evaluation will tell whose fault it is
                continue
            for waiting, early in zip(items, results, strict=False):  # some, if it takes long
                self._join.keep(waiting, early)

    def _reopen(self, is_late: Callable[[], bool]) -> None:
        """Let records wait again whose evaluations have not seen all spans.

        Each waits by the rules of the join, so that it is evaluated at most once per settle time.

        Args:
            is_late: Leaves the rest for another time; some are always looked at.
        """
        pending = self._late.pending()
        if not pending or self._clock() < self._looked_at + self._look_every_s:
            return
        self._looked_at = self._clock()
        by_space: defaultdict[str, list[str]] = defaultdict(list)
        for space, trace_id in pending:
            by_space[space].append(trace_id)
        since_ns, reopened = self._window.since_ns(), self._decider.reopened
        for space, trace_ids in by_space.items():
            for part in traces_of(trace_ids):
                for each in self._store.evaluated_records(space, part):
                    key = (space, each.record.uid)
                    is_behind = each.input_seq <= pending[space, each.record.trace_id or ""]
                    if is_behind and each.evaluated_ns >= since_ns and key not in reopened:
                        reopened.add(key)
                        self._join.add_evaluated(each, self._inputs.tick())
                self.sessions.reopen(space, part, pending, since_ns, self._session_time())
                self._late.done((space, trace_id) for trace_id in part)
                if is_late():
                    return

    def _stored(self, evaluations: Evaluations) -> None:
        if not evaluations.is_answered:
            self.behind.judged(len(evaluations.rows))
            latency_s = self._clock() - evaluations.ready_at
            self._measures.latency.observe([latency_s] * len(evaluations.rows))
            again = [row.scope for row in evaluations.rows if row.revision > 1]
            self._measures.reopened.inc(again.count(Scope.RECORD))
            self._measures.sessions_reopened.inc(again.count(Scope.SESSION))
        self._tell_of_pending(evaluations.rows)
        first = [
            (row, wait_s)
            for row, wait_s in zip(evaluations.rows, evaluations.waits_s, strict=True)
            if row.revision == 1 or row.is_first_decided
        ]
        if first:
            rows, waits = zip(*first, strict=True)
            for observer in self._observers:
                observer(rows, waits)

    def _tell_of_pending(self, rows: Iterable[EvaluationRow]) -> None:
        if any(row.pending for row in rows):
            self._on_pending()


def _key(row: RecordRow) -> RecordKey:
    return row.space, row.uid
