"""The state *behind*: what is due waits for long. It is reported; nothing is refused for it.

A record that still waits for the spans of its trace, or for its deadline, is not due.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

_log: Final = logging.getLogger(__name__)
BEHIND_S: Final = 60.0
"""It begins once the oldest thing that is due has waited for so long."""
CAUGHT_UP_S: Final = 10.0
"""It ends once the oldest has waited for less."""
TOLD_S: Final = 60.0
"""Between two lines of the log while it lasts; and the time over which rates are taken."""
_SAMPLE_S: Final = 1.0


class Due(NamedTuple):
    """Work that is due, of one space or of all."""

    number: int
    """Records, traces with records, and sessions."""
    oldest_s: float
    """For so long the oldest has been due, in seconds."""
    size_bytes: float
    """Of spans and contexts as stored, by those that wait longest."""

    def plus(self, other: "Due") -> "Due":
        """Both together."""
        oldest_s = max(self.oldest_s, other.oldest_s)
        return Due(self.number + other.number, oldest_s, self.size_bytes + other.size_bytes)


NOTHING: Final = Due(0, 0.0, 0.0)


class Backlog(NamedTuple):
    """All work that is due at one moment."""

    due: Due = NOTHING
    by_space: Mapping[str, Due] = {}
    judged_per_s: float = 0.0
    """Within the last minute."""
    came_per_s: float = 0.0
    """Rate of work that became due, within the last minute."""
    is_behind: bool = False

    @property
    def is_catching_up(self) -> bool:
        """True if more is judged than becomes due."""
        return self.judged_per_s > self.came_per_s

    def troubles(self) -> dict[str, str]:
        """By space in which something has been due for too long, the message about it."""
        late = {space: due for space, due in self.by_space.items() if due.oldest_s >= BEHIND_S}
        return {space: self.message(due) for space, due in late.items()}

    def message(self, due: Due) -> str:
        """Say how much waits, since when, whether it becomes less, and what to do.

        Args:
            due: The part of it that is spoken of.
        """
        if self.is_catching_up:
            left_s = self.due.number / (self.judged_per_s - self.came_per_s)
            course = f"it catches up, in about {max(1, round(left_s / 60)):,} min"
        else:
            course = "it does not catch up: give the collector more processor time, or have less "
            course += "judged (the `sample` of a profile's watch, the `sample_ratio` of its config)"
        return (
            f"{due.number:,} records and traces are due and wait, the oldest for "
            f"{due.oldest_s:,.0f} s; {self.judged_per_s:,.1f} a second are judged and "
            f"{self.came_per_s:,.1f} come, so {course}. Nothing is refused or lost for it"
        )


class BehindWatch:
    """Told of what is due by the thread that judges; any thread may read `backlog`.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int, int]] = deque()
        """Time, what waited, what had been judged: one a second, of the last minute."""
        self._judged = 0
        self._told_at = 0.0
        self.backlog = Backlog()

    def judged(self, count: int) -> None:
        """Count evaluations."""
        self._judged += count

    def look(self, by_space: Mapping[str, Due]) -> None:
        """Take note of what is due now, and say when the state begins, lasts and ends."""
        now = self._clock()
        due = NOTHING
        for each in by_space.values():
            due = due.plus(each)
        judged_per_s, came_per_s = self._rates(now, due.number)
        was_behind = self.backlog.is_behind
        is_behind = due.oldest_s >= (CAUGHT_UP_S if was_behind else BEHIND_S)
        self.backlog = Backlog(due, by_space, judged_per_s, came_per_s, is_behind)
        if is_behind and (not was_behind or now >= self._told_at + TOLD_S):
            self._told_at = now
            _log.warning("behind: %s", self.backlog.message(due))
        elif was_behind and not is_behind:
            _log.warning("no longer behind: what is due is judged within %g s", CAUGHT_UP_S)

    def _rates(self, now: float, count: int) -> tuple[float, float]:
        """Rates of the last minute: evaluations, and work that became due, in a second."""
        if not self._samples or now >= self._samples[-1][0] + _SAMPLE_S:
            self._samples.append((now, count, self._judged))
        while len(self._samples) > 1 and self._samples[1][0] <= now - TOLD_S:
            self._samples.popleft()
        at, before, judged = self._samples[0]
        seconds = max(_SAMPLE_S, now - at)
        judged_per_s = (self._judged - judged) / seconds
        return judged_per_s, max(0.0, judged_per_s + (count - before) / seconds)
