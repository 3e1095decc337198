"""The worker's thread, and what other threads ask of it."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Protocol

from collector.store.erase import Erased, EraseTarget
from collector.worker.backfill import Added
from collector.worker.committer import RETRY_S
from collector.worker.reevaluate import Revision
from collector.worker.revising import Answered
from collector.worker.work import Work
from scouter.errors import TransientError

_log: Final = logging.getLogger(__name__)
CATCH_UP_S: Final = 2.0
"""Longest wait of a read for what was acknowledged before it."""


class WorkOrders(Protocol):
    """What a worker does for who serves people; any thread."""

    def wait_for(self, offset: int, timeout_s: float) -> bool:
        """Wait until everything before an offset of the log is stored; False after the time."""
        ...

    def append_again(self, append: Callable[[], object]) -> int:
        """Append what a dead letter holds; returns the offset behind it."""
        ...

    def revise(self, revisions: Sequence[Revision]) -> "Future[frozenset[str]]":
        """Store evaluations of another version of a profile; see `Revising.revise`."""
        ...

    def add(self, added: Sequence[Added]) -> "Future[frozenset[str]]":
        """Store first evaluations that come late; see `Revising.add`."""
        ...


class Worker(Work):
    """Does the work in a thread of its own; see `Work` for the arguments."""

    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to work in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the turn and its commit, and end the thread."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._committer.close()
        self._requests.close()

    def fault(self) -> str:
        """Reason that no evaluation was made for too long; empty if one was, or none is due."""
        if self._thread is None or self._thread.is_alive() or self._stopping.is_set():
            return self._progress.fault()
        return "the thread that judges has ended"

    def wait_for(self, offset: int, timeout_s: float) -> bool:
        """Wait until everything before an offset of the log is in the store.

        Returns:
            False if it is not after so many seconds.
        """
        with self._stored:
            return self._stored.wait_for(lambda: self._store.offset >= offset, timeout_s)

    def catch_up(self, timeout_s: float = CATCH_UP_S) -> bool:
        """Wait until everything that was acknowledged before is in the store.

        Returns:
            False if it is not after so many seconds: what is read then lacks `behind_bytes`.
        """
        return self.wait_for(self._log.end, timeout_s)

    def profiles_changed(self) -> "Future[None]":
        """Look again at records whose profile was not known, and tell who follows profiles."""
        return self._requests.put(self._follow_profiles)

    def erase(self, target: EraseTarget) -> "Future[Erased]":
        """Erase something between two turns: no evaluation on what goes is in the making then.

        Everything that was acknowledged before this call is stored before, and goes.

        Returns:
            Done once no read finds it; it fails with `TransientError` if the store takes nothing.
        """
        return self._requests.put(lambda: self._erase(target), self._log.end)

    def append_again(self, append: Callable[[], object]) -> int:
        """Append what a dead letter holds; see `Replays.append`."""
        return self._replays.append(append, lambda: self._log.end)

    def revise(self, revisions: Sequence[Revision]) -> "Future[frozenset[str]]":
        """Store evaluations of another version of a profile; see `Revising.revise`."""
        return self._requests.put(lambda: self._revising.revise(revisions))

    def add(self, added: Sequence[Added]) -> "Future[frozenset[str]]":
        """Store first evaluations that come late; see `Revising.add`."""
        return self._requests.put(lambda: self._revising.add(added))

    def settle(self, answers: Sequence[Answered]) -> "Future[list[bool]]":
        """Store what a judge's answers make of pending evaluations; see `Revising.settle`."""
        return self._requests.put(lambda: self._revising.settle(answers))

    def _run(self) -> None:
        self._store.works_here()
        while not self._stopping.is_set():
            try:
                self.turn()
            except TransientError:  # it is to stop
                break
            except Exception as error:  # noqa: BLE001 whatever it is, nothing is lost by it
                # What is in memory may be half of a turn: the store has what holds.
                _log.exception("the worker begins anew from the store")
                self._trouble = repr(error)
                self._progress.trouble(self._trouble)
                if not self._stopping.wait(RETRY_S):
                    self._begin_anew()
        try:
            self._land()
        except TransientError as error:
            _log.warning("given up at the end: %s; the log has what is not stored", error)
