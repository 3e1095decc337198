"""The work as others see it: Prometheus series, whether it moves, and news of what is stored."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from collector.metrics import OTHER
from collector.store.commit import RecordId
from collector.store.rows import EvaluationRow, Scope
from collector.store.span_rows import SpanRow
from collector.worker.behind import NOTHING, Backlog, BehindWatch
from collector.worker.join import Join
from collector.worker.judge import Results
from collector.worker.sessions import SessionWork
from scouter.model.genai.facts import MODEL_CALLS

_MOST_MODELS: Final = 50
"""Senders name models: so many have a series."""
_WAIT_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_LATENCY_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """State of the work on one log."""

    reopened_waiting: int
    watched_waiting: int
    sessions_waiting: int
    stalled_s: float
    backlog: Backlog
    is_caught_up: bool


class WorkerMeasures:
    """Series of the worker.

    Args:
        registry: Shows the metrics.
        priced: Models with a price of one's own.
    """

    def __init__(self, registry: CollectorRegistry, priced: Collection[str] = ()) -> None:
        self._priced: Final = frozenset(priced)
        self._unpriced_names: Final[set[str]] = set()
        self._unpriced = Counter(
            "scouter_model_calls_unpriced",
            "Model calls of unknown cost, since this process started, of 50 models by name.",
            ("space", "model"),
            registry=registry,
        )
        self._join_wait = Histogram(
            "scouter_join_wait_seconds",
            "Time between a record's acceptance and its evaluation, by completeness of its trace.",
            ("completeness",),
            buckets=_WAIT_BUCKETS,
            registry=registry,
        )
        self.latency = Histogram(
            "scouter_evaluation_latency_seconds",
            "Time between a record being ready and its evaluation being durable.",
            buckets=_LATENCY_BUCKETS,
            registry=registry,
        )
        self.reopened = Counter(
            "scouter_records_reopened",
            "Records judged again, since this process started, as spans came after the evaluation.",
            registry=registry,
        )
        self.reopened_waiting = Gauge(
            "scouter_records_reopened_waiting",
            "Records with an evaluation that wait to be judged again.",
            registry=registry,
        )
        self.sessions_reopened = Counter(
            "scouter_sessions_reopened",
            "Sessions judged again, since this process started, as records or spans came later.",
            registry=registry,
        )
        self.sessions_waiting = Gauge(
            "scouter_sessions_waiting",
            "Sessions with records or spans that no evaluation has seen.",
            registry=registry,
        )
        self.watched_waiting = Gauge(
            "scouter_watched_traces_waiting",
            "Traces in memory of which a record is to be derived once they are complete.",
            registry=registry,
        )
        self.stalled = Gauge(
            "scouter_evaluation_stalled_seconds",
            "Seconds since anything was judged, while something is due; 0 while nothing is.",
            registry=registry,
        )
        self.due = Gauge(
            "scouter_evaluation_due",
            "Records, traces and sessions that wait for nothing but their evaluation.",
            registry=registry,
        )
        self.due_oldest = Gauge(
            "scouter_evaluation_due_oldest_seconds",
            "Seconds for which the oldest of them has been due.",
            registry=registry,
        )
        self.due_bytes = Gauge(
            "scouter_evaluation_due_bytes",
            "Bytes of their spans and contexts as stored, by those that wait longest.",
            registry=registry,
        )
        self.is_behind = Gauge(
            "scouter_evaluation_behind",
            "1 from the time on at which something has been due, or accepted and not stored, for a "
            "minute, until both take less than ten seconds.",
            registry=registry,
        )
        self.is_catching_up = Gauge(
            "scouter_evaluation_catching_up",
            "1 while more is judged than becomes due, and more stored than comes, within a minute.",
            registry=registry,
        )
        self.is_caught_up = Gauge(
            "scouter_join_input_caught_up",
            "1 while the join's time runs, 0 while a source of spans lags or the store is away.",
            registry=registry,
        )

    def unpriced(self, rows: Iterable[SpanRow]) -> None:
        """Count the model calls among new spans whose cost is not known."""
        for row in rows:
            models = {row.response_model, row.request_model}
            if row.genai_kind not in MODEL_CALLS or row.cost_usd is not None:
                continue
            if self._priced.isdisjoint(models):
                name = row.response_model or row.request_model or "(none)"
                if len(self._unpriced_names) < _MOST_MODELS:
                    self._unpriced_names.add(name)
                known = name if name in self._unpriced_names else OTHER
                self._unpriced.labels(row.space, known).inc()

    def waited(self, rows: Sequence[EvaluationRow], waits_s: Mapping[RecordId, float]) -> None:
        """Count how long records had waited for their trace, at their first evaluation."""
        for row in rows:
            if row.scope is Scope.RECORD and row.revision == 1:
                wait_s = waits_s.get(RecordId(row.space, row.record_uid), 0.0)
                exemplar = None if row.trace_id is None else {"trace_id": row.trace_id}
                self._join_wait.labels(row.completeness.value).observe(wait_s, exemplar)

    def show(self, works: Callable[[], Iterable[Shown]]) -> None:
        """Show the state of the work of this process, whenever somebody looks.

        Args:
            works: One for each log that is read; none where nothing is.
        """

        def total(value: Callable[[Shown], float]) -> Callable[[], float]:
            return lambda: sum(map(value, works()))

        def worst(value: Callable[[Shown], float]) -> Callable[[], float]:
            return lambda: max(map(value, works()), default=0.0)

        for gauge, function in (
            (self.reopened_waiting, total(lambda each: each.reopened_waiting)),
            (self.watched_waiting, total(lambda each: each.watched_waiting)),
            (self.sessions_waiting, total(lambda each: each.sessions_waiting)),
            (self.stalled, worst(lambda each: each.stalled_s)),
            (self.due, total(lambda each: each.backlog.due.number)),
            (self.due_oldest, worst(lambda each: each.backlog.due.oldest_s)),
            (self.due_bytes, total(lambda each: each.backlog.due.size_bytes)),
            (self.is_behind, worst(lambda each: each.backlog.is_behind)),
            (self.is_catching_up, worst(lambda each: each.backlog.is_catching_up)),
            (self.is_caught_up, lambda: min((each.is_caught_up for each in works()), default=1)),
        ):
            gauge.set_function(function)


STALLED_S: Final = 60.0
"""Seconds without an evaluation, while one is due, after which the collector is not ready."""


class Progress:
    """Notified by the thread that judges; any thread may ask.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._moved_at = clock()
        self._is_idle = True
        self._trouble = ""

    def begin(self) -> None:
        """A round begins: from now on something may be due."""
        with self._lock:
            if self._is_idle:
                self._is_idle, self._moved_at = False, self._clock()

    def moved(self) -> None:
        """Something was decided, or a round left nothing that is due."""
        with self._lock:
            self._moved_at, self._trouble = self._clock(), ""

    def rest(self) -> None:
        """The round left nothing that is due."""
        with self._lock:
            self._is_idle, self._moved_at, self._trouble = True, self._clock(), ""

    def trouble(self, why: str) -> None:
        """Remember what keeps it from going on."""
        with self._lock:
            self._trouble = why

    def stalled_s(self) -> float:
        """Seconds since something was decided, while something is due; else 0."""
        with self._lock:
            return 0.0 if self._is_idle else self._clock() - self._moved_at

    def fault(self) -> str:
        """Reason that no evaluation was made for too long; empty if one was, or none is due."""
        stalled_s = self.stalled_s()
        if stalled_s < STALLED_S:
            return ""
        why = self._trouble or "a round of judging takes so long"
        return f"nothing was judged for {stalled_s:.0f} s although something is due: {why}"


_LOOK_S: Final = 1.0
"""Between two looks at how long things have been due."""

Observer = Callable[[Sequence[EvaluationRow]], None]
"""Counts stored evaluations that are the first ones, or the first ones that are decided."""


class News:
    """Tells of what was stored, in the worker's thread.

    Args:
        observers: Notified of every stored first evaluation.
        on_pending: Notified that an evaluation was stored of which some tasks are pending.
        measures: Metrics of the work.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        observers: Sequence[Observer],
        on_pending: Callable[[], None],
        measures: WorkerMeasures,
        clock: Callable[[], float],
    ) -> None:
        self._observers, self._on_pending = tuple(observers), on_pending
        self._measures, self._clock = measures, clock
        self._behind: Final = BehindWatch(clock)
        self._looked_at = clock()

    @property
    def backlog(self) -> Backlog:
        """Due and waiting work, as it was seen last."""
        return self._behind.backlog

    @property
    def is_time(self) -> bool:
        """True if the last look was a second ago."""
        return self._clock() >= self._looked_at + _LOOK_S

    def look(self, join: Join, sessions: SessionWork, now: float, *, end: int, stored: int) -> None:
        """Have it noticed if what is due waits for long, or what was accepted is not stored."""
        self._looked_at = self._clock()
        due = join.due(now)
        for space, each in sessions.due(now).items():
            due[space] = each.plus(due.get(space, NOTHING))
        self._behind.look(due, end, stored)

    def stored(self, rows: Sequence[EvaluationRow], results: Results) -> None:
        """Tell of evaluations that the worker made."""
        if not rows:
            return
        self._behind.judged(len(rows))
        latency_s = self._clock() - results.ready_at
        for _ in rows:
            self._measures.latency.observe(latency_s)
        again = [row.scope for row in rows if row.revision > 1]
        self._measures.reopened.inc(again.count(Scope.RECORD))
        self._measures.sessions_reopened.inc(again.count(Scope.SESSION))
        self._tell(rows, results.waits_s)

    def revised(self, rows: Sequence[EvaluationRow]) -> None:
        """Count evaluations that others requested."""
        self._tell(rows, {})

    def _tell(self, rows: Sequence[EvaluationRow], waits_s: Mapping[RecordId, float]) -> None:
        if any(row.pending for row in rows):
            self._on_pending()
        first = [
            row
            for row in rows
            if not row.is_backfill and (row.revision == 1 or row.is_first_decided)
        ]
        if first:
            self._measures.waited(first, waits_s)
            for observer in self._observers:
                observer(first)
