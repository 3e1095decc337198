"""Brokers whose messages are appended to the log, and how far the log is behind each of them.

Spans may lie in a topic that lags, or at a broker that does not answer: a record that waits for
them must not count as out of time. So every item carries by how much the log was behind
when it was appended, and the time of those who wait for a broker stands still for as long.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_SECOND_NS: Final = 1_000_000_000
_NEVER: Final = float("-inf")


@dataclass(slots=True)
class Broker:
    """Last report on one broker."""

    caught_up_at: float
    """Time of the clock, in seconds; all spans that it had then are in the log."""
    named_at: float


class Brokers:
    """Distances of the log behind brokers. Any thread may report and read them.

    Args:
        clock: Monotonic seconds.
        grace_s: A broker may be ahead by so much without a difference: under load there is always
            something that has not been read yet.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, grace_s: float = 2.0
    ) -> None:
        self._clock, self._grace_s = clock, grace_s
        self._lock = threading.Lock()
        self._brokers: dict[str, Broker] = {}

    def add(self, name: str) -> None:
        """Name a broker; the log is behind it until a report says otherwise."""
        with self._lock:
            self._brokers[name] = Broker(_NEVER, self._clock())

    def report(self, name: str, behind_s: float | None) -> None:
        """Report how far the log is behind; without a report it falls behind.

        Args:
            name: A broker that was added.
            behind_s: Everything that the broker had so many seconds ago is in the log; None if
                nobody knows.
        """
        now = self._clock()
        with self._lock:
            broker = self._brokers[name]
            if behind_s is not None:
                broker.caught_up_at = max(broker.caught_up_at, now - behind_s)

    def remove(self, name: str) -> None:
        """Forget a broker that is not read any more."""
        with self._lock:
            self._brokers.pop(name, None)

    def behind(self) -> tuple[str, ...]:
        """Names of the brokers that the log is behind, in order."""
        now = self._clock()
        with self._lock:
            return tuple(sorted(n for n, each in self._brokers.items() if self._lags(each, now)))

    def behind_ns(self) -> int:
        """Nanoseconds since the log last had all of every broker; 0 if it has.

        Of a broker that was never caught up it is the time since it was named.
        """
        if not self._brokers:
            return 0
        now = self._clock()
        with self._lock:
            lags = [_lag_s(each, now) for each in self._brokers.values() if self._lags(each, now)]
        return max((max(1, int(each * _SECOND_NS)) for each in lags), default=0)

    def lags_s(self) -> dict[str, float]:
        """By how much the log is behind each broker, as far as it is known, in seconds."""
        now = self._clock()
        with self._lock:
            return {name: _lag_s(each, now) for name, each in self._brokers.items()}

    def _lags(self, broker: Broker, now: float) -> bool:
        return now - broker.caught_up_at > self._grace_s


def _lag_s(broker: Broker, now: float) -> float:
    return now - (broker.named_at if broker.caught_up_at == _NEVER else broker.caught_up_at)
