"""The time of the log: what was received before it is known to the join."""

from collections.abc import Callable
from typing import Final

from collector.worker.held import Held

MAX_STEP_S: Final = 1.0
"""Most that counts between two looks: beyond it the process, or the way into it, stood still."""
_SECOND_NS: Final = 1_000_000_000


class LogTime:
    """Seconds that pass with the items of the log, and by the clock where all of them were read.

    The time of a record that waits for its trace must not be over while its spans lie
    unread in the log. So this time stands still where the worker does: it is behind as far as the
    worker is behind, and goes on in steps. A gap in the log, or a date that is set anew, counts a
    second at most.

    While the log is behind a broker this time goes on, and `held` with it.

    Args:
        now_ns: Wall clock, the one by which receivers date what they append.
        max_hold_s: A broker that has been ahead for so long no longer holds the time of traces of
            which nothing says that they come by a broker.
        max_step_s: Most that counts between two looks.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        max_hold_s: float = 3_600.0,
        max_step_s: float = MAX_STEP_S,
    ) -> None:
        self._now_ns, self._max_hold_ns = now_ns, int(max_hold_s * _SECOND_NS)
        self._max_step_s: Final = max_step_s
        self._known_ns = now_ns()
        """Everything that was received before is read."""
        self.seconds = 0.0
        """The time now."""
        self.held = Held()
        """The part of it for which the log was behind a broker."""

    def read(self, received_ns: int, behind_ns: int = 0) -> float:
        """Move on to an item that is read; returns the time."""
        return self._move(received_ns, behind_ns)

    def caught_up(self, behind_ns: int = 0) -> float:
        """Move on to the present, as the log was read to its end; returns the time."""
        return self._move(self._now_ns(), behind_ns)

    def _move(self, to_ns: int, behind_ns: int) -> float:
        step_s = (to_ns - self._known_ns) / _SECOND_NS
        if step_s > 0:
            step_s = min(step_s, self._max_step_s)
            self.seconds += step_s
            if behind_ns:
                is_held = behind_ns <= self._max_hold_ns
                self.held = Held(
                    self.held.broker_s + step_s, self.held.unknown_s + step_s * is_held
                )
            self._known_ns = to_ns
        elif step_s < -self._max_step_s:  # items of several receivers are not quite in order
            self._known_ns = to_ns
        return self.seconds
