"""Count the steps of work whose size a stranger's profile or record decides."""

import threading

from pydantic import JsonValue

from scouter.evaluate.fault import TaskFault
from scouter.evaluate.outcome import Reason


class Meter(threading.local):
    """What is left of one piece of work; every thread has its own.

    Args:
        limit: Steps of one piece of work.
        message: What to say when they are used up.
    """

    def __init__(self, limit: int, message: str) -> None:
        self.limit, self.message, self.left = limit, message, limit

    def restart(self) -> None:
        """Begin a new piece of work."""
        self.left = self.limit

    def spend(self, steps: int) -> None:
        """Take steps.

        Raises:
            TaskFault: There are none left (`Reason.LIMIT`).
        """
        self.left -= steps
        if self.left < 0:
            raise TaskFault(Reason.LIMIT, self.message)


def weight(value: JsonValue) -> int:
    """Count the values inside a value, however deep; 0 for what is no list and no object."""
    count, waiting = -1, [value]
    while waiting:
        count += 1
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
    return count
