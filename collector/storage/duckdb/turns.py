"""A few at a time, first come, first served."""

import threading
from collections import deque
from types import TracebackType


class Turns:
    """Lets so many threads in at a time; whoever leaves hands the turn to who has waited longest.

    `threading.Semaphore` knows no order: a thread that leaves and comes back at once is in again
    before one that it woke, which may wait for ever.

    Args:
        count: Number of turns at a time, at least 1.
    """

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._waiting = deque[threading.Lock]()

    def __enter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            handed = threading.Lock()
            handed.acquire()
            self._waiting.append(handed)
        handed.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1
