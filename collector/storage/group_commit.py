"""One writer thread: what arrives while a commit runs is committed together by the next one."""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Generic, Protocol, TypeVar

from scouter.errors import DataError, TransientError

_log: Final = logging.getLogger(__name__)
_GROUP_ROWS: Final = 20_000
"""A commit takes no further job once it has so many rows."""


class Job(Protocol):
    """Rows that want to be stored, and who waits for it."""

    @property
    def size(self) -> int:
        """Number of rows, for the size of a group."""
        ...

    @property
    def future(self) -> "Future[object]":
        """Answered after the commit."""
        ...


JobT = TypeVar("JobT", bound=Job)


class GroupWriter(Generic[JobT]):
    """Commits jobs in the order in which they were submitted, many at a time.

    Args:
        commit: Stores a group in one transaction and returns each job's answer; raises
            TransientError or DataError and then has stored nothing of the group.
    """

    def __init__(self, commit: Callable[[Sequence[JobT]], Sequence[object]]) -> None:
        self._commit = commit
        self._jobs: queue.SimpleQueue[JobT | None] = queue.SimpleQueue()
        self._closed = False
        self.fault = ""
        """Why the last commit failed for now; empty if it did not."""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="scouter-store")
        self._thread.start()

    def submit(self, job: JobT) -> None:
        """Hand a job over; its future is answered by the writer thread.

        Raises:
            TransientError: The writer is closed.
        """
        with self._lock:
            if self._closed:
                raise TransientError("the store is closed")
            job.future.set_running_or_notify_cancel()  # nobody can take a job back
            self._jobs.put(job)

    def close(self) -> None:
        """Commit everything submitted so far, then end the thread."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        closing = False
        while not closing:
            group: list[JobT] = []
            rows = 0
            job = self._jobs.get()
            while True:
                if job is None:
                    closing = True
                    break
                group.append(job)
                rows += job.size
                if rows >= _GROUP_ROWS or self._jobs.empty():
                    break
                job = self._jobs.get()
            if group:
                self._store(group)

    def _store(self, group: Sequence[JobT]) -> None:
        try:
            answers = self._commit(group)
        except TransientError as error:
            self.fault = str(error)
            for job in group:
                job.future.set_exception(error)
        except Exception as error:  # noqa: BLE001 the writer outlives any failed commit
            if len(group) > 1:
                for job in group:  # one job's rows must not fail the others'
                    self._store([job])
                return
            if not isinstance(error, DataError):
                _log.exception("a commit failed")
                error = DataError(f"the store failed on these rows: {error!r}")
            group[0].future.set_exception(error)
        else:
            self.fault = ""
            for job, answer in zip(group, answers, strict=True):
                job.future.set_result(answer)
