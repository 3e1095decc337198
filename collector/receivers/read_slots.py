"""How many messages are read at a time, where their size is known only once they are here."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from collector.receivers.budget import FullError

_WAIT_S: Final = 5.0
_READ_S: Final = 60.0


class ReadSlots:
    """A bound on readers. One that takes too long is cut off if others wait.

    Args:
        count: Readers at a time.
        wait_s: Seconds that a reader waits for its turn.
        read_s: Seconds that a message may take to arrive while others wait.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        count: int,
        *,
        wait_s: float = _WAIT_S,
        read_s: float = _READ_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count: Final = count
        self._wait_s, self._read_s, self._clock = wait_s, read_s, clock
        self._free = threading.Semaphore(count)
        self._lock = threading.Lock()
        self._readers: dict[object, tuple[float, Callable[[], object]]] = {}

    @contextmanager
    def slot(self, cut_off: Callable[[], object]) -> Generator[None]:
        """Wait for a turn; inside the block the message is read.

        Args:
            cut_off: Ends the reading; called from another thread.

        Raises:
            FullError: There was no turn in time.
        """
        if not self._free.acquire(timeout=self._wait_s):
            self._cut_off_the_slow()
            raise FullError("other messages are still being read; send the same again later")
        reader = object()
        with self._lock:
            self._readers[reader] = (self._clock(), cut_off)
        try:
            yield
        finally:
            with self._lock:
                del self._readers[reader]
            self._free.release()

    def _cut_off_the_slow(self) -> None:
        oldest = self._clock() - self._read_s
        with self._lock:
            slow = [cut_off for began, cut_off in self._readers.values() if began < oldest]
        for cut_off in slow:
            cut_off()
