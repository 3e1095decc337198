"""A pipeline whose time the test moves."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from collector.metrics import TotalName
from collector.pipeline.join.input_clock import InputClock, Via
from collector.pipeline.join.join import Join
from collector.pipeline.work import PipelineWork
from collector.storage.duckdb.store import DuckDBStore
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import EvaluationRow, RecordRow, Scope
from collector.worker.measures import WorkerMeasures
from collector.worker.profiles import ProfileRegistry
from collector.worker.progress import Progress
from collector.worker.times import JoinTimes
from scouter.drift.profile import AgentEvalProfile
from scouter.model.span import Span
from tests.contracts.store_data import SPACE

TIMES: Final = JoinTimes(settle_s=0.5, foreign_settle_s=7, quiet_s=30, deadline_s=300)


class Process:
    """One life of a collector: the real store and pipeline, with a clock that the test moves."""

    def __init__(
        self,
        folder: Path,
        profile: AgentEvalProfile | None,
        now: float = 1000.0,
        memory_spans: int = 1000,
        memory_bytes: int = 10**6,
        memory_records: int = 1000,
        times: JoinTimes = TIMES,
    ) -> None:
        self.now, self.folder, self.profile, self.times = now, folder, profile, times
        self.date_ahead_s = 0.0
        """By how much the date is another one than the clock says."""
        self.tick_s = 0.0
        """Time of each look at the clock: as if that was work."""
        self._memory = memory_spans, memory_bytes, memory_records
        self._next: Process | None = None
        self.store = DuckDBStore(folder)
        self.registry = ProfileRegistry(self.store)
        self.profile_uid = "" if profile is None else self.register(profile)
        self.inputs = InputClock(lambda: self.now, max_step_s=1000)
        self.lags: bool | None = None
        self.measures = WorkerMeasures(CollectorRegistry())
        self.measured_evaluations = 0
        self.progress = Progress(lambda: self.now)
        self.join = Join(times, memory_spans, memory_bytes, held_s=self.inputs.held_s)
        self.work = PipelineWork(
            self.store, self.registry, self.join, times,
            memory_records=memory_records, inputs=self.inputs, measures=self.measures,
            observers=(self._count,), stopping=threading.Event(), clock=self._clock,
            now_ns=self.now_ns, progress=self.progress,
        )  # fmt: skip
        self.work.resume()
        judged, seq = self.store.judged_traces(0), self.store.last_seq()
        ended_ns = self.store.stored_until_ns(seq) or self.now_ns()
        self.work.take_judged(judged, self.store.late_traces(0), seq, ended_ns)

    @property
    def inside(self) -> int:
        """Waiting records in memory."""
        return self.join.waiting

    def _clock(self) -> float:
        self.now += self.tick_s
        return self.now

    def now_ns(self) -> int:
        """The date."""
        return int((self.now + self.date_ahead_s) * 1e9)

    def register(self, profile: AgentEvalProfile, space: str = SPACE) -> str:
        return self.registry.register(space, profile, activate=True).uid

    def restarted(self, seconds: float = 0.0) -> "Process":
        """End this life, and begin another one some time later."""
        self.store.close()
        self._next = Process(
            self.folder, self.profile, self.now + seconds, *self._memory, times=self.times
        )
        return self._next

    @property
    def last(self) -> "Process":
        """The life that goes on."""
        return self if self._next is None else self._next.last

    def topic(self, *, lags: bool) -> None:
        """Have a broker from now on, which is behind or not."""
        if self.lags is None:
            self.inputs.add("topic")
        self.lags = lags
        self.inputs.report("topic", None if lags else 0.0)

    def spans(self, *spans: Span, via: Via = Via.DIRECT) -> None:
        appended = self.store.append_spans(SPACE, spans, self.now_ns()).result()
        self.work.take_spans(appended, via)

    def records(self, *rows: RecordRow, via: Via = Via.DIRECT) -> None:
        self.work.take_records(self.store.append_records(rows).result(), via)

    def after(self, seconds: float) -> None:
        """Let time pass, in steps as the pipeline's thread takes them."""
        end = self.now + seconds
        while True:
            if self.lags is not None:
                self.topic(lags=self.lags)
            self.work.step()
            if self.now >= end:
                return
            self.now = min(end, self.now + max(0.05, self.work.next_step_s()))

    def _count(self, rows: Sequence[EvaluationRow], waits_s: Sequence[float]) -> None:
        """Count the first evaluations on records that observers are told of."""
        del waits_s
        self.measured_evaluations += sum(row.scope is Scope.RECORD for row in rows)

    def evaluations(self, space: str = SPACE) -> dict[str, EvaluationRow]:
        """By uid of the record, or by `session` and the id of the session."""
        page = self.store.evaluations(EvaluationQuery(space=space, limit=1000))
        found = {
            row.record_uid if row.scope is Scope.RECORD else f"session {row.session_id}": row
            for row in page.items
        }
        assert len(found) == len(page.items)
        return found

    def total(self, name: TotalName) -> int:
        return sum(n for key, n in self.store.totals().items() if key.name is name)
