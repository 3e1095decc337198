"""One partition that a worker owns: its work on its share of the store, and its judges.

It comes with the group's assignment and goes with it. What it has in memory its next owner reads
again, from the store and from the offset in it.
"""

from collections.abc import Callable
from typing import Final, Protocol

from collector.fleet.share import Share
from collector.judging.worker import JudgeWorker
from collector.worker.worker import Worker


class WorkOf(Protocol):
    """Makes the work on one log and one share; nothing is started."""

    def __call__(self, share: Share, on_pending: Callable[[], None]) -> Worker:
        """Make it."""
        ...


class JudgingOf(Protocol):
    """Makes the part that asks judges about what is pending; nothing is started."""

    def __call__(self, share: Share, worker: Worker, /) -> JudgeWorker:
        """Make it."""
        ...


class OwnedPartition:
    """A partition in the hands of this process.

    Args:
        share: Its part of the store, taken.
        work_of: Makes its work.
        judging_of: Makes the part that asks its judges.
    """

    def __init__(self, share: Share, work_of: WorkOf, judging_of: JudgingOf) -> None:
        self.share: Final = share
        self.worker: Final = work_of(share, self._wake)
        self._judging: Final = judging_of(share, self.worker)

    def start(self) -> None:
        """Take up what an earlier owner left, and go on."""
        self.worker.start()
        self._judging.start()

    def stop(self) -> None:
        """Finish what is in hand, as far as the partition is still owned, and let it go."""
        self._judging.stop()
        self.worker.stop()
        self.share.close()

    def _wake(self) -> None:
        self._judging.wake()
