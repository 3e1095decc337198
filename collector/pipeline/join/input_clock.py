"""The join's time: for whoever waits for a source of spans, it runs only while that is caught up.

A store that takes nothing, a topic that lags, a broker that does not answer: spans that exist are
not here then, and a record that waits for them must not be told that its time is over. A record
whose trace comes another way need not care.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

_NEVER: Final = float("-inf")
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


@dataclass(slots=True)
class _Source:
    """Last report of one source of spans."""

    caught_up_at: float
    """Time of the clock, in seconds; every span that existed then is here."""
    named_at: float


class InputClock:
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
        self._clock, self._grace_s, self._is_stopped = clock, grace_s, is_stopped
        self.max_step_s: Final = max_step_s
        """`tick` has to be called at least so often for all time to count."""
        self._max_hold_s = max_hold_s
        self._lock = threading.Lock()
        self._sources: dict[str, _Source] = {}
        self._ticked = clock()
        self._now = 0.0
        self._held = dict.fromkeys(Via, 0.0)

    def add(self, source: str) -> None:
        """Name a broker that can lag; it is behind until it says otherwise."""
        with self._lock:
            self._sources[source] = _Source(_NEVER, self._clock())

    def report(self, source: str, behind_s: float | None) -> None:
        """Say how far a source is; one that says nothing falls behind.

        Args:
            source: A name that was added.
            behind_s: Everything that existed so many seconds ago is here; None if the source
                cannot tell.
        """
        now = self._clock()
        with self._lock:
            told = self._sources[source]
            if behind_s is not None:
                told.caught_up_at = max(told.caught_up_at, now - behind_s)

    def remove(self, source: str) -> None:
        """Forget a source that has ended for good."""
        with self._lock:
            self._sources.pop(source, None)

    def behind(self) -> tuple[str, ...]:
        """Names of the sources that stop any time; empty if time runs for all."""
        now = self._clock()
        with self._lock:
            found = [name for name, each in self._sources.items() if self._is_behind(each, now)]
        return tuple(sorted([*found, _STORE] if self._is_stopped() else found))

    def lags_s(self) -> dict[str, float]:
        """By how much each broker's spans are behind, as far as it is known, in seconds.

        Everything that existed so long ago is here. Of one that never said so it is the time
        since it was named.
        """
        now = self._clock()
        with self._lock:
            return {
                name: now - (each.named_at if each.caught_up_at == _NEVER else each.caught_up_at)
                for name, each in self._sources.items()
            }

    def tick(self) -> float:
        """Let the time since the last tick count, for those that wait for no source that is behind.

        Returns:
            The time of `Via.DIRECT`, seconds from 0: it stands still only with the store.
        """
        now = self._clock()
        with self._lock:
            behind = [each for each in self._sources.values() if self._is_behind(each, now)]
        step = min(max(0.0, now - self._ticked), self.max_step_s)
        self._ticked = now
        if self._is_stopped():
            return self._now
        self._now += step
        if behind:
            self._held[Via.BROKER] += step
        if any(now - self._since(each, now) <= self._max_hold_s for each in behind):
            self._held[Via.UNKNOWN] += step
        return self._now

    def held_s(self, via: Via) -> float:
        """By how much a trace's time is behind that of `tick`: it never shrinks."""
        return self._held[via]

    def _is_behind(self, source: _Source, now: float) -> bool:
        return now - source.caught_up_at > self._grace_s

    def _since(self, source: _Source, now: float) -> float:
        """Time at which a source was last caught up, or else was named."""
        return min(now, max(source.caught_up_at, source.named_at))
