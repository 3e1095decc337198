"""The lag of a consumer behind its queue, in seconds.

A count of unread messages says nothing under load, because a message always came a moment ago. So
the ends of the queues are noted now and then, and a consumer is as far as the last note that it has
reached.
"""

import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Final

_NOTES: Final = 16
"""Notes in memory; the newest is left out while there are so many that were not reached."""


class Backlog:
    """Compares where queues ended with where their consumer is.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._notes: deque[tuple[float, Mapping[Hashable, int]]] = deque()
        self._reached_at: float | None = None

    def clear(self) -> None:
        """Forget everything: the consumer reads other queues now."""
        self._notes.clear()
        self._reached_at = None

    def behind_s(
        self, ends: Mapping[Hashable, int], positions: Mapping[Hashable, int]
    ) -> float | None:
        """Note where the queues end now, and see how far the consumer is.

        Args:
            ends: For each queue the number of the message that will come next.
            positions: For the same queues the number of the message that will be read next.

        Returns:
            Everything that was there so many seconds ago has been read; None if that is not known
            of any moment.
        """
        now = self._clock()
        self._notes.append((now, ends))
        reached = [at for at, noted in self._notes if _is_reached(noted, positions)]
        if reached:  # not only from the front: other consumers take their share of a queue
            self._reached_at = reached[-1]
            while self._notes and self._notes[0][0] <= reached[-1]:
                self._notes.popleft()
        if len(self._notes) > _NOTES:
            self._notes.pop()
        return None if self._reached_at is None else now - self._reached_at


def _is_reached(ends: Mapping[Hashable, int], positions: Mapping[Hashable, int]) -> bool:
    return all(positions.get(queue, 0) >= end for queue, end in ends.items())
