"""Whole sessions: they wait for their quiet period, and are evaluated as one thing."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from collector.store.commit import RecordId
from collector.store.reads import NoMemoryError
from collector.store.rows import EvaluationRow, RecordRow
from collector.store.store import Store
from collector.worker.behind import Due
from collector.worker.late import LateSpans, LateTrace
from collector.worker.open_trace import JoinTimes, Paused
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.recover import Starts
from collector.worker.session import (
    DueSession,
    SessionJoin,
    SessionKey,
    WholeSession,
    judge_session,
)
from collector.worker.session_reader import (
    SessionReader,
    StoredSession,
    awaited,
    key_of,
)
from collector.worker.trace_facts import lost_of
from collector.worker.turns import Pace, Turns

_log: Final = logging.getLogger(__name__)
_TURN_S: Final = 0.5
_FEW: Final = 10
_MOST: Final = 100
"""Sessions that are read and evaluated in one turn; see `Pace`."""
_POISON: Final = (
    "its evaluation ended the collector's process twice, so it is not evaluated until something "
    "more of it comes"
)
_NO_MEMORY: Final = "there is not enough memory to read its contexts; raise memory_limit"


class SessionWork:
    """Lets sessions wait and evaluates them; to be used by one thread.

    Every record that was accepted belongs to its session, whatever became of its own evaluation.

    Args:
        store: Has the records.
        registry: Finds the profiles with tasks on sessions.
        times: Waiting times.
        late: Is notified of the traces that evaluations read.
        clock: Monotonic seconds.
        now_ns: Wall clock.

    Raises:
        TransientError: The store cannot be read now.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        times: JoinTimes,
        late: LateSpans,
        *,
        clock: Callable[[], float],
        now_ns: Callable[[], int],
    ) -> None:
        self._store, self._registry, self._late = store, registry, late
        self._clock, self._now_ns = clock, now_ns
        self._reader: Final = SessionReader(store, registry)
        self._join: Final = SessionJoin(times)
        self._line: Final[Turns[DueSession]] = Turns()
        self._pace: Final = Pace(_TURN_S, _FEW, _MOST)
        self._paused_s = 0.0
        """The time of sessions is behind by so much: any broker could bring more of one."""
        self._is_paused = False
        self._found: Final[set[SessionKey]] = set()
        """Sessions that the start found open: an earlier process may have ended by one."""
        profiles = {(each.space, each.uid): each for each in registry.with_sessions()}
        for each in store.open_sessions(list(profiles)):
            key = SessionKey(each.space, each.profile_uid, each.session_id)
            if self.owns(key):
                registered = profiles[each.space, each.profile_uid]
                self._join.add(key, 0.0, awaited(registered, each.trace_id))
                self._found.add(key)

    def owns(self, key: SessionKey) -> bool:
        """Tell whether a session is evaluated here; of one process all are."""
        del key
        return True

    def seen_seq(self) -> int:
        """The last commit of which everything is seen by what is evaluated now."""
        return self._store.last_seq()

    def hold(self, paused: Paused) -> None:
        """Take note of the time for which brokers lagged up to now."""
        self._is_paused = paused.unknown_s > self._paused_s
        self._paused_s = paused.unknown_s

    @property
    def waiting(self) -> int:
        """Sessions of which something has no evaluation yet."""
        return len(self._join) + len(self._line)

    @property
    def has_due(self) -> bool:
        """True if a session waits for its turn."""
        return bool(self._line)

    def due(self, now: float) -> dict[str, Due]:
        """By space what waits for its turn."""
        return {
            space: Due(count, max(0.0, now - self._paused_s - first.due_since), 0.0)
            for space, count, (first,) in self._line.heads()
        }

    def low_seq(self, other: int) -> int:
        """The oldest commit that a restart needs to find late spans, unless `other` is older."""
        seqs = [each.late_seq for each in self._line if each.late_seq]
        return min([*seqs, self._join.low_seq(other)])

    def admit(self, row: RecordRow, now: float) -> None:
        """Let the session of a stored record wait, or wait on, if its profile looks at sessions."""
        registered = None if row.is_score else self._registry.of_record(row)
        if registered is not None and registered.profile.plan.session is not None:
            trace_id = awaited(registered, row.trace_id)
            self._join.add(key_of(row, registered), now - self._paused_s, trace_id)

    def spans_came(self, space: str, trace_ids: Iterable[str], now: float) -> None:
        """Let the waiting sessions of some traces wait on."""
        self._join.spans_came(space, trace_ids, now - self._paused_s)

    def next_due(self) -> float | None:
        """Time at which `decide` has something to do; never after that."""
        due_s = self._join.next_due()
        return None if due_s is None or self._is_paused else due_s + self._paused_s

    def reopen(self, traces: Sequence[LateTrace], since_ns: int, now: float) -> None:
        """Let sessions wait again whose evaluations have not seen all spans of some traces.

        Args:
            traces: All of one space.
            since_ns: Evaluations older than this stay.
            now: The time.
        """
        space = traces[0].space
        if not any(each.space == space for each in self._registry.with_sessions()):
            return
        seqs = {each.trace_id: each.seq for each in traces}
        touched: dict[SessionKey, set[str]] = {}
        for row in self._store.trace_records(space, seqs):
            registered = self._registry.of_record(row)
            if registered is None or registered.profile.plan.session is None:
                continue
            key = key_of(row, registered)
            if row.trace_id is not None and self.owns(key):
                touched.setdefault(key, set()).add(row.trace_id)
        evaluations = self._reader.evaluations(touched)
        for key, ids in touched.items():
            before = evaluations.get(key)
            # Without an evaluation it waits already.
            if before is None or before.evaluated_ns < since_ns or not before.reads_spans:
                continue
            for trace_id in ids:
                if before.input_seq < seqs[trace_id]:
                    at = now - self._paused_s
                    self._join.add(key, at, trace_id, late_seq=seqs[trace_id])

    def look(self, now: float) -> None:
        """Line up the sessions whose time has come."""
        for due in self._join.due(now - self._paused_s):
            self._line.put(due.key.space, due)

    def take(self, starts: Starts) -> list[DueSession]:
        """Take out what the next turn evaluates: some sessions of the space whose turn it is.

        Args:
            starts: Says which are evaluated alone, and which later.
        """
        space = self._line.next_space()
        part: list[DueSession] = []
        most = 0 if space is None else self._pace.of(space)
        while space is not None and len(part) < most and (each := self._line.pop(space)):
            if starts.is_alone(space, each.key.uid):
                if part:
                    self._line.put_first(space, each)
                    break
                return [each]
            part.append(each)
        return part

    def put_back(self, part: Iterable[DueSession]) -> None:
        """Let sessions that were taken have the first place in the next turn of their space."""
        for each in reversed(list(part)):
            self._line.put_first(each.key.space, each)

    def to_note(self, part: Iterable[DueSession], starts: Starts) -> list[RecordId]:
        """The sessions to note before they are evaluated, as one may end the process."""
        return [session_id(each) for each in part if each.key in self._found or starts.is_careful]

    def judge(
        self, part: Sequence[DueSession], starts: Starts, until: float
    ) -> tuple[list[EvaluationRow], list[float]]:
        """Evaluate sessions that were taken; what there is no time for waits for a next turn.

        Args:
            part: All of one space.
            starts: Says which ended processes, and is notified which are done.
            until: The clock's time at which no further session is read.

        Returns:
            Evaluations, and for each how many seconds the session had waited.

        Raises:
            TransientError: The store cannot be read now. Nothing was done: put the part back.
        """
        space = part[0].key.space
        try:
            found = self._judge(part, starts, until)
        except NoMemoryError:
            self._pace.no_memory(space, len(part))
            raise
        self._pace.was_read(space)
        return found

    def _judge(
        self, part: Sequence[DueSession], starts: Starts, until: float
    ) -> tuple[list[EvaluationRow], list[float]]:
        began, space = self._clock(), part[0].key.space
        left = {each.key: each for each in part}
        why = _NO_MEMORY if self._pace.gives_up(space) else ""
        rows: list[EvaluationRow] = []
        waits: list[float] = []
        count, judging_s = 0, 0.0
        for found in self._reader.sessions(space, {key.session_id for key in left}, why):
            # What was read is evaluated, however long the reading took.
            for whole in self._read(space, found, left):
                if judging_s >= _TURN_S:
                    break
                due, start = left.pop(whole.due.key), self._clock()
                row = self._judged(whole, starts)
                judging_s += self._clock() - start
                count += 1
                if row is not None:
                    rows.append(row)
                    waits.append(due.waited_s)
            if count and (judging_s >= _TURN_S or self._clock() >= until):
                break
        else:
            for key in left:  # no record of them is stored any more
                self._done(key, starts)
            left.clear()
        self.put_back(left.values())
        if count:
            self._pace.took(space, count, self._clock() - began, judging_s)
        return rows, waits

    def _judged(self, whole: WholeSession, starts: Starts) -> EvaluationRow | None:
        key = whole.due.key
        if whole.plan.reads_spans:
            self._late.judged(row.trace_id for row in whole.records if row.trace_id)
        if starts.is_poison(key.space, key.uid):
            whole = replace(whole, too_large=_POISON)
        try:
            return judge_session(whole, seq=self.seen_seq(), now_ns=self._now_ns())
        except Exception:  # noqa: BLE001 one session must not stop the others
            # Its records keep their states; a start takes the session up again.
            _log.exception("session %r: the engine failed", key.session_id[:100])
            return None
        finally:
            self._done(key, starts)

    def _done(self, key: SessionKey, starts: Starts) -> None:
        self._found.discard(key)
        starts.done(key.space, [key.uid])

    def _read(
        self,
        space: str,
        sessions: Mapping[SessionKey, StoredSession],
        due: Mapping[SessionKey, DueSession],
    ) -> Iterator[WholeSession]:
        """Read the evaluations and spans of those sessions that are due."""
        sessions = {key: each for key, each in sessions.items() if key in due}
        evaluations = self._reader.evaluations(sessions)
        judges: dict[SessionKey, RegisteredProfile] = {}
        traces: dict[SessionKey, set[str]] = {}
        for key, session in sessions.items():
            registered = self._reader.judge_of(key, evaluations.get(key))
            if registered is not None:
                judges[key] = registered
                traces[key] = self._reader.traces_of(registered, session)
        every = set[str]().union(*traces.values())
        spans = self._reader.spans_of(space, every)
        lost = lost_of(self._store, space, every)
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


def session_id(due: DueSession) -> RecordId:
    """The key of the evaluations on a session."""
    return RecordId(due.key.space, due.key.uid)
