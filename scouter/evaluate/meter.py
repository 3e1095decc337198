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


class SpentTogether(BaseException):
    """The steps that one record may take were used up by many together, so each is judged alone.

    It says nothing of any task, so whatever turns an `Exception` into an errored one must not
    catch it.
    """


_SHARE: Final = 5
"""Many records get one part of so many of a single one's steps: no more is done twice."""


class _Now(threading.local):
    """What a thread judges."""

    record: int = 0
    """Number of the record, or of the records that are judged together; 0 for none."""
    together: bool = False


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


class ManyRecords(OneRecord):
    """While entered, all work of the thread is for some records together.

    Where they take a good part of what a single one may, `SpentTogether` is raised.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()
        _NOW.together = True

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        _NOW.together = False


class RecordMeter(Meter):
    """A meter whose steps all pieces of work for one record share."""

    _record: int = 0

    def restart(self) -> None:
        """Begin a piece of work; with new steps unless it is for the same record as the last."""
        if not _NOW.record or _NOW.record != self._record:
            self.left = self.limit // _SHARE if _NOW.together else self.limit
        self._record = _NOW.record

    def spend(self, steps: int) -> None:
        """Take steps.

        Raises:
            TaskFault: There are none left (`Reason.LIMIT`).
            SpentTogether: There are none left for many records.
        """
        self.left -= steps
        if self.left < 0:
            if _NOW.together:
                raise SpentTogether
            raise TaskFault(Reason.LIMIT, self.message)


MAX_RECORD_STEPS: Final = 5_000_000
"""What all comparisons and JSONPaths of one record's tasks may take, in steps of about 1 µs."""
_COMPARISONS: Final = RecordMeter(
    MAX_RECORD_STEPS,
    "the comparisons of this record's tasks, this one and those before it, take more than "
    f"{MAX_RECORD_STEPS:,} steps; its values are too large for so many tasks",
)


def charge(steps: int) -> None:
    """Take steps of what the tasks of one record may take together; outside of one, of one task.

    Args:
        steps: Of about a microsecond where the work is at its worst.

    Raises:
        TaskFault: There are none left (`Reason.LIMIT`).
    """
    _COMPARISONS.restart()
    _COMPARISONS.spend(steps)


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
