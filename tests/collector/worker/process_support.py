"""A worker whose time the test moves."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry

from collector.log.brokers import Brokers
from collector.log.file_log import FileLog
from collector.log.port import Item, Kind
from collector.metrics import TotalName
from collector.store.erase import Erased, EraseTarget
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import EvaluationRow, RecordRow, Scope
from collector.worker.measures import WorkerMeasures
from collector.worker.open_trace import JoinTimes
from collector.worker.profiles import ProfileRegistry
from collector.worker.reevaluate import Revision
from collector.worker.revising import Answered
from collector.worker.worker import Worker
from scouter.drift.profile import AgentEvalProfile
from scouter.model.otlp import encode_request
from scouter.model.span import Span
from tests.contracts.store_data import SPACE
from tests.support.store_appends import AppendingStore

TIMES: Final = JoinTimes(settle_s=0.5, foreign_settle_s=7, quiet_s=30, deadline_s=300)
_STEP_S: Final = 0.5
"""Between two turns at least; the longer ago the last event was, the longer they become."""

T = TypeVar("T")


class Process:
    """One life of a collector: a real log, store and worker, with a clock that the test moves."""

    def __init__(
        self,
        folder: Path,
        profile: AgentEvalProfile | None,
        now: float = 1000.0,
        times: JoinTimes = TIMES,
    ) -> None:
        self.now, self.folder, self.profile, self.times = now, folder, profile, times
        self.date_ahead_s = 0.0
        """By how much the date is another one than the clock says."""
        self.tick_s = 0.0
        """Time of each look at the clock: as if that was work."""
        self._next: Process | None = None
        self._is_open = True
        self.store = AppendingStore(folder)
        self.log = FileLog(
            folder / "log", self.store.offset, identity=self.store.identity,
            before_trim=self.store.note_totals,
        )  # fmt: skip
        self.registry = ProfileRegistry(self.store)
        self.profile_uid = "" if profile is None else self.register(profile)
        self.brokers = Brokers(lambda: self.now)
        self.lags: bool | None = None
        self.measures = WorkerMeasures(CollectorRegistry())
        self.measured_evaluations = 0
        self.notified_at: dict[str, float] = {}
        """By uid the time at which observers were notified of the first evaluation on a record."""
        self.worker = Worker(
            self.log, self.store, self.registry, times,
            clock=self._clock, now_ns=self.now_ns, observers=(self._count,),
            measures=self.measures, brokers=self.brokers, max_step_s=1000,
        )  # fmt: skip
        self.measures.show(lambda: [self.worker.shown])

    def _clock(self) -> float:
        self.now += self.tick_s
        return self.now

    def now_ns(self) -> int:
        """The date."""
        return int((self.now + self.date_ahead_s) * 1e9)

    def register(self, profile: AgentEvalProfile, space: str = SPACE) -> str:
        return self.registry.register(space, profile, activate=True).uid

    def close(self) -> None:
        """End this life without a last turn."""
        if self._is_open:
            self._is_open = False
            self.worker.stop()
            self.log.close()
            self.store.close()

    def restarted(self, seconds: float = 0.0) -> "Process":
        """End this life, and begin another one some time later."""
        self.close()
        self._next = Process(self.folder, self.profile, self.now + seconds, times=self.times)
        return self._next

    @property
    def last(self) -> "Process":
        """The life that goes on."""
        return self if self._next is None else self._next.last

    def topic(self, *, lags: bool) -> None:
        """Have a broker from now on, which is behind or not."""
        if self.lags is None:
            self.brokers.add("topic")
        self.lags = lags
        self.brokers.report("topic", None if lags else 0.0)

    def append(self, kind: Kind, body: bytes, space: str = SPACE, source: str = "http") -> None:
        """Append an item, as a receiver does: it is accepted, and nobody has read it."""
        self.log.append(
            Item(kind, space, self.now_ns(), body, source, self.brokers.behind_ns())
        ).result(120)

    def accept(self, *spans: Span, space: str = SPACE, source: str = "http") -> None:
        """Append spans that nobody reads now."""
        self.append(Kind.SPANS, encode_request(spans).SerializeToString(), space, source)

    def spans(self, *spans: Span, space: str = SPACE, source: str = "http") -> None:
        """Append spans, and have them read."""
        self.accept(*spans, space=space, source=source)
        self.work()

    def accept_records(self, *rows: RecordRow, source: str = "http") -> None:
        """Append records as their senders said them, that nobody reads now."""
        for row in rows:
            self.append(Kind.RECORDS, sent_body(row), row.space, source)

    def records(self, *rows: RecordRow, source: str = "http") -> None:
        """Append records, and have them read."""
        self.accept_records(*rows, source=source)
        self.work()

    def work(self) -> None:
        """Take turns until none has anything to do at this moment."""
        while self.worker.turn(0.0):
            pass

    def after(self, seconds: float) -> None:
        """Let time pass, in steps as the worker's thread takes them."""
        began, end = self.now, self.now + seconds
        while True:
            if self.lags is not None:
                self.topic(lags=self.lags)
            self.work()
            if self.now >= end:
                return
            step_s = min(900.0, max(_STEP_S, (self.now - began) / 20))
            self.now = min(end, self.now + step_s)

    def answer(self, requested: "Future[T]") -> T:
        """Let the worker do what was requested."""
        while not requested.done():
            self.worker.turn(0.0)
        return requested.result()

    def erase(self, target: EraseTarget) -> Erased:
        """Erase something."""
        return self.answer(self.worker.erase(target))

    def profiles_changed(self) -> None:
        """Let records find profiles that were registered."""
        self.answer(self.worker.profiles_changed())

    @property
    def sessions_waiting(self) -> int:
        """Sessions of which something has no evaluation."""
        (metric,) = self.measures.sessions_waiting.collect()
        return int(metric.samples[0].value)

    def settle(self, answers: Sequence[Answered]) -> list[bool]:
        """Store judges' answers."""
        return self.answer(self.worker.settle(answers))

    def revise(self, revisions: Sequence[Revision]) -> frozenset[str]:
        """Store evaluations of another version."""
        return self.answer(self.worker.revise(revisions))

    def _count(self, rows: Sequence[EvaluationRow]) -> None:
        """Count the first evaluations on records that observers are notified of."""
        self.measured_evaluations += sum(row.scope is Scope.RECORD for row in rows)
        self.notified_at.update((row.record_uid, self.now) for row in rows)

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


def sent_body(row: RecordRow) -> bytes:
    """A request with a record as its sender says it."""
    said: dict[str, object] = {
        "uid": row.uid, "profile": row.profile_ref, "context": row.context, "tags": dict(row.tags),
        "created_at": row.created_ns,
    }  # fmt: skip
    if row.profile_uid not in {"", "p1"}:  # the test names a profile that is registered
        said["profile"] = row.profile_uid
    named = {
        "session_id": row.session_id, "record_id": row.record_id, "trace_id": row.trace_id,
    }  # fmt: skip
    said |= {name: value for name, value in named.items() if value}
    return json.dumps({"records": [said]}).encode()
