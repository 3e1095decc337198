"""Evaluations in doubt: late spans came, or senders' records in the place of derived ones."""

from collections.abc import Callable, Collection, Sequence

from collector.store.erase import EraseTarget
from collector.store.rows import RecordRow, watched_uid
from collector.store.store import Store
from collector.worker.begun import Begun
from collector.worker.committer import Committer
from collector.worker.derive import Deriver, SentRecord, sent_records
from collector.worker.join import Join
from collector.worker.late import LateSpans, LateWindow
from collector.worker.open_trace import Waiting
from collector.worker.revising import Revising
from collector.worker.sessions import SessionWork


class FollowUp:
    """Lets such records and sessions wait again; to be used by the worker's thread.

    Args:
        store: Has them.
        committer: Waits for the store.
        revising: Erases.
        join: Gets the records.
        sessions: Gets the sessions.
        late: The traces that got spans.
        window: The age of evaluations that stay.
        begun: Says what ended processes.
        deriver: Knows the alias of a record.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: Store,
        committer: Committer,
        revising: Revising,
        join: Join,
        sessions: SessionWork,
        late: LateSpans,
        window: LateWindow,
        begun: Begun,
        deriver: Deriver,
        *,
        now_ns: Callable[[], int],
    ) -> None:
        self._store, self._committer, self._revising = store, committer, revising
        self._join, self._sessions, self._late, self._window = join, sessions, late, window
        self._begun, self._deriver, self._now_ns = begun, deriver, now_ns

    def reopen(self, now: float, even_s: float) -> None:
        """Let records and sessions wait again whose evaluations have not seen all spans.

        Each waits by the rules of the join, so that it is judged at most once per settle time.

        Args:
            now: The time of the join.
            even_s: The time that runs while no broker lags.

        Raises:
            TransientError: The worker is to stop.
        """
        self._window.run(even_s, self._now_ns())
        traces = self._late.some()
        if not traces:
            return
        since_ns, space = self._late.since_ns(), traces[0].space
        seqs = {each.trace_id: each.seq for each in traces}
        found = self._committer.insist(
            lambda: self._store.evaluated_since(space, list(seqs), since_ns)
        )
        for each in found:
            seq, key = seqs[each.trace_id], (space, each.trace_id)
            if each.input_seq >= seq or self._join.is_again(key, each.uid):
                continue
            if self._begun.is_poison(space, each.uid):  # its evaluation stays
                self._begun.done(space, [each.uid])
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
            uids.setdefault(each.space, []).append(watched_uid(each.trace_id, each.alias))
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
