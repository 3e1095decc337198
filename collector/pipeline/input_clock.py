"""The join's time: it runs only while whatever brings spans is caught up.

An outage of the store, a topic that lags, a broker that does not answer: spans that exist are not
here then, and a record that waits for them must not be told that its time is over.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_NEVER: Final = float("-inf")


@dataclass(slots=True)
class _Source:
    """What one source said last."""

    caught_up_at: float
    """When it had everything, at last."""
    reported_at: float
    is_caught_up: bool


class InputClock:
    """Seconds that passed while every source had handed over what there was to hand over.

    Any thread may report; one thread ticks.

    Args:
        clock: Monotonic seconds.
        grace_s: A source may be behind for so long before time stands still: under load there is
            always something that has not been read yet.
        stale_s: A source that has said nothing for so long is behind: it hangs.
        max_step_s: Time between two ticks counts up to this; beyond, the process was stopped, and
            nothing could come in.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        grace_s: float = 1.0,
        stale_s: float = 5.0,
        max_step_s: float = 1.0,
    ) -> None:
        self._clock, self._grace_s, self._stale_s = clock, grace_s, stale_s
        self.max_step_s: Final = max_step_s
        """`tick` has to be called at least so often for all time to count."""
        self._lock = threading.Lock()
        self._sources: dict[str, _Source] = {}
        self._ticked = clock()
        self._now = 0.0

    def add(self, source: str) -> None:
        """Name a source of spans that can lag; it is behind until it says otherwise."""
        with self._lock:
            self._sources[source] = _Source(_NEVER, self._clock(), is_caught_up=False)

    def report(self, source: str, *, is_caught_up: bool) -> None:
        """Say whether a source has handed over everything that is there.

        Args:
            source: A name; one that was not added is added.
            is_caught_up: True if nothing that exists is still to be read, for example if a
                consumer's lag is 0.
        """
        now = self._clock()
        with self._lock:
            before = self._sources.get(source)
            caught_up_at = now if is_caught_up else before.caught_up_at if before else now
            self._sources[source] = _Source(caught_up_at, now, is_caught_up)

    def remove(self, source: str) -> None:
        """Forget a source that has ended for good."""
        with self._lock:
            self._sources.pop(source, None)

    def behind(self) -> tuple[str, ...]:
        """The sources that hold the time up, by name; empty if it runs."""
        now = self._clock()
        with self._lock:
            return tuple(
                sorted(name for name, each in self._sources.items() if self._is_behind(each, now))
            )

    def tick(self) -> float:
        """Let the time since the last tick count, unless a source is behind.

        Returns:
            The join's time, seconds from 0.
        """
        now, is_running = self._clock(), not self.behind()
        if is_running:
            self._now += min(max(0.0, now - self._ticked), self.max_step_s)
        self._ticked = now
        return self._now

    def _is_behind(self, source: _Source, now: float) -> bool:
        if now - source.reported_at > self._stale_s:
            return True
        return not source.is_caught_up and now - source.caught_up_at > self._grace_s
