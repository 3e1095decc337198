"""The part of the pipeline's work that is about sessions."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from collector.pipeline.join_times import JoinTimes
from collector.pipeline.judge_session import WholeSession, judge_session
from collector.pipeline.late import LateSpans
from collector.pipeline.profiles import ProfileRegistry, RegisteredProfile
from collector.pipeline.session_join import DueSession, SessionJoin, SessionKey
from collector.pipeline.session_read import SessionReader, awaited, key_of, traces_of
from collector.pipeline.verdicts import Verdicts, VerdictWriter
from collector.storage.known_keys import TraceKey
from collector.storage.port import Store
from collector.storage.rows import EvaluationRow, RecordRow
from scouter.model.span import Span

_log: Final = logging.getLogger(__name__)
_PART: Final = 100
"""Sessions that are read and judged in one step."""


class SessionWork:
    """Lets sessions wait for their quiet period and judges them; to be used by one thread.

    Every record that was accepted belongs to its session, whatever became of its own verdict.

    Args:
        store: What sessions consist of.
        registry: Which profiles judge sessions.
        times: How long they wait.
        late: Is told of the traces of verdicts.
        writer: Takes the verdicts.
        clock: Monotonic seconds, for latencies.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        times: JoinTimes,
        *,
        late: LateSpans,
        writer: VerdictWriter,
        clock: Callable[[], float],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store, self._registry, self._late, self._writer = store, registry, late, writer
        self._clock, self._now_ns = clock, now_ns
        self._reader = SessionReader(store, registry)
        self._join = SessionJoin(times)

    @property
    def waiting(self) -> int:
        """Sessions of which something has no verdict yet."""
        return len(self._join)

    def resume(self, now: float) -> None:
        """Take up the sessions that an earlier process left waiting; their clocks start anew."""
        profiles = {(each.space, each.uid): each for each in self._registry.with_sessions()}
        if not profiles:
            return
        for found in self._store.open_sessions(list(profiles)):
            registered = profiles[found.space, found.profile_uid]
            key = SessionKey(found.space, found.profile_uid, found.session_id)
            self._join.add(key, now, awaited(registered, found.trace_id))

    def admit(self, row: RecordRow, registered: RegisteredProfile, now: float) -> None:
        """Take a record that was accepted, and whose profile is known."""
        if registered.profile.plan.session is not None:
            self._join.add(key_of(row, registered), now, awaited(registered, row.trace_id))

    def spans_came(self, space: str, trace_ids: Iterable[str], now: float) -> None:
        """Let the waiting sessions of some traces wait on."""
        self._join.spans_came(space, trace_ids, now)

    def next_due(self) -> float | None:
        """When `decide` has something to do, at the earliest."""
        return self._join.next_due()

    def reopen(
        self,
        space: str,
        trace_ids: Sequence[str],
        pending: Mapping[TraceKey, int],
        since_ns: int,
        now: float,
    ) -> None:
        """Let sessions wait again whose verdicts have not seen all spans of some traces.

        Args:
            space: Of the traces.
            trace_ids: Traces that got spans.
            pending: By trace the last commit such that a verdict with this input, or less, has
                not seen all.
            since_ns: Verdicts older than this stay.
            now: The join's time.
        """
        if not any(each.space == space for each in self._registry.with_sessions()):
            return
        touched: dict[SessionKey, set[str]] = {}
        for row in self._store.trace_records(space, trace_ids):
            registered = self._registry.of_record(row)
            if registered is None or registered.profile.plan.session is None:
                continue
            if row.trace_id is not None:
                touched.setdefault(key_of(row, registered), set()).add(row.trace_id)
        verdicts = self._reader.verdicts(touched)
        for key, traces in touched.items():
            verdict = verdicts.get(key)
            if verdict is None or verdict.evaluated_ns < since_ns or not verdict.reads_spans:
                continue  # without a verdict it waits already
            for trace_id in traces:
                if verdict.input_seq <= pending[space, trace_id]:
                    self._join.add(key, now, trace_id)

    def decide(self, now: float, seq: int) -> None:
        """Judge some sessions that wait no longer; records must not wait long behind them.

        Args:
            now: The join's time.
            seq: Last commit that the pipeline was told of.
        """
        due = self._join.due(now, _PART)
        if not due:
            return
        self._writer.flush()  # the next revision follows one that can be read
        ready_at = self._clock()
        rows: list[EvaluationRow] = []
        waits: list[float] = []
        for whole in self._wholes(due):
            if whole.plan.reads_spans:
                space = whole.due.key.space
                keys = [(space, row.trace_id) for row in whole.records if row.trace_id]
                self._late.judged(keys)
            try:
                rows.append(judge_session(whole, seq=seq, now_ns=self._now_ns()))
            except Exception:  # noqa: BLE001 one session must not stop the others
                # Its records keep their states; a start takes the session up again.
                _log.exception("session %r: the engine failed", whole.due.key.session_id[:100])
            else:
                waits.append(whole.due.waited_s)
        self._writer.put(Verdicts(rows=rows, waits_s=waits, ready_at=ready_at))

    def _wholes(self, part: Sequence[DueSession]) -> Iterator[WholeSession]:
        """Read what the store has of some sessions; one that retention took out is passed over."""
        by_space: defaultdict[str, list[DueSession]] = defaultdict(list)
        for each in part:
            by_space[each.key.space].append(each)
        for space, sessions in by_space.items():
            yield from self._wholes_of(space, sessions)

    def _wholes_of(self, space: str, sessions: Sequence[DueSession]) -> Iterator[WholeSession]:
        ids = {each.key.session_id for each in sessions}
        insist = self._writer.insist
        records = insist(lambda: self._reader.records(space, ids))
        verdicts = insist(lambda: self._reader.verdicts(each.key for each in sessions))
        judges: dict[SessionKey, RegisteredProfile] = {}
        traces: set[str] = set()
        for key in (each.key for each in sessions):
            registered = self._reader.judge_of(key, verdicts.get(key))
            if registered is not None and key in records:
                judges[key] = registered
                traces |= traces_of(registered, records[key])
        spans: Mapping[str, Sequence[Span]] = {}
        if traces:
            spans = insist(lambda: self._store.spans_of(space, traces))
        for each in sessions:
            registered = judges.get(each.key)
            plan = None if registered is None else registered.profile.plan.session
            if registered is None or plan is None:
                continue
            yield WholeSession(
                due=each,
                registered=registered,
                plan=plan,
                records=records[each.key],
                spans=spans,
                earlier=verdicts.get(each.key),
            )
