"""Read slots: a bound on gRPC messages of unknown size that are read at a time."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from collector.receivers.budget import FullError

_TURN_S: Final = 2.0
_WAIT_S: Final = 6.0
_SHORTEST: Final = 4
_MAX_WAITING: Final = 250
_FULL: Final = "other messages are still being read; send the same again later"


@dataclass(slots=True, kw_only=True, eq=False)
class _Reader:
    """Somebody who reads, or waits for their turn."""

    who: str
    cut_off: Callable[[], object]
    began: float = 0.0
    is_cut_off: bool = False
    called: threading.Event = field(default_factory=threading.Event)
    """Set when it is their turn."""


class ReadSlots:
    """A bound on readers with which nobody keeps the others out.

    A free turn goes to the name that reads the fewest messages, and of one name to whoever came
    first. Who waits for a whole turn ends the reading of another name that reads more and takes as
    long. All readers of one name are cut off if no turn of it began while others of it waited,
    and the sooner the more these are: so every one of many has a turn, in which comes what is on
    its way already, and a slow one is left alone while turns begin beside it.

    Args:
        count: Readers at a time.
        turn_s: Seconds that a message may take to arrive while others wait as long; at least an
            quarter of it is given.
        wait_s: Seconds that a reader waits for its turn.
        max_waiting: Readers of one name that wait.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        count: int,
        *,
        turn_s: float = _TURN_S,
        wait_s: float = _WAIT_S,
        max_waiting: int = _MAX_WAITING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count: Final = count
        self._turn_s, self._wait_s, self._clock = turn_s, wait_s, clock
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        self._readers: list[_Reader] = []
        """Those whose turn it is, the first of them first."""
        self._waiting: dict[str, list[_Reader]] = {}
        """Those of each name in the order in which they came; the next name first."""
        self._turn_began: dict[str, float] = {}
        """When the last turn of each name began."""

    @contextmanager
    def slot(self, who: str, cut_off: Callable[[], object]) -> Generator[None]:
        """Wait for a turn; inside the block the message is read.

        Args:
            who: Name under which turns are shared fairly.
            cut_off: Ends the reading; called from another thread.

        Raises:
            FullError: There was no turn in time, or too many wait.
        """
        reader = _Reader(who=who, cut_off=cut_off)
        with self._lock:
            if len(self._readers) < self.count:  # nobody waits then
                self._begin(reader)
            else:
                self._queue(reader)
        left_s = self._wait_s
        while left_s > 0:
            turn_s = self._turn_of(who)
            if reader.called.wait(turn_s):
                break
            left_s -= turn_s
            self._cut_off_the_slow(who, turn_s)
        else:
            self._give_up(reader)
        try:
            yield
        finally:
            self._end(reader)

    def _begin(self, reader: _Reader) -> None:
        reader.began = self._turn_began[reader.who] = self._clock()
        self._readers.append(reader)
        reader.called.set()

    def _queue(self, reader: _Reader) -> None:
        line = self._waiting.setdefault(reader.who, [])
        if len(line) >= self._max_waiting:
            raise FullError(_FULL)
        line.append(reader)

    def _give_up(self, reader: _Reader) -> None:
        with self._lock:
            if not reader.called.is_set():  # else it was just now
                self._waiting[reader.who].remove(reader)
                raise FullError(_FULL)

    def _end(self, reader: _Reader) -> None:
        with self._lock:
            self._readers.remove(reader)
            self._waiting = {who: line for who, line in self._waiting.items() if line}
            if self._waiting:
                held = self._held()
                who = min(self._waiting, key=lambda each: held[each])
                line = self._waiting.pop(who)
                self._begin(line.pop(0))
                self._waiting[who] = line  # last, of those that read as much
            if reader.who not in self._waiting and reader.who not in self._held():
                self._turn_began.pop(reader.who, None)

    def _turn_of(self, who: str) -> float:
        """Seconds after which one who waits may end the turn of another of the same name."""
        with self._lock:
            waiting = max(1, len(self._waiting.get(who, ())))
        return max(self._turn_s / _SHORTEST, self._turn_s * min(1, self.count / waiting))

    def _cut_off_the_slow(self, who: str, turn_s: float) -> None:
        now = self._clock()
        with self._lock:
            held = self._held()
            slow = [
                each
                for each in self._readers
                if not each.is_cut_off
                and held[each.who] > held[who]
                and now - each.began >= self._turn_s
            ]
            slow = sorted(slow, key=lambda each: -held[each.who])[:1]
            if now - self._turn_began.get(who, now) >= turn_s:
                mine = (each for each in self._readers if each.who == who)
                slow += [each for each in mine if not each.is_cut_off]
            for each in slow:
                each.is_cut_off = True
        for each in slow:
            each.cut_off()

    def _held(self) -> Counter[str]:
        return Counter(each.who for each in self._readers)
