"""Memory of requests that are in hand, counted in bytes."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any

from scouter.errors import TransientError

RETRY_AFTER_S = 1
"""Seconds after which senders may try again when the memory is full."""


class FullError(TransientError):
    """The bounded memory is full; the sender should come back soon."""

    def __init__(self, message: str) -> None:
        super().__init__(message, RETRY_AFTER_S)


class ByteBudget:
    """One bound over all requests that are not answered yet.

    Args:
        limit: Bytes as received and as decompressed; the objects made of them take several times
            as much, which is why the bound is well below the memory that the process may use.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._used = 0

    @property
    def used(self) -> int:
        """Bytes taken."""
        return self._used

    @property
    def is_full(self) -> bool:
        """True if nothing more should be read."""
        return self.used >= self.limit

    def lease(self) -> "Lease":
        """A share of the memory for one request; a context manager that gives it back."""
        return Lease(self)

    def add(self, size: int) -> bool:
        """Take bytes if they fit; give them back with a negative size.

        Returns:
            False if they do not fit; nothing is taken then.
        """
        with self._lock:
            if size > 0 and self._used + size > self.limit:
                return False
            self._used += size
            return True


class Lease:
    """The bytes of one request.

    Args:
        budget: The budget that the bytes are taken from.
    """

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._commits: Sequence[Future[Any]] = ()
        self.size = 0

    def take(self, size: int) -> None:
        """Take more bytes.

        Raises:
            FullError: They do not fit now.
        """
        if not self._budget.add(size):
            raise FullError(
                f"the collector's memory for requests ({self._budget.limit} bytes) is full; "
                "send the same again later"
            )
        self.size += size

    def give_back(self, size: int) -> None:
        """Give back bytes that were taken and are not needed."""
        self._budget.add(-size)
        self.size -= size

    def keep_until(self, commits: "Sequence[Future[Any]]") -> None:
        """Give nothing back before commits have ended, be they given up meanwhile.

        A request that waits for a disk that hangs is in memory, with or without a caller.
        """
        self._commits = commits

    def __enter__(self) -> "Lease":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        size, self.size = self.size, 0
        self._give_back_after(size, self._commits)

    def _give_back_after(
        self,
        size: int,
        commits: "Sequence[Future[Any]]",
        ended: "Future[Any] | None" = None,
    ) -> None:
        """Give bytes back once all commits have ended; called again by each that is waited for."""
        for at, commit in enumerate(commits):
            if not commit.done():
                commit.add_done_callback(partial(self._give_back_after, size, commits[at + 1 :]))
                return
        self._budget.add(-size)
