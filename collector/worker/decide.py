"""Decides what is due: one space after the other, records first, then sessions."""

import threading
from collections.abc import Callable, Collection
from typing import Final

from collector.store.commit import RecordId
from collector.store.reads import NoMemoryError
from collector.worker.committer import Committer
from collector.worker.derive import SentRecord
from collector.worker.join import Join
from collector.worker.judge import Judge, Results, due_now
from collector.worker.parts import Parts
from collector.worker.prepare import Prepared
from collector.worker.profiles import ProfileRegistry
from collector.worker.ready import Need, need_of
from collector.worker.recover import PAUSE_S, POSTPONED_S, Starts
from collector.worker.sessions import SessionWork, session_id
from collector.worker.stored_values import size_of
from scouter.errors import TransientError


class Decider:
    """Decides records and sessions for one commit; to be used by the worker's thread.

    Args:
        registry: Finds the profile of a record.
        join: Has the records that are due.
        parts: Takes them out.
        judge: Judges records that wait for nothing.
        sessions: Has the sessions that are due.
        starts: Says what is decided alone, and what later.
        committer: Notes what begins.
        clock: Monotonic seconds.
        stopping: Ends a wait.
    """

    def __init__(
        self,
        registry: ProfileRegistry,
        join: Join,
        parts: Parts,
        judge: Judge,
        sessions: SessionWork,
        starts: Starts,
        committer: Committer,
        *,
        clock: Callable[[], float],
        stopping: threading.Event,
    ) -> None:
        self._registry, self._join, self._parts, self._judge = registry, join, parts, judge
        self._sessions, self._starts, self._committer = sessions, starts, committer
        self._clock, self._stopping = clock, stopping
        self._began: Final = clock()

    def as_they_come(
        self, prepared: Prepared, results: Results, until: float
    ) -> frozenset[tuple[str, str]]:
        """Judge records of this very commit that wait for nothing; returns their keys.

        Args:
            prepared: The entries of the commit.
            results: Gets evaluations and letters.
            until: The clock's time at which no further record is started.
        """
        done: set[tuple[str, str]] = set()
        if self._starts.is_careful:  # then they are stored before
            return frozenset()
        for space, rows in prepared.by_space.items():
            due = [
                due_now(row)
                for row in rows.records
                if need_of(row, self._registry.of_record(row)) is Need.NOTHING
            ]
            left = self._judge.judge(due, {}, results, until)
            done.update((space, each.ready.record.uid) for each in due)
            done.difference_update((space, each.ready.record.uid) for each in left)
        return frozenset(done)

    def decide(
        self, results: Results, until: float, arriving: Collection[SentRecord], now: float
    ) -> float:
        """Decide what is due, until the time is over; something in any case.

        Args:
            results: Gets what is decided.
            until: The clock's time at which no further part is started.
            arriving: Senders' records of the commit that is being made.
            now: The time of the join.

        Returns:
            The seconds that it took.

        Raises:
            TransientError: The worker is to stop.
        """
        began = self._clock()
        self._join.look(now)
        self._sessions.look(now)
        while self._join.has_due and (space := self._join.next_space()) is not None:
            is_done = self._decide_part(space, results, arriving, now)
            # With care, what was judged is stored before anything else is started.
            if not is_done or self._is_over(results, until):
                break
        while self._sessions.has_due:
            self._decide_sessions(results, until)
            if self._is_over(results, until):
                break
        return self._clock() - began

    def _is_over(self, results: Results, until: float) -> bool:
        return self._starts.is_careful or results.is_full or self._clock() >= until

    def _decide_part(
        self, space: str, results: Results, arriving: Collection[SentRecord], now: float
    ) -> bool:
        """Decide some records of a space; says whether they could be read."""
        part = self._parts.take(space, self._starts)
        try:
            decided = self._parts.decide(part, now, arriving)
        except TransientError as error:
            self._parts.give_back(part)
            if len(part) == 1 or not isinstance(error, NoMemoryError):  # else fewer are read now
                self._committer.wait_after(error)
            return False
        noted = self._starts.to_note(space, decided.uids)
        if noted:
            self._committer.note(noted)
        self._parts.finish(part, decided, results)
        self._starts.done(space, decided.uids)
        return True

    def _decide_sessions(self, results: Results, until: float) -> None:
        """Evaluate some sessions of one space."""
        part = self._sessions.take(self._starts)
        is_early = self._clock() < self._began + POSTPONED_S
        if is_early and any(self._starts.is_postponed(*session_id(each)) for each in part):
            self._sessions.put_back(part)
            self._stopping.wait(PAUSE_S)
            return
        try:
            noted = self._sessions.to_note(part, self._starts)
            if noted:
                self._committer.note(noted)
            rows, waits_s = self._sessions.judge(part, self._starts, until)
        except TransientError as error:
            self._sessions.put_back(part)
            if len(part) == 1 or not isinstance(error, NoMemoryError):
                self._committer.wait_after(error)
            return
        for row, wait_s in zip(rows, waits_s, strict=True):
            results.commit.evaluations.append(row)
            results.waits_s[RecordId(row.space, row.record_uid)] = wait_s
            results.size += size_of(row.tasks)
