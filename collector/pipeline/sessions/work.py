"""The part of the pipeline's work that is about sessions."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from collector.pipeline.evaluate.begun import Evaluating
from collector.pipeline.evaluate.commit import Evaluations, EvaluationWriter
from collector.pipeline.revise.late import LateSpans
from collector.storage.port.work import WorkStore
from collector.store.rows import EvaluationRow, RecordRow, TraceKey
from collector.worker.behind import Due
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.session import WholeSession, judge_session, uid_of
from collector.worker.session_join import DueSession, SessionJoin, SessionKey
from collector.worker.session_reader import SessionReader, StoredSession, awaited, key_of
from collector.worker.times import JoinTimes
from collector.worker.turns import Pace, Turns

_log: Final = logging.getLogger(__name__)
_TURN_S: Final = 0.5
_FEW: Final = 10
_MOST: Final = 100
"""Sessions that are read and evaluated in one turn: see `Pace`."""
_POISON: Final = (
    "its evaluation ended the collector's process twice, so it is not evaluated until something "
    "more of it comes"
)


class SessionWork:
    """Lets sessions wait for their quiet period and evaluates them; to be used by one thread.

    Every record that was accepted belongs to its session, whatever became of its own evaluation.

    Args:
        store: Holds the records of sessions.
        registry: Finds the profiles with tasks on sessions.
        times: Waiting times of sessions.
        late: Is told of the traces of evaluations.
        writer: Takes the evaluations.
        evaluating: Told of the sessions that are being evaluated.
        clock: Monotonic seconds, for latencies.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: WorkStore,
        registry: ProfileRegistry,
        times: JoinTimes,
        *,
        late: LateSpans,
        writer: EvaluationWriter,
        evaluating: Evaluating,
        clock: Callable[[], float],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store, self._registry, self._late, self._writer = store, registry, late, writer
        self._evaluating, self._clock, self._now_ns = evaluating, clock, now_ns
        self._reader = SessionReader(store, registry, writer.insist)
        self._join = SessionJoin(times)
        self._line: Turns[DueSession] = Turns()
        self._pace: Final = Pace(_TURN_S, _FEW, _MOST)

    @property
    def waiting(self) -> int:
        """Sessions of which something has no evaluation yet."""
        return len(self._join) + len(self._line)

    @property
    def has_due(self) -> bool:
        """True if a session waits for its turn."""
        return bool(self._line)

    def due(self, now: float) -> dict[str, Due]:
        """By space what waits for its turn.

        Args:
            now: The join's time, of sessions.
        """
        return {
            space: Due(count, max(0.0, now - first.due_since), 0.0)
            for space, count, first in self._line.heads()
        }

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
        """Earliest time at which `decide` has something to do."""
        return self._join.next_due()

    def reopen(
        self,
        space: str,
        trace_ids: Sequence[str],
        pending: Mapping[TraceKey, int],
        since_ns: int,
        now: float,
    ) -> None:
        """Let sessions wait again whose evaluations have not seen all spans of some traces.

        Args:
            space: Of the traces.
            trace_ids: Traces that got spans.
            pending: By trace the last commit such that an evaluation with this input, or less, has
                not seen all.
            since_ns: Evaluations older than this stay.
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
        evaluations = self._reader.evaluations(touched)
        for key, traces in touched.items():
            evaluation = evaluations.get(key)
            if (
                evaluation is None
                or evaluation.evaluated_ns < since_ns
                or not evaluation.reads_spans
            ):
                continue  # without an evaluation it waits already
            for trace_id in traces:
                if evaluation.input_seq <= pending[space, trace_id]:
                    self._join.add(key, now, trace_id)

    def decide(self, now: float, seq: int, is_late: Callable[[], bool]) -> None:
        """Evaluate sessions that wait no longer; records must not wait long behind them.

        Args:
            now: The join's time.
            seq: Last commit that the pipeline was told of.
            is_late: Leaves the rest for another time; one turn is always taken.
        """
        for due in self._join.due(now):
            self._line.put(due.key.space, due)
        while self._line:
            self._turn(seq)
            if is_late():
                return

    def _turn(self, seq: int) -> None:
        """Judge some sessions of the space whose turn it is: all, unless judging takes too long."""
        space = self._line.next_space()
        assert space is not None  # noqa: S101 something waits
        due: dict[SessionKey, DueSession] = {}
        most = self._pace.of(space)
        while len(due) < most and (each := self._line.pop(space)) is not None:
            due[each.key] = each
        self._writer.flush()  # the next revision follows one that can be read
        ready_at = self._clock()
        rows: list[EvaluationRow] = []
        waits: list[float] = []
        judging_s, count = 0.0, 0
        for whole in self._wholes(space, tuple(due.values())):
            if judging_s >= _TURN_S:
                break
            waited = due.pop(whole.due.key)
            began = self._clock()
            row = self._judged(whole, seq)
            judging_s += self._clock() - began
            count += 1
            if row is not None:
                rows.append(row)
                waits.append(waited.waited_s)
        else:
            due.clear()  # what is left has no record any more
        for each in reversed(due.values()):
            self._line.put_first(space, each)
        self._writer.put(Evaluations(rows=rows, waits_s=waits, ready_at=ready_at))
        if count:
            self._pace.took(space, count, self._clock() - ready_at, judging_s)

    def _judged(self, whole: WholeSession, seq: int) -> EvaluationRow | None:
        key = whole.due.key
        if whole.plan.reads_spans:
            keys = [(key.space, row.trace_id) for row in whole.records if row.trace_id]
            self._late.judged(keys)
        name = (key.space, uid_of(key.profile_uid, key.session_id))
        if name in self._evaluating.poison:
            self._evaluating.poison.discard(name)
            whole = replace(whole, too_large=_POISON)
        try:
            with self._evaluating.noted([name]):
                return judge_session(whole, seq=seq, now_ns=self._now_ns())
        except Exception:  # noqa: BLE001 one session must not stop the others
            # Its records keep their states; a start takes the session up again.
            _log.exception("session %r: the engine failed", key.session_id[:100])
            return None

    def _wholes(self, space: str, part: Sequence[DueSession]) -> Iterator[WholeSession]:
        """Read what the store has of some sessions; one that retention took out is passed over."""
        due = {each.key: each for each in part}
        for found in self._reader.sessions(space, {key.session_id for key in due}):
            own = {key: session for key, session in found.items() if key in due}
            yield from self._read(space, own, due)

    def _read(
        self,
        space: str,
        sessions: Mapping[SessionKey, StoredSession],
        due: Mapping[SessionKey, DueSession],
    ) -> Iterator[WholeSession]:
        """Read the evaluations and spans of some sessions."""
        evaluations = self._reader.evaluations(sessions)
        judges: dict[SessionKey, RegisteredProfile] = {}
        traces: dict[SessionKey, set[str]] = {}
        for key, session in sessions.items():
            registered = self._reader.judge_of(key, evaluations.get(key))
            if registered is not None:
                judges[key] = registered
                traces[key] = self._reader.traces_of(registered, session)
        spans = self._reader.spans_of(space, set[str]().union(*traces.values()))
        lost = self._reader.lost_of(space, set[str]().union(*traces.values()))
        for key, registered in judges.items():
            session = sessions[key]
            plan = registered.of_session(session.rows).plan.session
            if plan is None:
                continue
            own = self._reader.spans_of(space, traces[key]) if isinstance(spans, str) else spans
            yield WholeSession(
                due=due[key],
                registered=registered,
                plan=plan,
                records=session.rows,
                spans={} if isinstance(own, str) else own,
                earlier=evaluations.get(key),
                lost=lost,
                too_large=own if isinstance(own, str) else session.too_large,
            )
