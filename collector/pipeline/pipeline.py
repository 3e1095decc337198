"""One thread that joins what was committed, judges what is ready and stores the evaluations."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry

from collector.pipeline.evaluate.begun import Evaluating
from collector.pipeline.join.input_clock import InputClock, Via
from collector.pipeline.join.join import Join
from collector.pipeline.work import Observer, PipelineWork
from collector.storage.port.store import Store
from collector.store.erase import Erased, EraseTarget
from collector.store.letters import LettersRemoved
from collector.store.rows import RecordRow, RecordsAppended, SpansAppended, TraceKey
from collector.worker.answers import Answered
from collector.worker.behind import Backlog
from collector.worker.measures import WorkerMeasures
from collector.worker.profiles import ProfileRegistry
from collector.worker.progress import Progress
from collector.worker.revision import Revision
from collector.worker.times import JoinTimes
from scouter.errors import TransientError

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)
RETRY_S: Final = 1.0
PAUSE_S: Final = 0.1
"""Between two rounds: a commit for every few evaluations takes the store's time from the receivers.
A message whose sender waits for the answer ends the pause."""
_LONG_S: Final = 0.5
"""After a round that took so long enough came in meanwhile; there is no pause then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProfilesChanged:
    """Profiles were registered or activated: records may wait for them, and alerts follow."""

    seen: "Future[None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _JudgedLoaded:
    """Message that the traces evaluated by earlier processes are known."""

    traces: Callable[[str], bool]
    late: Sequence[TraceKey]
    seq: int
    ended_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Came:
    """Something that was committed, and the way that it came."""

    appended: SpansAppended | RecordsAppended
    via: Via


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused:
    """Spans of some traces were refused."""

    space: str
    trace_ids: frozenset[str]
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """An accepted record that became a dead letter is to wait again."""

    letter_id: str
    row: RecordRow
    removed: "Future[LettersRemoved]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Revised:
    """Another version of a profile has evaluated records or sessions."""

    revisions: Sequence[Revision]
    stored: "Future[frozenset[str]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settle:
    """A judge has answered for pending evaluations."""

    answers: Sequence[Answered]
    settled: "Future[list[bool]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Erase:
    """Something is to be erased."""

    target: EraseTarget
    erased: "Future[Erased]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unerased:
    """Something is to be done while nothing is erased."""

    action: Callable[[], object]
    done: "Future[Any]"


_Message = (
    _Came
    | _Refused
    | _ProfilesChanged
    | _JudgedLoaded
    | _Again
    | _Revised
    | _Settle
    | _Erase
    | _Unerased
)
_AWAITED: Final = (_ProfilesChanged, _Again, _Revised, _Erase, _Unerased)
"""Somebody waits for the answer."""


class Pipeline:
    """Other threads only put into its inbox, and never wait for it.

    Args:
        store: Takes evaluations; traces are read back from it.
        registry: Finds the profile of a record.
        times: Waiting times of the join.
        memory_spans: Spans that the join keeps.
        memory_bytes: Bytes of contexts of waiting records that the join keeps.
        memory_records: Waiting records that it keeps; see `Parked`.
        span_bytes: Bytes of spans that the join keeps.
        max_hold_s: Longest time that a broker that is away holds up records that may not need it.
        observers: Told of every stored first evaluation, in the pipeline's thread.
        on_profiles: Told in the same thread that profiles changed, when the observers know every
            evaluation that is stored.
        on_pending: Told in the same thread that an evaluation was stored of which some tasks are
            pending.
        folder: Keeps a note of the records that are being evaluated; see `Evaluating`.
        drain_s: Time for evaluations that are due when the pipeline is told to stop.
        measures: Metrics of the work; by default they are shown nowhere.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        *,
        times: JoinTimes,
        memory_spans: int,
        memory_bytes: int = 32 * 2**20,
        memory_records: int = 30_000,
        span_bytes: int = 64 * 2**20,
        max_hold_s: float = 3600.0,
        observers: Sequence[Observer] = (),
        on_profiles: Callable[[], None] = lambda: None,
        on_pending: Callable[[], None] = lambda: None,
        folder: Path | None = None,
        drain_s: float = 10.0,
        measures: WorkerMeasures | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._times, self._on_profiles = store, times, on_profiles
        self.inputs: Final = InputClock(
            clock, max_hold_s=max_hold_s, is_stopped=lambda: bool(store.fault())
        )
        """The join's time; receivers that can lag report to it."""
        self._join = Join(
            times, memory_spans, memory_bytes, span_bytes=span_bytes, held_s=self.inputs.held_s
        )
        self._stopping, self._drain_s = threading.Event(), drain_s
        measures = measures or WorkerMeasures(CollectorRegistry())
        self._progress = Progress(clock)
        self._evaluating = Evaluating(folder)
        self._work = PipelineWork(
            store, registry, self._join, times, memory_records=memory_records,
            inputs=self.inputs, measures=measures, observers=observers, on_pending=on_pending,
            stopping=self._stopping, clock=clock, progress=self._progress,
            evaluating=self._evaluating,
        )  # fmt: skip
        measures.queued.set_function(lambda: self._queued)
        measures.reopened_waiting.set_function(lambda: self._join.reopened)
        measures.watched_waiting.set_function(lambda: self._join.watched)
        measures.sessions_waiting.set_function(lambda: self._work.sessions.waiting)
        measures.stalled.set_function(self._progress.stalled_s)
        measures.due.set_function(lambda: self.backlog().due.number)
        measures.due_oldest.set_function(lambda: self.backlog().due.oldest_s)
        measures.due_bytes.set_function(lambda: self.backlog().due.size_bytes)
        measures.is_behind.set_function(lambda: self.backlog().is_behind)
        measures.is_catching_up.set_function(lambda: self.backlog().is_catching_up)
        measures.is_caught_up.set_function(lambda: not self.inputs.behind())
        self._inbox: deque[_Message] = deque()
        self._queued = self._queued_records = self._first_seq = 0
        self._wake = threading.Condition()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scouter-pipeline")
        self._loader = threading.Thread(target=self._load_judged, name="scouter-pipeline-judged")

    @property
    def waiting(self) -> int:
        """Records that were accepted and have no stored evaluation, wherever they wait."""
        return self._work.waiting + self._queued_records

    def fault(self) -> str:
        """Reason that no evaluation was made for too long; empty if one was, or none is due."""
        if self._thread.ident is None or self._thread.is_alive() or self._stopping.is_set():
            return self._progress.fault()
        return "the thread that judges has ended"

    @property
    def queued(self) -> int:
        """Spans and records that were committed but not looked at yet."""
        return self._queued

    def backlog(self) -> Backlog:
        """What is due and waits, as it was seen last."""
        return self._work.behind.backlog

    def start(self) -> None:
        """Take up the records that an earlier process left waiting, then run."""
        self._first_seq = self._store.last_seq()
        self._work.resume()
        self._thread.start()
        self._loader.start()

    def stop(self) -> None:
        """Evaluate records that are ready, then end; the next start takes up those that wait."""
        self._stopping.set()
        self._hurry.set()
        with self._wake:
            self._wake.notify()
        for thread in (self._thread, self._loader):
            if thread.is_alive():
                thread.join()
        self._evaluating.close()

    def spans_appended(self, appended: "Future[SpansAppended]", via: Via = Via.DIRECT) -> None:
        """Callback of a store's future."""
        if appended.exception() is None:
            result = appended.result()
            self._put(_Came(appended=result, via=via), len(result.stored))

    def records_appended(self, appended: "Future[RecordsAppended]", via: Via = Via.DIRECT) -> None:
        """Callback of a store's future."""
        if appended.exception() is None:
            result = appended.result()
            self._put(_Came(appended=result, via=via), len(result.accepted))

    def spans_refused(self, space: str, trace_ids: frozenset[str], stored: "Future[int]") -> None:
        """Callback of a store's future: dead letters say now that traces lack a span."""
        if stored.exception() is None:
            self._put(_Refused(space=space, trace_ids=trace_ids, seq=stored.result()), 1)

    def admit_again(self, letter_id: str, row: RecordRow) -> "Future[LettersRemoved]":
        """Remove a dead letter, and let its record, which was accepted, wait again."""
        removed: Future[LettersRemoved] = Future()
        self._put(_Again(letter_id=letter_id, row=row, removed=removed), 1)
        return removed

    def revise(self, revisions: Sequence[Revision]) -> "Future[frozenset[str]]":
        """Store evaluations of another version of a profile, each behind the one before.

        Returns:
            Uids of the records and sessions whose evaluation was stored; the others got another one
            meanwhile.
        """
        stored: Future[frozenset[str]] = Future()
        self._put(_Revised(revisions=revisions, stored=stored), len(revisions))
        return stored

    def settle(self, answers: Sequence[Answered]) -> "Future[list[bool]]":
        """Store what a judge's answers make of pending evaluations, each the next revision.

        Returns:
            For each whether it is done with; False if it has to be looked at again.
        """
        settled: Future[list[bool]] = Future()
        self._put(_Settle(answers=answers, settled=settled), len(answers))
        return settled

    def erase(self, target: EraseTarget) -> "Future[Erased]":
        """Take something out of the store and out of memory."""
        erased: Future[Erased] = Future()
        self._put(_Erase(target=target, erased=erased), 1)
        return erased

    def while_nothing_is_erased(self, action: Callable[[], T]) -> "Future[T]":
        """Run an action in the thread that erases: the data that it reads stays until it is done.

        Evaluations wait meanwhile; the action must not wait for one.
        """
        done: Future[T] = Future()
        self._put(_Unerased(action=action, done=done), 1)
        return done

    def profiles_changed(self) -> "Future[None]":
        """Look again at records whose profile was not known, and tell who follows profiles."""
        seen: Future[None] = Future()
        self._put(_ProfilesChanged(seen=seen), 0)
        return seen

    def _put(self, message: _Message, size: int) -> None:
        with self._wake:
            self._inbox.append(message)
            self._queued += size
            if isinstance(message, _Came) and isinstance(message.appended, RecordsAppended):
                self._queued_records += size
            self._wake.notify()
        if isinstance(message, _AWAITED):
            self._hurry.set()

    # --- the threads ------------------------------------------------------------------------

    def _run(self) -> None:
        ends_at = float("inf")
        while time.monotonic() < ends_at:
            began, is_last = time.monotonic(), self._stopping.is_set()
            if is_last:
                ends_at = min(ends_at, began + self._drain_s)
            is_done = self._round()
            if is_last and is_done is not False:
                return
            if is_done:
                self._sleep(time.monotonic() - began)

    def _round(self) -> bool | None:
        """Do what is due, for a while; False if something is left, None if it could not be done."""
        self._progress.begin()
        try:
            is_done = self._step()
        except TransientError as error:
            _log.warning("the pipeline has to wait: %s", error)
            self._progress.trouble(str(error))
        except Exception as error:  # noqa: BLE001 the thread outlives any fault; the store has the rest
            _log.exception("a fault in the pipeline; it goes on")
            self._progress.trouble(repr(error))
        else:
            if is_done:
                self._progress.rest()
            return is_done
        self._stopping.wait(RETRY_S)
        return None

    def _sleep(self, took_s: float) -> None:
        if took_s < _LONG_S:
            self._hurry.wait(PAUSE_S)  # what comes in meanwhile is decided and stored together
        with self._wake:
            if self._inbox or self._stopping.is_set():
                return
            timeout = self._work.next_step_s()
            if timeout != 0.0:
                self._wake.wait(timeout)

    def _step(self) -> bool:
        for message in self._drain():
            try:
                self._take(message)
            except Exception:  # noqa: BLE001 one message's fault must not cost the others
                _log.exception("a fault in the pipeline; what it lost is taken up at a start")
        return self._work.step()

    def _drain(self) -> list[_Message]:
        self._hurry.clear()
        with self._wake:
            messages = list(self._inbox)
            self._inbox.clear()
            self._queued = self._queued_records = 0
        return messages

    def _take(self, message: _Message) -> None:
        match message:
            case _Came(appended=appended, via=via):
                if isinstance(appended, SpansAppended):
                    self._work.take_spans(appended, via)
                else:
                    self._work.take_records(appended, via)
            case _ProfilesChanged(seen=seen):
                self._work.take_profiles()
                self._tell_of_profiles(seen)
            case _JudgedLoaded():
                self._work.take_judged(message.traces, message.late, message.seq, message.ended_ns)
            case _Refused():
                self._work.take_refused(message.space, message.trace_ids, message.seq)
            case _Again(removed=removed):
                _answer(removed, lambda: self._work.admit_again(message.letter_id, message.row))
            case _Revised(stored=stored):
                _answer(stored, lambda: self._work.revise(message.revisions))
            case _Settle(settled=settled):
                _answer(settled, lambda: self._work.settle(message.answers))
            case _Erase(erased=erased):
                _answer(erased, lambda: self._work.erase(message.target))
            case _Unerased(done=done):
                _answer(done, message.action)

    def _tell_of_profiles(self, seen: "Future[None]") -> None:
        try:
            self._on_profiles()
        except TransientError as error:
            _log.warning("alerts cannot follow the profiles yet: %s", error)
            self._stopping.wait(RETRY_S)
            self._put(_ProfilesChanged(seen=seen), 0)
        else:
            seen.set_result(None)

    def _load_judged(self) -> None:
        """Learn what earlier processes evaluated, beside everything else."""
        while not self._stopping.is_set():
            try:
                message = self._read_judged()
            except TransientError as error:
                _log.warning("late spans have to wait, the store cannot be read: %s", error)
                self._stopping.wait(RETRY_S)
            else:
                self._put(message, 0)
                return

    def _read_judged(self) -> _JudgedLoaded:
        now_ns = time.time_ns()
        ended_ns = min(now_ns, self._store.stored_until_ns(self._first_seq) or now_ns)
        since_ns = ended_ns - int(self._times.late_window_s * 1e9)
        traces = self._store.judged_traces(since_ns)
        seq = self._store.last_seq()
        late = self._store.late_traces(since_ns)
        return _JudgedLoaded(traces=traces, late=late, seq=seq, ended_ns=ended_ns)


def _answer(future: "Future[T]", action: Callable[[], T]) -> None:
    try:
        future.set_result(action())
    except Exception as error:  # noqa: BLE001 who asked for it is told
        future.set_exception(error)
