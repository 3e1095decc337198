"""Stored rows begin to wait: for their trace, their profile, or the turn of their space."""

import logging
import sys
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from collector.store.letters import DeadLetter, LetterKind
from collector.store.rows import RecordRow
from collector.worker.derive import Deriver, by_trace
from collector.worker.join import Join
from collector.worker.judge import need_of
from collector.worker.late import LateSpans
from collector.worker.open_trace import Waiting
from collector.worker.prepare import Prepared, SpaceRows
from collector.worker.profiles import ProfileRegistry
from collector.worker.ready import Need
from collector.worker.sessions import SessionWork
from scouter.model.log_event import is_evidence, is_log_event

_log: Final = logging.getLogger(__name__)
_ANY: Final = sys.maxsize
"""Number of a commit behind all others."""


class Arrivals:
    """Lets the join, the sessions and the late spans know what was stored; used by one thread.

    Args:
        registry: Finds the profile of a record.
        join: Gets records and traces.
        sessions: Gets records and traces.
        late: Gets the traces that got spans.
        deriver: Finds the profiles that watch a trace.
    """

    def __init__(
        self,
        registry: ProfileRegistry,
        join: Join,
        sessions: SessionWork,
        late: LateSpans,
        deriver: Deriver,
    ) -> None:
        self._registry, self._join, self._sessions = registry, join, sessions
        self._late, self._deriver = late, deriver

    def stored(
        self, prepared: Prepared, seq: int, judged: Collection[tuple[str, str]], now: float
    ) -> None:
        """Take note of a commit.

        Args:
            prepared: Its entries.
            seq: Its number.
            judged: Space and uid of its records that were judged as they came.
            now: The time of the log up to which its entries reach.
        """
        for space, rows in prepared.by_space.items():
            for row in rows.records:
                stored = replace(row, seq=seq)
                if (space, row.uid) not in judged:
                    waiting = _waiting(stored, now, rows.sizes[row.uid])
                    of_broker = row.trace_id in rows.of_broker
                    stored_bytes = rows.known.get(row.trace_id or "")
                    self._wait(stored, waiting, now, stored_bytes, of_broker=of_broker)
                self.admit(stored, now)
            self._open(space, rows, seq, now)
        self._refused(prepared.letters, seq, now)

    def again(self, row: RecordRow, now: float) -> None:
        """Let an accepted record wait that earlier processes left, or that was put aside."""
        self._wait(row, _waiting(row, now), now, 0)

    def profiles_came(self, rows: Iterable[RecordRow], waiting: Waiting, now: float) -> None:
        """Let a record wait on that waited for its profile."""
        for row in rows:
            self._wait(row, waiting, now, 0)
            self.admit(row, now)

    def admit(self, row: RecordRow, now: float) -> None:
        """Let the session of a record wait, unless its trace is to say which one that is."""
        registered = self._registry.of_record(row)
        if registered is None:
            return
        if not (row.lacks_session and need_of(row, registered) is Need.TRACE):
            self._sessions.admit(row, now)

    def _wait(
        self,
        row: RecordRow,
        waiting: Waiting,
        now: float,
        stored_bytes: int | None,
        *,
        of_broker: bool = False,
    ) -> None:
        """Let a stored record wait for what it needs."""
        match need_of(row, self._registry.of_record(row)):
            case Need.PROFILE:
                _log.warning(
                    "a record names the profile %.200r, which is not registered; it waits until "
                    "the deadline, then it is a dead letter. Register it, the same file as the "
                    "agent's", row.profile_ref,
                )  # fmt: skip
                self._join.wait_for_profile(waiting)
            case Need.TRACE:
                key = (row.space, row.trace_id or "")
                self._join.wait_for_trace(
                    key, waiting, now, stored_bytes=stored_bytes, of_broker=of_broker
                )
            case Need.NOTHING:
                self._join.wait_for_turn(waiting)

    def _open(self, space: str, rows: SpaceRows, seq: int, now: float) -> None:
        """Let the join know of stored spans, and find what is watched of them."""
        join = self._join
        opens = self._registry.watching(space) is not None
        spans = [span for span in rows.spans if is_evidence(span)]
        sizes = {id: sum(key.size_bytes for key in own.values()) for id, own in rows.ranks.items()}
        join.add_spans(
            space, spans, seq, now, known=rows.known, opens=opens, of_broker=rows.of_broker,
            sizes=sizes,
        )  # fmt: skip
        touched = {span.trace_id for span in spans}
        self._late.touched(space, touched, seq)
        self._sessions.spans_came(space, touched, now)
        if not opens:
            return
        for trace_id, own in by_trace(s for s in rows.spans if not is_log_event(s)).items():
            key = (space, trace_id)
            # The registry is as these spans found it: no change of a profile can be later.
            for each in self._deriver.selected(space, trace_id, own, _ANY, join.aliases(key)):
                join.watch(key, *each, now)

    def _refused(self, letters: Iterable[DeadLetter], seq: int, now: float) -> None:
        """Take note that traces lack a span: evaluations on them are looked at again."""
        for letter in letters:
            if letter.kind is LetterKind.SPAN and letter.uid:
                self._sessions.spans_came(letter.space, [letter.uid], now)
                self._late.touched(letter.space, [letter.uid], seq)


def _waiting(row: RecordRow, now: float, size_bytes: int = 0) -> Waiting:
    """A stored record as the join has it."""
    return Waiting(
        space=row.space, uid=row.uid, seq=row.seq, arrived=now, alias=row.alias,
        size_bytes=size_bytes,
    )  # fmt: skip
