"""Stored rows begin to wait: for their trace, their profile, or the turn of their space.

So do those again whose evaluations are in doubt: late spans came, or senders' records in the place
of derived ones.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from collector.store.erase import EraseTarget
from collector.store.letters import DeadLetter, LetterKind
from collector.store.reads import LAST
from collector.store.rows import RecordRow
from collector.store.store import Store
from collector.worker.committer import Committer
from collector.worker.derive import Deriver, SentRecord, by_trace, sent_records
from collector.worker.join import Join
from collector.worker.late import LateSpans
from collector.worker.open_trace import Waiting
from collector.worker.prepare import Prepared, SpaceRows
from collector.worker.profiles import ProfileRegistry
from collector.worker.ready import Need, need_of
from collector.worker.recover import Starts
from collector.worker.revising import Revising
from collector.worker.sessions import SessionWork
from scouter.evaluate.spans.derived import derived_uid
from scouter.model.log_event import is_evidence, is_log_event

_log: Final = logging.getLogger(__name__)


class Arrivals:
    """Lets records and sessions wait, for the first time or again; to be used by one thread.

    Args:
        store: Has the records, and the evaluations that late spans put in doubt.
        committer: Waits for the store.
        revising: Erases derived records in whose place senders' come.
        registry: Finds the profile of a record.
        join: Gets records and traces.
        sessions: Gets the same.
        late: Gets the traces that got spans, and has those to look at again.
        starts: Says what ended processes.
        deriver: Finds the profiles that watch a trace.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: Store,
        committer: Committer,
        revising: Revising,
        registry: ProfileRegistry,
        join: Join,
        sessions: SessionWork,
        late: LateSpans,
        starts: Starts,
        deriver: Deriver,
        *,
        now_ns: Callable[[], int],
    ) -> None:
        self._store, self._committer, self._revising = store, committer, revising
        self._registry, self._join, self._sessions = registry, join, sessions
        self._late, self._starts, self._deriver, self._now_ns = late, starts, deriver, now_ns

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
                    "the deadline, then it is a dead letter. Register the file that the agent has: "
                    "scouter profile push FILE", row.profile_ref,
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
            for each in self._deriver.selected(space, trace_id, own, LAST, join.aliases(key)):
                join.watch(key, *each, now)

    def _refused(self, letters: Iterable[DeadLetter], seq: int, now: float) -> None:
        """Take note that traces lack a span: evaluations on them are looked at again."""
        for letter in letters:
            if letter.kind is LetterKind.SPAN and letter.uid:
                self._sessions.spans_came(letter.space, [letter.uid], now)
                self._late.touched(letter.space, [letter.uid], seq)

    # --- evaluations in doubt ---------------------------------------------------------------

    def reopen(self, now: float, even_s: float) -> None:
        """Let records and sessions wait again whose evaluations have not seen all spans.

        Each waits by the rules of the join, so that it is judged at most once per settle time.

        Args:
            now: The time of the join.
            even_s: The time that runs while no broker lags.

        Raises:
            TransientError: The worker is to stop.
        """
        self._late.window.run(even_s, self._now_ns())
        traces = self._late.some()
        if not traces:
            return
        since_ns, space = self._late.window.since_ns(), traces[0].space
        seqs = {each.trace_id: each.seq for each in traces}
        found = self._committer.insist(
            lambda: self._store.evaluated_since(space, list(seqs), since_ns)
        )
        for each in found:
            seq, key = seqs[each.trace_id], (space, each.trace_id)
            if each.input_seq >= seq or self._join.is_again(key, each.uid):
                continue
            if self._starts.is_poison(space, each.uid):  # its evaluation stays
                self._starts.done(space, [each.uid])
                continue
            waiting = Waiting(space=space, uid=each.uid, seq=seq, arrived=now, is_again=True)
            self._join.wait_for_trace(key, waiting, now, stored_bytes=0)
        self._committer.insist(lambda: self._sessions.reopen(traces, since_ns, now))
        self._late.done(traces)

    def supersede(self, rows: Sequence[RecordRow], now: float) -> Collection[SentRecord]:
        """Erase the derived records in whose place senders' records come.

        These are stored behind that: if the process ends in between, they are read again.

        Args:
            rows: Records that are about to be stored.
            now: The time of the join.

        Returns:
            The senders' records of traces among them.

        Raises:
            TransientError: The worker is to stop.
        """
        arriving = sent_records(rows, self._deriver)
        uids: dict[str, list[str]] = {}
        for each in arriving:
            uids.setdefault(each.space, []).append(derived_uid(each.trace_id, each.alias))
        for space, own in uids.items():
            there = self._committer.insist(
                lambda of=space, uids=own: self._store.stored_records(of, uids)
            )
            if there:
                self._superseded(space, tuple(sorted(there)), now)
        return arriving

    def _superseded(self, space: str, uids: tuple[str, ...], now: float) -> None:
        insist = self._committer.insist
        rows = insist(lambda: self._store.records_of(space, uids))
        insist(lambda: self._revising.erase(EraseTarget(space=space, superseded=uids)))
        for row in rows:  # the rest of its session is evaluated anew
            self._sessions.admit(row, now)


def _waiting(row: RecordRow, now: float, size_bytes: int = 0) -> Waiting:
    """A stored record as the join has it."""
    return Waiting(
        space=row.space, uid=row.uid, seq=row.seq, arrived=now, alias=row.alias,
        size_bytes=size_bytes,
    )  # fmt: skip
