"""Commits: the order in which things become durable, and the wait for them."""

from typing import Protocol


class CommittedStore(Protocol):
    """The order of commits.

    A commit is numbered by whoever makes it, later ones higher; callbacks of futures run in that
    order. Reads see every commit whose future is done, from any thread.
    """

    def catch_up(self, timeout_s: float = 2.0, *, trace_id: str | None = None) -> bool:
        """Wait until reads see every span that was durable before this call.

        Args:
            timeout_s: At most so long.
            trace_id: Only spans of this trace matter; mostly there is nothing to wait for then.

        Returns:
            False if they do not after that time, or if the store takes nothing now.
        """
        ...

    def last_seq(self) -> int:
        """Number of the last commit."""
        ...

    def fault(self) -> str:
        """Reason that the last commit failed for now; empty if it did not."""
        ...
