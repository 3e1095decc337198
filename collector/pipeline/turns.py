"""Work that waits, by the space that it belongs to: the spaces take turns."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


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

    def keep(self, is_kept: Callable[[T], bool]) -> None:
        """Drop what is not to be kept.

        Cost: one look at everything.
        """
        found = {space: deque(filter(is_kept, queue)) for space, queue in self._queues.items()}
        self._queues = {space: queue for space, queue in found.items() if queue}
