"""News of the work: observers of evaluations, metrics, and whether what is due waits for long."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from collector.store.commit import RecordId
from collector.store.rows import EvaluationRow, Scope
from collector.worker.behind import NOTHING, Backlog, BehindWatch
from collector.worker.join import Join
from collector.worker.judge import Results
from collector.worker.measures import WorkerMeasures
from collector.worker.sessions import SessionWork

_LOOK_S: Final = 1.0
"""Between two looks at how long things have been due."""

Observer = Callable[[Sequence[EvaluationRow], Sequence[float]], None]
"""Is told of stored evaluations that are the first ones, or the first ones that are decided, and of
the seconds that each record had waited for its trace."""


class News:
    """Tells of what was stored, in the worker's thread.

    Args:
        observers: Told of every stored first evaluation.
        on_pending: Told that an evaluation was stored of which some tasks are pending.
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
        """What is due and waits, as it was seen last."""
        return self._behind.backlog

    @property
    def is_time(self) -> bool:
        """True if the last look was a second ago."""
        return self._clock() >= self._looked_at + _LOOK_S

    def look(self, join: Join, sessions: SessionWork, now: float) -> None:
        """Have it noticed if what is due waits for long. Cost: a look at everything that is due."""
        self._looked_at = self._clock()
        due = join.due(now)
        for space, each in sessions.due(now).items():
            due[space] = each.plus(due.get(space, NOTHING))
        self._behind.look(due)

    def stored(self, rows: Sequence[EvaluationRow], results: Results) -> None:
        """Tell of evaluations that the worker made."""
        if not rows:
            return
        self._behind.judged(len(rows))
        latency_s = self._clock() - results.ready_at
        self._measures.latency.observe([latency_s] * len(rows))
        again = [row.scope for row in rows if row.revision > 1]
        self._measures.reopened.inc(again.count(Scope.RECORD))
        self._measures.sessions_reopened.inc(again.count(Scope.SESSION))
        self._tell(rows, results.waits_s)

    def revised(self, rows: Sequence[EvaluationRow]) -> None:
        """Tell of evaluations that others asked for."""
        self._tell(rows, {})

    def _tell(self, rows: Sequence[EvaluationRow], waits_s: Mapping[RecordId, float]) -> None:
        if any(row.pending for row in rows):
            self._on_pending()
        first = [row for row in rows if row.revision == 1 or row.is_first_decided]
        if first:
            waits = [waits_s.get(RecordId(row.space, row.record_uid), 0.0) for row in first]
            for observer in self._observers:
                observer(first, waits)
