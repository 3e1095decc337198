"""Count the steps of work whose size a stranger's profile or record decides."""

import itertools
import threading
from typing import Final

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


class _Now(threading.local):
    """The record that a thread judges; 0 for none."""

    record: int = 0


_NOW: Final = _Now()
_records: Final = itertools.count(1)


class OneRecord:
    """While entered, all work of the thread is for one record; it may be entered again."""

    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number = next(_records)

    def __enter__(self) -> None:
        _NOW.record = self._number

    def __exit__(self, *_: object) -> None:
        _NOW.record = 0


class RecordMeter(Meter):
    """A meter whose steps all pieces of work for one record share."""

    _record: int = 0

    def restart(self) -> None:
        """Begin a piece of work; with new steps unless it is for the same record as the last."""
        if not _NOW.record or _NOW.record != self._record:
            super().restart()
        self._record = _NOW.record


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
