"""The age up to which late spans renew an evaluation, in time that ran."""

from collections import deque
from typing import Final

_PARTS: Final = 256
"""Number of parts of the window; the date is noted once in each."""


class LateWindow:
    """Knows the date of a window ago: evaluations bear dates, the window is one of time that ran.

    It does not run while the input is held up or no collector runs, nor as far as the date is set.
    In doubt an evaluation is young enough.

    Args:
        window_s: Its length.
        now: Seconds of the time that runs while nothing holds it up.
        now_ns: The date.
    """

    def __init__(self, window_s: float, now: float, now_ns: int) -> None:
        self.length_s: Final = window_s
        self.now = now
        """The time that ran."""
        self._began, self._now_ns = now, now_ns
        self._marks = deque([(now, now_ns)])
        """Times with their dates; the second one is younger than the window."""

    def ended(self, earlier_ns: int) -> None:
        """Say until when an earlier process ran: what passed between it and this one is no time."""
        at, now_ns = self._marks[0]
        if at == self._began:
            self._marks[0] = (at, min(now_ns, earlier_ns))

    def run(self, now: float, now_ns: int) -> None:
        """Tell the time and the date."""
        is_back = now_ns < self._now_ns
        self.now, self._now_ns = now, now_ns
        if is_back or now >= self._marks[-1][0] + self.length_s / _PARTS:
            self._marks.append((now, now_ns))
            while len(self._marks) > 1 and self._marks[1][0] <= now - self.length_s:
                self._marks.popleft()

    def since_ns(self) -> int:
        """A date that no evaluation which is young enough is older than."""
        (at, at_ns), *later = self._marks
        begin_ns = at_ns + int((self.now - self.length_s - at) * 1e9)  # later, if held since
        return min(begin_ns, self._now_ns, *(now_ns for _, now_ns in later))
