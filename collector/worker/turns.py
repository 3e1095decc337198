"""Work that waits, by the space that it belongs to: the spaces take turns."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_TRIES: Final = 5
"""Tries to read one thing for which there is no memory."""


class Turns(Generic[T]):
    """A queue for each space; one after the other has its turn.

    However much work one space has, another one waits for as long as a turn takes.
    """

    def __init__(self) -> None:
        self._queues: dict[str, deque[T]] = {}
        """None is empty. The space that has waited longest comes first."""
        self._last: str | None = None
        """The space that had the last turn."""

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __iter__(self) -> Iterator[T]:
        for queue in self._queues.values():
            yield from queue

    def put(self, space: str, item: T) -> None:
        """Put something behind what waits of its space."""
        self._queues.setdefault(space, deque()).append(item)

    def heads(self, most: int = 1) -> Iterator[tuple[str, int, Sequence[T]]]:
        """Each space with the number of its things, and the first of them, so many at most."""
        for space, queue in self._queues.items():
            yield space, len(queue), list(islice(queue, most))

    def put_first(self, space: str, item: T) -> None:
        """Put something before what waits of its space."""
        self._queues.setdefault(space, deque()).appendleft(item)

    def next_space(self) -> str | None:
        """The space whose turn it is; None if nothing waits.

        A space that was alone has its next turn behind one that came meanwhile.
        """
        if self._last in self._queues and len(self._queues) > 1:
            self._queues[self._last] = self._queues.pop(self._last)
        self._last = next(iter(self._queues), None)
        return self._last

    def pop(self, space: str) -> T | None:
        """Take what waits longest of a space; None if nothing does."""
        queue = self._queues.get(space)
        if queue is None:
            return None
        item = queue.popleft()
        if not queue:
            del self._queues[space]
        return item


class Pace:
    """The amount that a space takes for a turn, by the cost of its turns before: near one time.

    Everything that is taken is read, derived and settled together. That is done for nothing where
    it is not judged in the same turn, so a turn stays short by taking less.

    Args:
        turn_s: Aim for a turn, in seconds.
        few: Taken by the first turn of a space; later, too, however long the reading takes: it has
            costs that do not shrink with the number. Only if judging takes long, it is less.
        most: The most that is taken.
    """

    def __init__(self, turn_s: float, few: int, most: int) -> None:
        self._turn_s: Final = turn_s
        self._few: Final = few
        self._most: Final = most
        self._by_space: dict[str, int] = {}
        self._tries: dict[str, int] = {}
        """By space how often something could not be read that was taken alone."""

    def of(self, space: str) -> int:
        """Number of items that the next turn of a space takes at most; at least 1."""
        return self._by_space.get(space, self._few)

    def took(self, space: str, count: int, whole_s: float, judging_s: float) -> None:
        """Learn from a turn.

        Args:
            space: The space.
            count: Items that were judged.
            whole_s: Seconds of the turn.
            judging_s: The part of them for judging alone.
        """
        fit = max(self._few, self._fit(count, whole_s))
        fit = min(fit, self._fit(count, judging_s), 2 * self.of(space))
        self._by_space[space] = max(1, fit)

    def no_memory(self, space: str, count: int) -> None:
        """Learn that so many items could not be read together: the next turn takes one.

        Others that use the memory may be done soon, so that is tried some times.
        """
        self._by_space[space] = 1
        if count == 1:
            self._tries[space] = self._tries.get(space, 0) + 1

    def is_short(self, space: str) -> bool:
        """Tell whether there was no memory for what the next turn of a space takes."""
        return space in self._tries

    def gives_up(self, space: str) -> bool:
        """Tell whether there never is the memory for what the next turn of a space takes."""
        return self._tries.get(space, 0) >= _TRIES

    def was_read(self, space: str) -> None:
        """Learn that there was the memory for what a turn took, or that it was given up."""
        self._tries.pop(space, None)

    def _fit(self, count: int, seconds: float) -> int:
        """Number of items that fit into a turn if so many took so long."""
        return min(self._most, int(count * self._turn_s / seconds)) if seconds > 0 else self._most
