"""The join of sessions: a data structure that is told the time.

A session is due after a quiet period without any arrival for it, and while it never rests, at its
deadline. All times are arrival times, in seconds of the clock that the caller reads. Nothing but
names and times is held: what a session consists of is in the store.
"""

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from collector.store.rows import TraceKey
from collector.worker.needed import Needed
from collector.worker.times import JoinTimes


class SessionKey(NamedTuple):
    """Key of a session: the records of one session that one profile judges."""

    space: str
    profile_uid: str
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSession:
    """A session that waits no longer."""

    key: SessionKey
    is_quiet: bool
    """False if it was only its deadline that came."""
    waited_s: float
    due_since: float = 0.0
    late_seq: int = 0
    """The oldest commit with late spans that it waited for; 0 without any."""


class _Session:
    """Times of arrival of the parts of a session, and the traces that it is known to have."""

    __slots__ = ("first_arrival", "last_arrival", "late_seq", "scheduled", "traces")

    def __init__(self, now: float) -> None:
        self.first_arrival = self.last_arrival = now
        self.scheduled: float | None = None
        self.traces: set[str] = set()
        self.late_seq = 0
        """The oldest commit with late spans; 0 without any."""


class SessionJoin:
    """Holds the sessions of which something has no evaluation yet.

    Args:
        times: Waiting times.
    """

    def __init__(self, times: JoinTimes) -> None:
        self._quiet_s, self._deadline_s = times.session_quiet_s, times.session_deadline_s
        self._sessions: dict[SessionKey, _Session] = {}
        self._by_trace: dict[TraceKey, set[SessionKey]] = {}
        self._heap: list[tuple[float, int, SessionKey]] = []
        self._tie: Final = itertools.count()
        self._needed: Final = Needed()

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, key: SessionKey) -> bool:
        return key in self._sessions

    def add(
        self, key: SessionKey, now: float, trace_id: str | None = None, late_seq: int = 0
    ) -> None:
        """Let a session wait, or go on waiting: something of it came.

        Args:
            key: The session.
            now: The time.
            trace_id: A trace whose spans it has to wait for, too.
            late_seq: The commit with spans of it that its evaluation has not seen; 0 if it is not
                these that came.
        """
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = _Session(now)
        session.last_arrival = now
        if late_seq and not session.late_seq:
            session.late_seq = late_seq
            self._needed.add(late_seq)
        if trace_id is not None and trace_id not in session.traces:
            session.traces.add(trace_id)
            self._by_trace.setdefault((key.space, trace_id), set()).add(key)
        self._schedule(key, session)

    def low_seq(self, other: int) -> int:
        """The oldest commit with late spans that a session waits for, unless `other` is older."""
        return self._needed.lowest(other)

    def spans_came(self, space: str, trace_ids: Iterable[str], now: float) -> None:
        """Let the sessions of some traces wait on."""
        if not self._by_trace:
            return
        for trace_id in trace_ids:
            for key in self._by_trace.get((space, trace_id), ()):
                self._sessions[key].last_arrival = now

    def due(self, now: float) -> list[DueSession]:
        """Take out the sessions that wait no longer."""
        found: list[DueSession] = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heapq.heappop(self._heap)
            session = self._sessions.get(key)
            if session is None or session.scheduled != at:
                continue
            session.scheduled = None
            is_quiet = now >= session.last_arrival + self._quiet_s
            if is_quiet or now >= session.first_arrival + self._deadline_s:
                self._forget(key, session)
                waited_s = now - session.first_arrival
                found.append(
                    DueSession(
                        key=key,
                        is_quiet=is_quiet,
                        waited_s=waited_s,
                        due_since=now,
                        late_seq=session.late_seq,
                    )
                )
            else:
                self._schedule(key, session)
        return found

    def next_due(self) -> float | None:
        """Time at which `due` should be asked again: never after anything becomes due."""
        return self._heap[0][0] if self._heap else None

    def _schedule(self, key: SessionKey, session: _Session) -> None:
        """Look at the session at its next possible time; an earlier appointment is kept."""
        if session.scheduled is not None:
            return  # times only move on
        at = min(session.last_arrival + self._quiet_s, session.first_arrival + self._deadline_s)
        session.scheduled = at
        heapq.heappush(self._heap, (at, next(self._tie), key))

    def _forget(self, key: SessionKey, session: _Session) -> None:
        del self._sessions[key]
        if session.late_seq:
            self._needed.remove(session.late_seq)
        for trace_id in session.traces:
            keys = self._by_trace[key.space, trace_id]
            keys.discard(key)
            if not keys:
                del self._by_trace[key.space, trace_id]
