"""Sessions of one share of a fleet: their records and spans lie in any partition.

The share of a session follows from its id. Whoever stores a record notes its session in the table
`session_news`, in the commit of the record; whoever evaluates sessions of a share follows these
notes and the commits of spans, in all partitions, in the order of their numbers. So a session is
judged once, after the slowest of its traces.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from collector.fleet.share import Share
from collector.fleet.whole import share_of
from collector.log.brokers import Brokers
from collector.store.rows import EvaluationRow, RecordRow
from collector.store.store import Store
from collector.worker.late import LateSpans, LateTrace
from collector.worker.open_trace import JoinTimes, Paused
from collector.worker.profiles import ProfileRegistry
from collector.worker.recover import Starts
from collector.worker.session import DueSession, SessionKey
from collector.worker.sessions import SessionWork
from scouter.errors import TransientError

_log: Final = logging.getLogger(__name__)
_FOLLOW_S: Final = 1.0
"""Between two looks at what others have stored."""


class FleetSessions(SessionWork):
    """Evaluates the sessions of one share; to be used by one thread.

    What the worker's own partition stores is not reported to it: it comes as all else does.

    Args:
        brokers: Says whether any partition is behind: the time of sessions stands still then.
        store: The share.
        registry: Finds the profiles with tasks on sessions.
        times: Waiting times.
        late: Gives the age of evaluations that stay.
        clock: Monotonic seconds.
        now_ns: Wall clock.

    Raises:
        TransientError: The store cannot be read now.
    """

    def __init__(
        self,
        brokers: Brokers,
        store: Store,
        registry: ProfileRegistry,
        times: JoinTimes,
        late: LateSpans,
        /,
        *,
        clock: Callable[[], float],
        now_ns: Callable[[], int],
    ) -> None:
        if not isinstance(store, Share):
            raise TypeError("sessions of a fleet need a share of its store")
        self._share, self._profiles, self._brokers = store, registry, brokers
        self._looked_at = self._paused_since = 0.0
        self._most_s = times.session_deadline_s
        """Longest wait for a partition that is behind."""
        self._next_look = 0.0
        self._seq = store.whole.last_seq()
        """The newest finished commit when it looked last; others commit at any time."""
        self._seen_records = self._seq
        """Records of later commits were not looked at; earlier ones are in sessions found open."""
        self._seen_spans = min(store.low_seq - 1, self._seen_records)
        super().__init__(store.whole, registry, times, late, clock=clock, now_ns=now_ns)

    def owns(self, key: SessionKey) -> bool:
        """Tell whether a session is of this share."""
        share = self._share
        return share_of(key.space, key.session_id, share.whole.partitions) == share.part

    def seen_seq(self) -> int:
        """The last commit that was there when the reading began."""
        return self._seq

    def low_seq(self, other: int) -> int:
        """The oldest commit that a restart needs to find late spans, unless `other` is older."""
        return min(super().low_seq(other), self._seen_spans + 1)

    def admit(self, row: RecordRow, now: float) -> None:
        """Do nothing: its session may be of another share, and is followed by its note."""

    def spans_came(self, space: str, trace_ids: Iterable[str], now: float) -> None:
        """Do nothing, for the same reason."""

    def reopen(self, traces: Sequence[LateTrace], since_ns: int, now: float) -> None:
        """Do nothing, for the same reason."""

    def hold(self, paused: Paused) -> None:
        """Do nothing: whether time stands still depends on all partitions."""

    def look(self, now: float) -> None:
        """Follow what was stored, and line up the sessions whose time has come."""
        if not self._brokers.behind_ns():
            self._paused_since = now
        self._is_paused = 0 < now - self._paused_since < self._most_s
        if self._is_paused:
            self._paused_s += now - self._looked_at
        self._looked_at = now
        if self._clock() >= self._next_look:
            self._next_look = self._clock() + _FOLLOW_S
            try:
                self._follow(now)
            except TransientError as error:  # the store's fault is shown by who commits
                _log.debug("sessions have to wait: %s", error)
        super().look(now)

    def judge(
        self, part: Sequence[DueSession], starts: Starts, until: float
    ) -> tuple[list[EvaluationRow], list[float]]:
        """Evaluate sessions that were taken; see `SessionWork.judge`."""
        if self._brokers.behind_ns():  # what lies in a partition that is behind was not seen
            part = [replace(each, is_quiet=False) for each in part]
        # First: what comes while they are read was not seen.
        self._seq = self._share.whole.last_seq()
        return super().judge(part, starts, until)

    def _follow(self, now: float) -> None:
        seq = self._seq = self._share.whole.last_seq()
        spaces = {each.space for each in self._profiles.with_sessions()}
        if spaces:
            part, whole = self._share.part, self._share.whole
            for row in whole.session_news(part, self._seen_records, seq):
                super().admit(row, now)
            self._seen_records = seq
            late: dict[str, list[LateTrace]] = {}
            for space, trace_id, last_seq in whole.spans_between(self._seen_spans, seq):
                if space in spaces:
                    late.setdefault(space, []).append(LateTrace(space, trace_id, last_seq))
            for space, traces in late.items():
                super().spans_came(space, [each.trace_id for each in traces], now)
                super().reopen(traces, self._late.window.since_ns(), now)
        self._seen_records = self._seen_spans = seq
