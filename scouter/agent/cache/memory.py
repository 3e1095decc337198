"""A cache that lives as long as its process."""

import threading
import time
from collections.abc import Callable

from scouter.agent.cache.port import MAX_AGE_S, MAX_BYTES
from scouter.agent.cache.stored_reply import read, size_of, write
from scouter.evaluate.judge.port import JudgeReply


class MemoryCache:
    """Keeps answers in memory.

    Args:
        max_bytes: Most bytes of answers, as `size_of` counts them; the oldest make room.
        max_age_s: Answers older than this are not there.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        *,
        max_bytes: int = MAX_BYTES,
        max_age_s: float = MAX_AGE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_bytes, self._max_age_s, self._clock = max_bytes, max_age_s, clock
        self._lock = threading.Lock()
        self._kept: dict[bytes, tuple[float, int, str]] = {}
        """Time of storing, size in bytes, and text of each entry by its key; the oldest first."""
        self._bytes = 0

    async def get(self, key: bytes) -> JudgeReply | None:
        """Look an answer up."""
        with self._lock:
            found = self._kept.get(key)
            if found is None or found[0] < self._clock() - self._max_age_s:
                return None
        return read(found[2])

    async def put(self, key: bytes, reply: JudgeReply) -> None:
        """Keep an answer."""
        text = write(reply)
        size = 0 if text is None else size_of(text)
        if text is None or size > self._max_bytes:
            return
        with self._lock:
            self._drop(key)
            now = self._clock()
            self._kept[key] = now, size, text
            self._bytes += size
            while self._bytes > self._max_bytes or self._oldest() < now - self._max_age_s:
                self._drop(next(iter(self._kept)))

    def _oldest(self) -> float:
        return next(iter(self._kept.values()))[0]

    def _drop(self, key: bytes) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._bytes -= found[1]

    def close(self) -> None:
        """Nothing is open."""
