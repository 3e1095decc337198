"""The oldest commit whose rows somebody waits for."""

import heapq
from collections import Counter


class Needed:
    """Number of waiting things that need the rows of each commit, and the lowest of these."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._heap: list[int] = []

    def __len__(self) -> int:
        return self._counts.total()

    def add(self, seq: int) -> None:
        """Something needs this commit and all that follow."""
        if not self._counts[seq]:
            heapq.heappush(self._heap, seq)
        self._counts[seq] += 1

    def remove(self, seq: int) -> None:
        """It does so no longer."""
        self._counts[seq] -= 1
        if not self._counts[seq]:
            del self._counts[seq]

    def lowest(self, default: int) -> int:
        """The lowest commit that is needed, unless the default is lower."""
        while self._heap and self._heap[0] not in self._counts:
            heapq.heappop(self._heap)
        return min(self._heap[0], default) if self._heap else default
