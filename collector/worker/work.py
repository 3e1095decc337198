"""The worker's turns: it reads the log in order, joins, judges, and commits results and offset.

A turn reads some entries, decides some of what is due, and commits both together with the offset.
While a commit is on its way the next entries are read. Nothing is in memory alone: a process that
ends at any moment goes on from the store and the offset in it.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from collector.items.limits import Limits
from collector.log.brokers import Brokers
from collector.log.port import Log
from collector.store.commit import Commit
from collector.store.erase import Erased, EraseTarget
from collector.store.rows import RecordRow
from collector.store.store import Store
from collector.worker.arrivals import Arrivals
from collector.worker.behind import Backlog
from collector.worker.committer import Committer
from collector.worker.decide import Decider
from collector.worker.derive import Deriver
from collector.worker.join import Join, Kind
from collector.worker.judge import Judge, Results
from collector.worker.late import LateSpans, LateWindow
from collector.worker.measures import News, Observer, Progress, Shown, WorkerMeasures
from collector.worker.open_trace import JoinTimes, Paused
from collector.worker.parts import Parts
from collector.worker.prepare import Prepared
from collector.worker.profiles import ProfileRegistry
from collector.worker.read import MAX_STEP_S, LogTime, Reader
from collector.worker.recover import POSTPONED_S, Recovery
from collector.worker.revising import Replays, Requests, Revising
from collector.worker.sessions import SessionWork

_log: Final = logging.getLogger(__name__)
_IDLE_S: Final = 0.25
"""Between two looks at the join while nothing comes: its time runs by them."""
_JUDGE_S: Final = 0.5
"""Longest judging of one turn."""
_SHARE: Final = 0.3
"""Judging while entries wait, as a part of the time that reading takes."""
_LIMITS: Final = Limits()


@dataclass(slots=True)
class _Flight:
    """A commit on its way into the store."""

    commit: Commit
    prepared: Prepared
    results: Results
    known_s: float
    """The time of the log up to which its entries reach."""
    paused: Paused
    """The part of it for which the log was behind a broker."""
    done: "Future[int]"
    judged: frozenset[tuple[str, str]]
    """Space and uid of its records that were judged as they came."""


class Work:
    """Takes what the log has into the store, and judges it, turn by turn; used by one thread.

    Args:
        log: Is read from the store's offset on, and trimmed.
        store: Takes everything; no one else commits to it.
        registry: The profiles.
        times: Waiting times of the join.
        clock: Monotonic seconds.
        now_ns: Wall clock.
        limits: Of what the log has; those of the receivers.
        brokers: Says how far the log is behind them; None without any.
        max_hold_s: A broker that has been ahead for so long no longer holds the time of traces of
            which nothing says that they come by a broker.
        max_step_s: Most time that counts between two turns: beyond it the process stood still.
        observers: Notified of every stored first evaluation, in the worker's thread.
        on_profiles: Notified in the same thread that profiles changed, when the observers know
            every evaluation that is stored.
        on_pending: Notified in the same thread that an evaluation was stored of which some tasks
            are pending.
        measures: Counted into by the work; by default nobody sees it.
        sessions: Makes the part that evaluates sessions, at each beginning.
    """

    def __init__(
        self,
        log: Log,
        store: Store,
        registry: ProfileRegistry,
        times: JoinTimes,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
        limits: Limits = _LIMITS,
        brokers: Brokers | None = None,
        max_hold_s: float = 3600.0,
        max_step_s: float = MAX_STEP_S,
        observers: Sequence[Observer] = (),
        on_profiles: Callable[[], None] = lambda: None,
        on_pending: Callable[[], None] = lambda: None,
        measures: WorkerMeasures | None = None,
        sessions: Callable[..., SessionWork] = SessionWork,
    ) -> None:
        self._log, self._store, self._registry, self._times = log, store, registry, times
        self._limits: Final = limits
        self._brokers, self._max_hold_s = brokers or Brokers(clock), max_hold_s
        self._max_step_s: Final = max_step_s
        self._clock, self._now_ns = clock, now_ns
        self._trouble = ""
        self._stopping: Final = threading.Event()
        self._stored: Final = threading.Condition()
        """Notified once a commit is in the store."""
        self._on_profiles: Final = on_profiles
        self._requests: Final = Requests()
        self._replays: Final = Replays()
        self._progress: Final = Progress(clock)
        self._measures: Final = measures or WorkerMeasures(CollectorRegistry())
        self._news: Final = News(observers, on_pending, self._measures, clock)
        self._sessions_of: Final = sessions
        self._committer: Final = Committer(store, log, self._stopping)
        self._deriver: Final = Deriver(registry)
        self._flight: _Flight | None = None
        self._is_idle = False
        self._share_s = 0.0
        """Judging that is owed while entries wait; below 0 what was more than its share."""
        self._begin()

    @property
    def trouble(self) -> str:
        """Reason that nothing goes on now; empty if it does."""
        return self._trouble or self._committer.fault

    def backlog(self) -> Backlog:
        """Due and waiting work, as it was seen last."""
        return self._news.backlog

    @property
    def behind_bytes(self) -> int:
        """Bytes of the log that are not in the store yet."""
        return self._log.end - self._store.offset

    @property
    def is_caught_up(self) -> bool:
        """True while the time of the join runs for all: no broker lags, and the store works."""
        return not (self._brokers.behind_ns() or self.trouble)

    @property
    def waiting(self) -> int:
        """Accepted records without an evaluation, as far as the log was read."""
        return self._join.counts[Kind.ACCEPTED] + self._recovery.waiting

    @property
    def watched(self) -> int:
        """Records that are to be derived from traces once they are complete."""
        return self._join.counts[Kind.WATCHED]

    @property
    def shown(self) -> Shown:
        """What the metrics show of the work now."""
        return Shown(
            reopened_waiting=self._join.counts[Kind.AGAIN],
            watched_waiting=self.watched,
            sessions_waiting=self._sessions.waiting,
            stalled_s=self._progress.stalled_s(),
            backlog=self.backlog(),
            is_caught_up=self.is_caught_up,
        )

    @property
    def is_idle(self) -> bool:
        """True if everything that the log has is stored, and nothing waits."""
        return self._is_idle and self.behind_bytes == 0

    def turn(self, wait_s: float = _IDLE_S) -> bool:
        """Read, decide and commit once.

        Args:
            wait_s: Longest wait for the first entry, where nothing is due.

        Returns:
            True if there was anything to do, or more is left to do at once.
        """
        began = self._clock()
        self._progress.begin()
        prepared = self._read(wait_s)
        known_s, is_behind = self._reader.time.seconds, self._reader.is_behind
        paused = self._reader.time.paused
        self._committer.insist(lambda: prepared.settle(self._store, self._before()))
        # Before the offset says so: counted again it adds nothing.
        self._committer.insist(lambda: prepared.count_drops(self._store, self._now_ns()))
        commit = Commit(offset=self._reader.offset, low_seq=0)
        prepared.fill(commit)
        self._measures.unpriced(commit.spans)
        reading_s = self._clock() - began
        self._land()
        if self._registry.has_news:  # a profile that it has made itself, for a score
            self._registry.has_news = False
            self._requests.put(self._follow_profiles)
        has_answered = self._requests.do(self._store.offset)
        self._recover()
        arriving = self._arrivals.supersede(commit.records, self._known_s)
        # Before the offset says so: a letter that is gone lets no record wait a second time.
        for space, each in prepared.again:
            self._committer.insist(
                lambda of=space, again=each: self._revising.admit_again(of, again, self._wait_again)
            )
        if prepared.is_empty:
            self._know(known_s, paused)
        self._arrivals.reopen(self._known_s, self._known_s - self._join.paused.broker_s)
        results = Results(commit, self._clock())
        until = results.ready_at + _JUDGE_S
        judged = self._decider.as_they_come(prepared, results, until)
        if is_behind:
            self._share_s += _SHARE * reading_s
            if self._share_s > 0:
                self._share_s -= self._decider.decide(
                    results, self._clock(), arriving, self._known_s
                )
        else:
            self._share_s = 0.0
            self._decider.decide(results, until, arriving, self._known_s)
        is_sent = self._send(results, prepared, known_s, paused, judged)
        is_left = is_sent or has_answered or bool(self._recovery) or self._has_due
        is_waiting = self._join or self._recovery.is_postponed or self._sessions.waiting
        self._is_idle = not (is_left or is_waiting)
        if not is_left:
            self._progress.rest()
        if self._news.is_time:
            self._news.look(
                self._join, self._sessions, self._known_s,
                end=self._log.end, stored=self._store.offset,
            )  # fmt: skip
        self._care_less()
        return is_left

    def _know(self, known_s: float, paused: Paused) -> None:
        """Let the time of the join go on."""
        self._known_s, self._join.paused = known_s, paused
        self._sessions.hold(paused)

    @property
    def _has_due(self) -> bool:
        return self._join.has_due or self._sessions.has_due or bool(self._late)

    def _begin_anew(self) -> None:
        """Forget everything once nothing is on its way any more, and take up what the store has."""
        if self._flight is not None:
            wait([self._flight.done])
        self._committer.insist(self._begin)

    def _begin(self) -> None:
        """Take up what the store has: after a start, and where memory cannot be trusted."""
        store, log = self._store, self._log
        self._flight = None
        self._began = self._clock()
        self._reader = Reader(
            log, self._registry, store.offset,
            time=LogTime(self._now_ns, self._max_hold_s, self._max_step_s), clock=self._clock,
            stopping=self._stopping, limits=self._limits, brokers=self._brokers,
        )  # fmt: skip
        self._known_s = 0.0
        """The time of the log up to which the join knows everything."""
        self._join = Join(self._times)
        now_ns = self._now_ns()
        window = LateWindow(self._times.late_window_s, 0.0, now_ns)
        ended_ns = max(store.received_ns, store.decided_until_ns())
        window.ended(min(now_ns, ended_ns or now_ns))
        self._late = LateSpans(store, window)
        self._revising = Revising(
            store, self._committer, self._late, self._news.revised, self._now_ns
        )
        self._sessions = self._sessions_of(
            store, self._registry, self._times, self._late,
            clock=self._clock, now_ns=self._now_ns,
        )  # fmt: skip
        self._recovery = Recovery(
            store, self._registry, self._join, self._deriver, self._late,
            has_items=self._reader.is_behind, clock=self._clock, now_ns=self._now_ns,
        )  # fmt: skip
        self._starts = self._recovery.starts
        self._arrivals = Arrivals(
            store, self._committer, self._revising, self._registry, self._join, self._sessions,
            self._late, self._starts, self._deriver, now_ns=self._now_ns,
        )  # fmt: skip
        self._found_end = log.end
        """End of what the start found in the log."""
        self._found_seq: int | None = store.last_seq() if store.offset >= log.end else None
        """The commit that has all of it; None before that."""
        judge = Judge(store, self._registry, self._late, clock=self._clock, now_ns=self._now_ns)
        parts = Parts(
            store, self._registry, self._join, judge, self._deriver,
            clock=self._clock, now_ns=self._now_ns,
        )  # fmt: skip
        self._decider = Decider(
            self._registry, self._join, parts, judge, self._sessions, self._starts,
            self._committer, clock=self._clock, stopping=self._stopping,
        )  # fmt: skip

    def _read(self, wait_s: float) -> Prepared:
        """Read entries for one commit."""
        reader = self._reader
        is_careful = self._starts.is_careful and reader.is_behind
        if is_careful:
            self._land()
        is_due = self._has_due or bool(self._recovery) or self._flight is not None
        is_due |= self._requests.has_due(self._store.offset)
        times = (self._join.next_due(), self._sessions.next_due())
        due_s = min((each for each in times if each is not None), default=None)
        if is_due:
            wait_s = 0.0
        elif due_s is not None:
            wait_s = min(wait_s, max(0.0, due_s - reader.time.seconds))
        if is_careful:
            is_early = self._clock() < self._began + POSTPONED_S
            return reader.read_with_care(self._starts, self._committer, wait_s, is_early=is_early)
        return self._committer.insist(lambda: reader.read(wait_s))

    def _before(self) -> Prepared | None:
        return None if self._flight is None else self._flight.prepared

    def _care_less(self) -> None:
        """Note nothing any more once all is decided that the start found."""
        found_seq = self._found_seq
        if not self._starts.is_careful or found_seq is None or self._recovery:
            return
        self._starts.times_read(self._reader.offset)
        if self._low_seq() > found_seq:
            self._starts.rest()

    def _low_seq(self) -> int:
        """The oldest commit that is needed, if the one that comes next is stored."""
        low_seq = self._recovery.low_seq(self._join.low_seq(self._store.last_seq() + 1))
        low_seq = self._sessions.low_seq(self._late.low_seq(low_seq))
        return min(low_seq, self._store.low_seq) if self._starts.is_reading else low_seq

    def _erase(self, target: EraseTarget) -> Erased:
        erased = self._replays.erase(lambda: self._revising.erase(target), self._store.offset)
        self._join.forget(erased.space, erased.uids)
        return erased

    def _follow_profiles(self) -> None:
        """Let records wait for their traces that waited for a profile, if it is there now."""
        insist = self._committer.insist
        for waiting in self._join.take_unknown():
            space, keys = waiting.space, [(waiting.seq, waiting.uid)]
            rows = insist(
                lambda of=space, keys=keys: self._store.records_at(of, keys, has_contexts=False)
            )
            self._arrivals.profiles_came(rows.values(), waiting, self._known_s)
        insist(self._on_profiles)

    def _wait_again(self, row: RecordRow) -> None:
        """Let an accepted record wait that was put aside."""
        self._arrivals.again(row, self._known_s)
        self._arrivals.admit(row, self._known_s)

    def _recover(self) -> None:
        """Take up some of what earlier processes left."""

        def wait(row: RecordRow) -> None:
            self._arrivals.again(row, self._known_s)
            if not row.profile_uid:  # its session could not be found open
                self._arrivals.admit(row, self._known_s)

        self._committer.insist(lambda: self._recovery.step(wait, self._known_s))

    # --- committing -------------------------------------------------------------------------

    def _send(
        self,
        results: Results,
        prepared: Prepared,
        known_s: float,
        paused: Paused,
        judged: frozenset[tuple[str, str]],
    ) -> bool:
        """Send a commit on its way, if there is anything in it; says whether there is."""
        commit = results.commit
        self._recovery.fill(commit)
        has_rows = commit.evaluations or commit.letters or commit.records or commit.settled
        low_seq = self._low_seq()
        if prepared.is_empty and not has_rows and commit.offset == self._store.offset:
            if low_seq > self._store.low_seq:
                self._store.need_from(low_seq)
            return False
        commit.low_seq = low_seq
        done = self._committer.send(commit)
        done.add_done_callback(self._tell_waiting)
        self._flight = _Flight(commit, prepared, results, known_s, paused, done, judged)
        return True

    def _tell_waiting(self, _: "Future[int]") -> None:
        """Let those go on who wait for a commit."""
        with self._stored:
            self._stored.notify_all()

    def _land(self) -> None:
        """Wait for the commit on its way, and let the join know what it has stored."""
        flight = self._flight
        if flight is None:
            return
        seq = flight.done.result()
        self._flight = None
        self._trouble = ""
        commit = flight.commit
        self._know(flight.known_s, flight.paused)
        if self._found_seq is None and self._store.offset >= self._found_end:
            self._found_seq = seq
        self._arrivals.stored(flight.prepared, seq, flight.judged, self._known_s)
        for row in flight.results.sessions:
            self._sessions.admit(row, self._known_s)
        if commit.evaluations or commit.letters:
            self._progress.moved()
        self._news.stored(commit.evaluations, flight.results)
