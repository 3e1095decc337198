"""One writer thread: what arrives while a commit runs is committed together by the next one."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Generic, Protocol, TypeVar

from scouter.errors import DataError, TransientError

_log: Final = logging.getLogger(__name__)
_RETRY_S: Final = 0.5
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


class _Nothing:
    """No job came, or no other one is to be waited for."""


_NOTHING: Final = _Nothing()


class GroupWriter(Generic[JobT]):
    """Commits jobs in the order in which they were submitted, many at a time.

    A job that was promised already is tried until it is stored, before all that came behind it;
    the others fail with the commit.

    Args:
        commit: Stores a group in one transaction and returns each job's answer; raises
            TransientError or DataError and then has stored nothing of the group.
        instead: Gives the job to store in place of a promised job whose rows can never be stored;
            None for a job that was not promised.
        is_promised: Says whether a job was promised.
        afterwards: Called between two commits, once the jobs of the first are answered; and every
            half second after a commit that failed for now, or while it raises TransientError
            itself, until it no longer does.
        pause_s: Promised jobs, which nobody waits for, are committed this long after the last
            commit, so that more of them come together: a commit costs as much as the rows of a
            hundred spans. Any other job, or `hurry`, ends the pause.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[JobT]], Sequence[object]],
        instead: Callable[[JobT, DataError], JobT | None] = lambda job, error: None,
        is_promised: Callable[[JobT], bool] = lambda job: False,
        afterwards: Callable[[], None] = lambda: None,
        pause_s: float = 0.0,
    ) -> None:
        self._commit, self._instead, self._is_promised = commit, instead, is_promised
        self._afterwards = afterwards
        self._pause_s = pause_s
        self._paused_until = 0.0
        self._held: list[JobT] = []
        self._has_failed = False
        """True if the last try to commit failed for now."""
        self._jobs: queue.SimpleQueue[JobT | _Nothing | None] = queue.SimpleQueue()
        self._closed = False
        self.fault = ""
        """Fault of the last commit, or of the work behind it, for now; empty if neither failed."""
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

    def hurry(self) -> None:
        """Have what was submitted committed without a pause: somebody waits for it."""
        self._jobs.put(_NOTHING)

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
            closing = self._store_next()  # its rows are let go before anything else is done
            if not self._has_failed:
                self._tend()
        for job in self._held:
            job.future.set_exception(TransientError("the store was closed before it could write"))

    def _store_next(self) -> bool:
        """Wait for jobs and store them, after those held back; tells whether these are the last."""
        group, self._held = self._held, []
        rows = sum(job.size for job in group)
        is_awaited = False
        job = self._next(_RETRY_S if self.fault else None)
        while job is not None and not isinstance(job, _Nothing):
            group.append(job)
            rows += job.size
            if rows >= _GROUP_ROWS:
                break
            is_awaited = is_awaited or not self._is_promised(job)
            pause_s = 0.0 if is_awaited else self._paused_until - time.monotonic()
            job = self._next(max(0.0, pause_s))
        self._has_failed = False
        if group:
            self._store(group)
            self._paused_until = time.monotonic() + self._pause_s
        return job is None

    def _next(self, timeout_s: float | None) -> JobT | _Nothing | None:
        """The next job; None for the end, `_NOTHING` if none comes in time."""
        try:
            return self._jobs.get(timeout=timeout_s) if timeout_s != 0 else self._jobs.get_nowait()
        except queue.Empty:
            return _NOTHING

    def _store(self, group: Sequence[JobT]) -> None:
        try:
            answers = self._commit(group)
        except TransientError as error:
            self._put_off(group, error)
        except Exception as error:  # noqa: BLE001 the writer outlives any failed commit
            if len(group) > 1:
                for at, job in enumerate(group):  # one job's rows must not fail the others'
                    self._store([job])
                    if self._held:  # none may overtake it
                        self._put_off(group[at + 1 :], TransientError(self.fault))
                        return
                return
            if not isinstance(error, DataError):
                _log.exception("a commit failed")
                error = DataError(f"the store failed on these rows: {error!r}")
            self._refuse(group[0], error)
        else:
            self.fault = ""
            for job, answer in zip(group, answers, strict=True):
                job.future.set_result(answer)

    def _tend(self) -> None:
        self.fault = ""
        try:
            self._afterwards()
        except TransientError as error:
            self.fault = str(error)
        except Exception:  # noqa: BLE001 without the thread nothing would ever be stored again
            _log.exception("what is due between two commits failed; it is tried after the next")

    def _put_off(self, group: Sequence[JobT], error: TransientError) -> None:
        self.fault, self._has_failed = str(error), True
        for job in group:
            if self._is_promised(job):
                self._held.append(job)
            else:
                job.future.set_exception(error)

    def _refuse(self, job: JobT, error: DataError) -> None:
        """Fail a job for good; of a promised one something stays in its place."""
        other = self._instead(job, error)
        if other is not None:
            try:
                self._commit([other])
            except TransientError as fault:
                self._put_off([job], fault)
                return
            except Exception:  # noqa: BLE001 told below as well
                _log.exception("a promised batch is lost")
        job.future.set_exception(error)
