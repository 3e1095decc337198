"""Progress watch: notices when nothing is evaluated although something is due."""

import threading
import time
from collections.abc import Callable
from typing import Final

STALLED_S: Final = 60.0
"""Seconds without an evaluation, while one is due, after which the collector is not ready."""


class Progress:
    """Told by the thread that judges; any thread may ask.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._moved_at = clock()
        self._is_idle = True
        self._trouble = ""

    def begin(self) -> None:
        """A round begins: from now on something may be due."""
        with self._lock:
            if self._is_idle:
                self._is_idle, self._moved_at = False, self._clock()

    def moved(self) -> None:
        """Something was decided, or a round left nothing that is due."""
        with self._lock:
            self._moved_at, self._trouble = self._clock(), ""

    def rest(self) -> None:
        """The round left nothing that is due."""
        with self._lock:
            self._is_idle, self._moved_at, self._trouble = True, self._clock(), ""

    def trouble(self, why: str) -> None:
        """Remember what keeps it from going on."""
        with self._lock:
            self._trouble = why

    def stalled_s(self) -> float:
        """Seconds since something was decided, while something is due; else 0."""
        with self._lock:
            return 0.0 if self._is_idle else self._clock() - self._moved_at

    def fault(self) -> str:
        """Reason that no evaluation was made for too long; empty if one was, or none is due."""
        stalled_s = self.stalled_s()
        if stalled_s < STALLED_S:
            return ""
        why = self._trouble or "a round of judging takes so long"
        return f"nothing was judged for {stalled_s:.0f} s although something is due: {why}"
