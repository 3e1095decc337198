"""The time of the log: what was received before it is known to the join."""

from collections.abc import Callable
from typing import Final

_MAX_STEP_S: Final = 1.0
"""Most that counts between two looks: beyond it the process, or the way into it, stood still."""
_SECOND_NS: Final = 1_000_000_000


class LogTime:
    """Seconds that pass with the items of the log, and by the clock where all of them were read.

    The time of a record that waits for its trace must not be over while its spans lie
    unread in the log. So this time stands still where the worker does: it is behind as far as the
    worker is behind, and goes on in steps. A gap in the log, or a date that is set anew, counts a
    second at most.

    Args:
        now_ns: Wall clock, the one by which receivers date what they append.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._known_ns = now_ns()
        """Everything that was received before is read."""
        self.seconds = 0.0
        """The time now."""

    def read(self, received_ns: int) -> float:
        """Move on to an item that is read; returns the time."""
        return self._move(received_ns)

    def caught_up(self) -> float:
        """Move on to the present, as the log was read to its end; returns the time."""
        return self._move(self._now_ns())

    def _move(self, to_ns: int) -> float:
        step_s = (to_ns - self._known_ns) / _SECOND_NS
        if step_s > 0:
            self.seconds += min(step_s, _MAX_STEP_S)
            self._known_ns = to_ns
        elif step_s < -_MAX_STEP_S:  # items of several receivers are not quite in order
            self._known_ns = to_ns
        return self.seconds
