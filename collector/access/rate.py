"""Rate limits, one bucket for each caller."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

_KEYS: Final = 10_000
"""That are remembered; the one used longest ago is forgotten first, which lets it begin anew."""


class RateLimit:
    """A bucket of tokens for each key (a "token bucket", as in RFC 2697); any thread.

    Args:
        per_s: Calls per second in the long run.
        burst: Calls at once.
        clock: Monotonic seconds.
    """

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float]) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable) -> float:
        """Do it once, if the key may.

        Returns:
            0 if it may; else the seconds until it may, and nothing was taken.
        """
        with self._lock:
            level, now = self._level(key)
            if level < 1:
                return (1 - level) / self._per_s
            self._levels[key] = level - 1, now
            self._levels.move_to_end(key)
            if len(self._levels) > _KEYS:
                self._levels.popitem(last=False)
            return 0.0

    def _level(self, key: Hashable) -> tuple[float, float]:
        now = self._clock()
        level, at = self._levels.get(key, (self._burst, now))
        return min(self._burst, level + (now - at) * self._per_s), now
