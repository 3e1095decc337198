"""The state *behind*: what is due waits for long, or what was accepted is long not stored.

It is reported; nothing is refused for it. A record that still waits for the spans of its trace, or
for its deadline, is not due.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

_log: Final = logging.getLogger(__name__)
BEHIND_S: Final = 60.0
"""It begins once the oldest thing that is due, or is to be stored, has waited for so long."""
CAUGHT_UP_S: Final = 10.0
"""It ends once the oldest has waited for less."""
REPORT_S: Final = 60.0
"""Between two lines of the log while it lasts; and the time over which rates are taken."""
_SAMPLE_S: Final = 1.0
_ENDS: Final = 86_400
"""Most ends of the log that are known, one a second: a longer lag counts as one of a day."""


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
    unread_s: float = 0.0
    """Seconds since the oldest thing in the log that is not stored yet was accepted."""
    unread_before_s: float = 0.0
    """The same a minute ago."""

    @property
    def is_catching_up(self) -> bool:
        """True if more is judged than becomes due, and more is stored than comes."""
        is_less = self.judged_per_s > self.came_per_s
        if self.unread_s < CAUGHT_UP_S:
            return is_less
        is_shorter = self.unread_s < self.unread_before_s
        return is_shorter and (is_less or self.due.oldest_s < CAUGHT_UP_S)

    def troubles(self, own: str) -> dict[str, str]:
        """By space in which something has waited for too long, the message about it.

        Args:
            own: The collector's own space, which hears of what is not read: nobody knows whose
                that is.
        """
        late = {space: due for space, due in self.by_space.items() if due.oldest_s >= BEHIND_S}
        found = {space: self.message(due) for space, due in late.items()}
        if self.unread_s >= BEHIND_S:
            found[own] = self.message(late.get(own, NOTHING))
        return found

    def message(self, due: Due) -> str:
        """Say how much waits, since when, whether it becomes less, and what to do.

        Args:
            due: The part of it that is spoken of.
        """
        said: list[str] = []
        if due.number or self.unread_s < CAUGHT_UP_S:
            left_s = None
            if self.judged_per_s > self.came_per_s:
                left_s = self.due.number / (self.judged_per_s - self.came_per_s)
            said.append(
                f"{due.number:,} records and traces are due and wait, the oldest for "
                f"{due.oldest_s:,.0f} s; {self.judged_per_s:,.1f} a second are judged and "
                f"{self.came_per_s:,.1f} come, so {_course(left_s, _LESS_JUDGED)}"
            )
        if self.unread_s >= CAUGHT_UP_S:
            left_s = None
            if (shorter_s := self.unread_before_s - self.unread_s) > 0:
                left_s = self.unread_s / shorter_s * REPORT_S
            said.append(
                f"what was accepted {self.unread_s:,.0f} s ago is not stored yet, and "
                f"{_course(left_s, _LESS_SENT)}"
            )
            return ". ".join(said) + ". Nothing is lost for it"
        return said[0] + ". Nothing is refused or lost for it"


_LESS_JUDGED: Final = (
    "have less judged (the `sample` of a profile's watch, the `sample_ratio` of its config)"
)
_LESS_SENT: Final = "have less sent, or add collectors as a fleet"


def _course(left_s: float | None, instead: str) -> str:
    """Course of a backlog: the time until it is gone, or what to do if it grows."""
    if left_s is None:
        return f"it does not catch up: give the collector more processor time, or {instead}"
    return f"it catches up, in about {max(1, round(left_s / 60)):,} min"


class BehindWatch:
    """Notified of what is due by the thread that judges; any thread may read `backlog`.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int, int, float]] = deque()
        """Time, what waited, what had been judged, for how long something had not been stored: one
        a second, of the last minute."""
        self._ends: deque[tuple[float, int]] = deque(maxlen=_ENDS)
        """Time, and the log's end then: those behind the last thing that is stored."""
        self._judged = 0
        self._reported_at = 0.0
        self.backlog = Backlog()

    def judged(self, count: int) -> None:
        """Count evaluations."""
        self._judged += count

    def look(self, by_space: Mapping[str, Due], end: int = 0, stored: int = 0) -> None:
        """Take note of what is due now, and say when the state begins, lasts and ends.

        Args:
            by_space: What is due.
            end: Offset of the log's end.
            stored: Offset up to which the store has everything.
        """
        now = self._clock()
        due = NOTHING
        for each in by_space.values():
            due = due.plus(each)
        unread_s = self._unread_s(now, end, stored)
        judged_per_s, came_per_s, unread_before_s = self._rates(now, due.number, unread_s)
        was_behind = self.backlog.is_behind
        is_behind = max(due.oldest_s, unread_s) >= (CAUGHT_UP_S if was_behind else BEHIND_S)
        self.backlog = Backlog(
            due, by_space, judged_per_s, came_per_s, is_behind, unread_s, unread_before_s
        )
        if is_behind and (not was_behind or now >= self._reported_at + REPORT_S):
            self._reported_at = now
            _log.warning("behind: %s", self.backlog.message(due))
        elif was_behind and not is_behind:
            _log.warning(
                "no longer behind: what comes is stored, and what is due is judged, within %g s",
                CAUGHT_UP_S,
            )

    def _unread_s(self, now: float, end: int, stored: int) -> float:
        """Seconds since the oldest part of the log that is not stored was there, to a second.

        By this clock, and not by the times in the log: a date may be set anew.
        """
        if not self._ends or now >= self._ends[-1][0] + _SAMPLE_S:
            self._ends.append((now, end))
        while self._ends and self._ends[0][1] <= stored:
            self._ends.popleft()
        return now - self._ends[0][0] if self._ends else 0.0

    def _rates(self, now: float, count: int, unread_s: float) -> tuple[float, float, float]:
        """Rates of the last minute: evaluations, and work that became due, in a second.

        The third is the time for which something had not been stored at its begin.
        """
        if not self._samples or now >= self._samples[-1][0] + _SAMPLE_S:
            self._samples.append((now, count, self._judged, unread_s))
        while len(self._samples) > 1 and self._samples[1][0] <= now - REPORT_S:
            self._samples.popleft()
        at, before, judged, unread_before_s = self._samples[0]
        seconds = max(_SAMPLE_S, now - at)
        judged_per_s = (self._judged - judged) / seconds
        came_per_s = max(0.0, judged_per_s + (count - before) / seconds)
        return judged_per_s, came_per_s, unread_before_s
