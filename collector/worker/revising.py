"""Changes that others ask for: revisions, judges' answers, erasures, records that wait again.

One thread makes them and evaluates: else one of two revisions would be lost. Each is a commit of
its own, made while no other is on its way.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast

from collector.items.letters import Again
from collector.store.commit import Commit
from collector.store.erase import Erased, EraseTarget
from collector.store.rows import EvaluationRow, RecordRow, TaskRow
from collector.store.store import Store
from collector.worker.backfill import Added, commits_of, letters_of, still_missing
from collector.worker.committer import Committer
from collector.worker.late import LateSpans
from collector.worker.records import follows
from collector.worker.reevaluate import Revision
from collector.worker.stored_values import parts_of_rows
from scouter.errors import TransientError
from scouter.evaluate.results.record_result import record_outcome
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.ids import uuid7


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Next revision of an evaluation, once it is certain that none is later."""

    before: EvaluationRow
    """The evaluation with pending tasks."""
    tasks: tuple[TaskRow, ...]
    """All of its tasks, in the same order."""
    read_seq: int
    """Last commit before the evaluation and its record were read; later erasures are not in it."""
    duration_ns: int
    """Nanoseconds that the question to the judge took."""

    @property
    def key(self) -> tuple[str, str]:
        """Space and uid."""
        return self.before.space, self.before.record_uid

    def revision(self, now_ns: int) -> EvaluationRow:
        """The next evaluation: as the one before, but for what was pending."""
        before = self.before
        return replace(
            before,
            evaluation_id=uuid7(now_ns),
            # Rows have outcomes as results have them.
            outcome=record_outcome(cast(Iterable[EvalTaskResult], self.tasks)),
            duration_ns=before.duration_ns + self.duration_ns,
            **follows(before, now_ns),
            tasks=self.tasks,
        )


T = TypeVar("T")


class NotYetError(Exception):
    """Something that was requested has to wait.

    Args:
        offset: Of the log: until everything before it is in the store.
    """

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset: Final = offset


class Requests:
    """Actions that other threads have requested, and their answers."""

    def __init__(self) -> None:
        self._waiting: Final[deque[tuple[int, Callable[[], Any], Future[Any]]]] = deque()

    def put(self, action: Callable[[], T], offset: int = 0) -> "Future[T]":
        """Have something done by the worker's thread between two turns.

        Args:
            action: What is to be done.
            offset: Of the log: once everything before it is in the store.

        Returns:
            Done with the result, or with what the action raised.
        """
        future: Future[T] = Future()
        self._waiting.append((offset, action, future))
        return future

    def has_due(self, offset: int) -> bool:
        """Tell whether something can be done, with everything before an offset in the store."""
        return any(each <= offset for each, *_ in tuple(self._waiting))

    def do(self, offset: int) -> bool:
        """Do what can be done; says whether there was anything."""
        due = self.has_due(offset)
        for _ in range(len(self._waiting) if due else 0):
            wanted, action, future = self._waiting.popleft()
            if wanted > offset:
                self._waiting.append((wanted, action, future))
                continue
            try:
                future.set_result(action())
            except NotYetError as later:
                self._waiting.append((later.offset, action, future))
            except Exception as error:  # noqa: BLE001 who requested it gets it
                future.set_exception(error)
        return due

    def close(self) -> None:
        """Do nothing more: who waits has to try again."""
        while self._waiting:
            *_, future = self._waiting.popleft()
            future.set_exception(TransientError("the collector ends; ask again", 5))


class Replays:
    """Letters that replay has appended: no erasure passes them.

    Else an erasure would find neither the letter nor what comes of it.
    """

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._end = 0

    def append(self, append: Callable[[], object], end: Callable[[], int]) -> int:
        """Append while nothing is erased; an erasure that comes behind it waits until it is stored.

        Args:
            append: Appends what a letter holds, unless that is gone.
            end: The end of the log.

        Returns:
            The offset behind it.
        """
        with self._lock:
            try:
                append()
            finally:
                self._end = end()
            return self._end

    def erase(self, erase: Callable[[], Erased], offset: int) -> Erased:
        """Erase while nothing is appended.

        Args:
            erase: Erases.
            offset: Everything before it is stored.

        Raises:
            NotYetError: What was appended is not.
        """
        with self._lock:
            if self._end > offset:
                raise NotYetError(self._end)
            return erase()


class Revising:
    """Makes such changes; to be used by the worker's thread, between two turns.

    Args:
        store: Takes them.
        committer: Commits evaluations.
        late: Is notified of the traces that revisions have read.
        notify: Is notified of the evaluations that were stored.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: Store,
        committer: Committer,
        late: LateSpans,
        notify: Callable[[Sequence[EvaluationRow]], None],
        now_ns: Callable[[], int],
    ) -> None:
        self._store, self._committer, self._late, self._notify = store, committer, late, notify
        self._now_ns = now_ns
        self._erased_seq = store.last_seq()
        """The last erasure: whatever was read before it may hold what is gone."""

    def revise(self, revisions: Sequence[Revision]) -> frozenset[str]:
        """Store evaluations of another version of a profile, each behind the one before.

        A revision from before the last erasure is passed over, as it may quote erased data.

        Returns:
            Uids of the records and sessions whose latest evaluation is still the one before.

        Raises:
            TransientError: The store cannot be read, or the worker is to stop.
        """
        store = self._store
        latest = store.latest_evaluations([each.key for each in revisions])
        found = [
            each
            for each in revisions
            if (before := latest.get(each.key)) is not None
            and before.revision + 1 == each.row.revision
            and each.row.input_seq >= self._erased_seq
        ]
        seq = store.last_seq()
        self._commit([each.row for each in found])
        for each in found:
            self._late.judged(each.trace_ids)
            # Nobody has watched traces since they were read that no evaluation had read before.
            if each.row.input_seq < seq and not latest[each.key].reads_spans:
                self._late.touched(each.row.space, each.trace_ids, seq)
        return frozenset(each.row.record_uid for each in found)

    def add(self, added: Sequence[Added]) -> frozenset[str]:
        """Store first evaluations that come late; those that may quote erased data not.

        Returns:
            Uids of the records and sessions that had none until now.

        Raises:
            TransientError: The store cannot be read, or the worker is to stop.
        """
        recent = [each for each in added if each.row.input_seq >= self._erased_seq]
        found = still_missing(self._store, recent)
        if letters := letters_of(found):
            self._store.remove_dead_letters(found[0].row.space, letters)
        for each in commits_of(found):
            self._committer.store_now(each)
            self._notify(each.evaluations)
        for each in found:
            self._late.judged(each.trace_ids)
        return frozenset(each.row.record_uid for each in found)

    def settle(self, answers: Sequence[Answered]) -> list[bool]:
        """Store pending evaluations with a judge's answers, each as the next revision.

        The answers may quote data that was erased since the question was made.

        Args:
            answers: At most one for each record or session.

        Returns:
            False for each whose evaluation is another one now, or may have had what was erased: it
            is to be looked at again. True for the others: stored, or dropped as the record is gone.

        Raises:
            TransientError: The store cannot be read, or the worker is to stop.
        """
        latest = self._store.latest_evaluations([each.key for each in answers])
        now_ns, settled = self._now_ns(), list[bool]()
        rows: list[EvaluationRow] = []
        for each in answers:
            before = latest.get(each.key)
            is_latest = before is not None and before.evaluation_id == each.before.evaluation_id
            if is_latest and each.read_seq >= self._erased_seq:
                rows.append(each.revision(now_ns))
                settled.append(True)
            else:
                settled.append(before is None)
        self._commit(rows)
        return settled

    def erase(self, target: EraseTarget) -> Erased:
        """Erase something. Where spans wait for their time, they are missed as it comes.

        Raises:
            TransientError: The store takes nothing now.
        """
        erased = self._store.erase(target)
        self._erased_seq = self._store.last_seq()
        return erased

    def admit_again(self, space: str, again: Again, wait: Callable[[RecordRow], None]) -> None:
        """Remove the letter of an accepted record, which waits again from then on.

        Args:
            space: Its space.
            again: The record and the letter.
            wait: Lets it wait.

        Raises:
            TransientError: The store takes nothing now.
        """
        rows = self._store.records_of(space, [again.uid])
        if self._store.remove_dead_letters(space, [again.letter_id]).letter_ids:
            for each in rows:
                wait(each)

    def _commit(self, rows: Sequence[EvaluationRow]) -> None:
        for part in parts_of_rows(rows):
            self._committer.store_now(Commit(evaluations=list(part)))
            self._notify(part)
