"""Read slots: a bound on gRPC messages of unknown size that are read at a time."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from collector.receivers.budget import FullError

_TURN_S: Final = 2.0
_WAIT_S: Final = 6.0
_MAX_WAITING: Final = 250
_FULL: Final = "other messages are still being read; send the same again later"


@dataclass(slots=True, kw_only=True, eq=False)
class _Reader:
    who: str
    cut_off: Callable[[], object]
    began: float
    is_cut_off: bool = False


class ReadSlots:
    """Permits to read a message. Every name leaves one permit to the others.

    A reader that waits for a whole turn cuts off the oldest reader that is in the way and has read
    for as long. So a sender whose message does not come keeps no other sender out.

    Args:
        count: Readers at a time.
        turn_s: Seconds that a message may take to arrive while others wait.
        wait_s: Seconds that a reader waits for a permit.
        max_waiting: Readers of one name that wait; each takes a thread.
    """

    def __init__(
        self,
        count: int,
        *,
        turn_s: float = _TURN_S,
        wait_s: float = _WAIT_S,
        max_waiting: int = _MAX_WAITING,
    ) -> None:
        self._count, self._share = count, max(1, count - 1)
        self._turn_s, self._wait_s, self._max_waiting = turn_s, wait_s, max_waiting
        self._changed = threading.Condition()
        self._readers: list[_Reader] = []
        """The oldest first."""
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def slot(self, who: str, cut_off: Callable[[], object]) -> Generator[None]:
        """Wait for a permit; inside the block the message is read.

        Args:
            who: Name of the sender.
            cut_off: Ends the reading; called from another thread.

        Raises:
            FullError: There was no permit in time, or too many wait.
        """
        with self._changed:
            self._wait(who)
            reader = _Reader(who=who, cut_off=cut_off, began=time.monotonic())
            self._readers.append(reader)
        try:
            yield
        finally:
            with self._changed:
                self._readers.remove(reader)
                self._changed.notify_all()

    def _wait(self, who: str) -> None:
        if not self._in_the_way(who):
            return
        if self._waiting[who] >= self._max_waiting:
            raise FullError(_FULL)
        self._waiting[who] += 1
        try:
            until = time.monotonic() + self._wait_s
            while in_the_way := self._in_the_way(who):
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise FullError(_FULL)
                if not self._changed.wait(min(left_s, self._turn_s)):
                    self._cut_off_one(in_the_way)
        finally:
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who]

    def _in_the_way(self, who: str) -> list[_Reader]:
        """Readers of whom one has to end before the next of a name may begin; the oldest first."""
        own = [each for each in self._readers if each.who == who]
        if len(own) >= self._share:
            return own
        return list(self._readers) if len(self._readers) >= self._count else []

    def _cut_off_one(self, readers: list[_Reader]) -> None:
        slow_since = time.monotonic() - self._turn_s
        for each in readers:
            if each in self._readers and not each.is_cut_off and each.began <= slow_since:
                each.is_cut_off = True
                each.cut_off()
                return
