"""Commits rows, however long the store takes nothing, and trims the log behind them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final, TypeVar

from collector.log.port import Log
from collector.store.commit import Commit, RecordId, arrow_tables
from collector.store.store import Store
from collector.worker.letters import letter_of_evaluation, letter_of_record
from scouter.errors import DataError, TransientError


def sift(commit: Commit) -> int:
    """Put letters in the place of records and evaluations that cannot be stored.

    Args:
        commit: Is changed.

    Returns:
        Number of rows that were taken out.

    Cost: each row is made ready for the store alone, about 1 ms.
    """
    records = {id(row): why for row in commit.records if (why := _fault(Commit(records=[row])))}
    evaluations = {
        id(row): why for row in commit.evaluations if (why := _fault(Commit(evaluations=[row])))
    }
    for row in commit.records:
        if why := records.get(id(row)):  # it was never accepted
            letter = letter_of_record(row, "invalid_record", why)
            commit.letters.append(replace(letter, source="log", uid="", was_accepted=False))
    for row in commit.evaluations:
        if why := evaluations.get(id(row)):
            commit.letters.append(letter_of_evaluation(row, why))
    gone = {(row.space, row.uid) for row in commit.records if id(row) in records}
    commit.evaluations = [
        row
        for row in commit.evaluations
        if id(row) not in evaluations and (row.space, row.record_uid) not in gone
    ]
    commit.records = [row for row in commit.records if id(row) not in records]
    return len(records) + len(evaluations)


def _fault(alone: Commit) -> str:
    """Reason that a row cannot be stored; empty if it can."""
    try:
        list(arrow_tables(alone, 0))
    except DataError as error:
        return str(error)
    return ""


RETRY_S: Final = 1.0
"""Between two tries while the store takes nothing."""

T = TypeVar("T")


class Committer:
    """Has a thread of its own, so that one commit may be on its way while the next is prepared.

    Args:
        store: Takes the rows.
        log: Is trimmed.
        stopping: Once set, a store that takes nothing is given up.
    """

    def __init__(self, store: Store, log: Log, stopping: threading.Event) -> None:
        self._store, self._log, self._stopping = store, log, stopping
        self._pool: Final = ThreadPoolExecutor(1, thread_name_prefix="worker-commit")
        self.fault = ""
        """Reason that the store takes or gives nothing now; empty if it does."""

    def close(self) -> None:
        """End the thread, once what is on its way is there or given up."""
        self._pool.shutdown()

    def send(self, commit: Commit) -> "Future[int]":
        """Send rows on their way; one commit at a time.

        Returns:
            Done once they are durable, with the number of the commit. It fails with
            `TransientError` only where the worker is to stop.
        """
        return self._pool.submit(self._commit, commit)

    def note(self, starts: list[RecordId]) -> None:
        """Note what begins now, while no commit is on its way.

        Raises:
            TransientError: The worker is to stop.
        """
        self.insist(lambda: self._store.commit(Commit(started=starts)))

    def store_now(self, commit: Commit) -> int:
        """Store rows that have nothing of the log, while no commit is on its way.

        Raises:
            TransientError: The worker is to stop.
        """
        return self.insist(lambda: self._try(commit))

    def insist(self, action: Callable[[], T]) -> T:
        """Try something until it works.

        Raises:
            TransientError: The worker is to stop.
        """
        while True:
            try:
                found = action()
            except TransientError as error:
                self.wait_after(error)
            else:
                self.fault = ""
                return found

    def wait_after(self, error: TransientError) -> None:
        """Wait before something is tried again.

        Raises:
            TransientError: The error; the worker is to stop.
        """
        self.fault = str(error)
        if self._stopping.wait(RETRY_S):
            raise error

    def _commit(self, commit: Commit) -> int:
        seq = self.insist(lambda: self._try(commit))
        self._log.trim(self._store.offset)
        return seq

    def _try(self, commit: Commit) -> int:
        try:
            return self._store.commit(commit)
        except DataError:
            if not sift(commit):
                raise
            return self._store.commit(commit)
