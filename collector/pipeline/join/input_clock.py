"""The join's time: for whoever waits for a source of spans, it runs only while that is caught up.

A store that takes nothing, a topic that lags, a broker that does not answer: spans that exist are
not here then, and a record that waits for them must not be told that its time is over. A record
whose trace comes another way need not care.
"""

import time
from collections.abc import Callable
from enum import Enum
from typing import Final

from collector.log.brokers import Broker, Brokers

_STORE: Final = "store"
"""Name that stands for the store, which stops all times."""


class Via(Enum):
    """The way that spans of a trace come: which sources its records wait for."""

    DIRECT = "direct"
    """HTTP, gRPC, the same process: what exists and is not here, its sender still has."""
    BROKER = "broker"
    """Kafka, Redis, RabbitMQ: what exists may lie there unread."""
    UNKNOWN = "unknown"
    """Nothing of the trace is here that would tell."""


class InputClock(Brokers):
    """Seconds that passed while every source had handed over what there was to hand over.

    Any thread may report; one thread ticks and reads.

    Args:
        clock: Monotonic seconds.
        grace_s: A source may be behind for so long before time stands still: under load there is
            always something that has not been read yet.
        max_step_s: Time between two ticks counts up to this; beyond, the process was stopped, and
            nothing could come in.
        max_hold_s: A broker that has been behind for so long no longer holds the time of traces
            of which nothing says that they come by a broker.
        is_stopped: True while nothing can come in any way, as the store takes nothing.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        grace_s: float = 2.0,
        max_step_s: float = 1.0,
        max_hold_s: float = 3600.0,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(clock, grace_s=grace_s)
        self._is_stopped = is_stopped
        self.max_step_s: Final = max_step_s
        """`tick` has to be called at least so often for all time to count."""
        self._max_hold_s = max_hold_s
        self._ticked = clock()
        self._now = 0.0
        self._held = dict.fromkeys(Via, 0.0)

    def behind(self) -> tuple[str, ...]:
        """Names of the sources that stop any time; empty if time runs for all."""
        found = super().behind()
        return tuple(sorted([*found, _STORE])) if self._is_stopped() else found

    def tick(self) -> float:
        """Let the time since the last tick count, for those that wait for no source that is behind.

        Returns:
            The time of `Via.DIRECT`, seconds from 0: it stands still only with the store.
        """
        now = self._clock()
        with self._lock:
            behind = [each for each in self._brokers.values() if self._lags(each, now)]
        step = min(max(0.0, now - self._ticked), self.max_step_s)
        self._ticked = now
        if self._is_stopped():
            return self._now
        self._now += step
        if behind:
            self._held[Via.BROKER] += step
        if any(now - _since(each, now) <= self._max_hold_s for each in behind):
            self._held[Via.UNKNOWN] += step
        return self._now

    def held_s(self, via: Via) -> float:
        """By how much a trace's time is behind that of `tick`: it never shrinks."""
        return self._held[via]


def _since(source: Broker, now: float) -> float:
    """Time at which a source was last caught up, or else was named."""
    return min(now, max(source.caught_up_at, source.named_at))
