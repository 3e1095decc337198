"""Count the work and the memory whose size a stranger's profile or record decides.

All tasks of one record share one budget of steps and bytes. A task that asks for more than is
left is errored (`Reason.LIMIT`) and takes nothing, so that a smaller one behind it still gets its
verdict.
"""

import threading
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.outcome import Reason, TaskFault

MAX_RECORD_STEPS: Final = 2_000_000
"""Most steps that all tasks of one record may take together; a step takes about 1 µs."""
MAX_RECORD_BYTES: Final = 1 << 26
"""Most bytes that all tasks of one record may make of its values together.

Texts of templates, lists of paths and so on count. Memory that is freed with the task does not
count towards the sum: it only has to fit.
"""
_COUNTED_PER_STEP: Final = 8
"""Values that are counted in the time of a step."""
_SHARE: Final = 5
"""Divisor of one record's budget for many records together, so that little is done twice."""
_MANY_STEPS: Final = (
    "the paths and comparisons of this record's tasks, this one and those before it, take more "
    "than {:,} steps; its values are too large for so many tasks"
)
_MANY_BYTES: Final = (
    "the templates, paths and comparisons of this record's tasks, this one and those before it, "
    "make more than {:,} bytes of its values; use shorter ways and fewer templates"
)


class Meter(threading.local):
    """Steps that are left for one piece of work; every thread has its own count.

    Args:
        limit: Steps of one piece of work.
        message: Text of the error when they are used up.
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
    """The budget of one record was used up by many together, so each is evaluated alone.

    It says nothing of any task, so whatever turns an `Exception` into an errored one must not
    catch it.
    """


class OneRecord:
    """While entered, all work of the thread is for one record; it may be entered again.

    It remembers what is left, whatever else the thread does in between.
    """

    __slots__ = ("bytes_left", "left", "steps_left")

    is_many = False

    def __init__(self) -> None:
        self.steps_left: int = MAX_RECORD_STEPS
        self.bytes_left: int = MAX_RECORD_BYTES
        self.left: dict[str, int] = {}
        """Steps that are left of each `RecordMeter`, by its message."""

    def __enter__(self) -> None:
        _NOW.record = self

    def __exit__(self, *_: object) -> None:
        _NOW.record = None


class ManyRecords(OneRecord):
    """While entered, all work of the thread is for some records together.

    Where they take a good part of what a single one may, `SpentTogether` is raised.
    """

    __slots__ = ()

    is_many = True

    def __init__(self) -> None:
        super().__init__()
        self.steps_left //= _SHARE
        self.bytes_left //= _SHARE


class _Now(threading.local):
    """Record that a thread evaluates, as far as its budget goes."""

    record: OneRecord | None = None


_NOW: Final = _Now()


class RecordMeter(Meter):
    """A meter whose steps all pieces of work for one record share."""

    _record: OneRecord | None = None

    def restart(self) -> None:
        """Begin a piece of work; with new steps unless it is for a record that has taken some."""
        record = _NOW.record
        if record is None:
            self.left = self.limit
        elif record is not self._record:
            whole = self.limit // _SHARE if record.is_many else self.limit
            self.left = record.left.get(self.message, whole)
        self._record = record

    def pause(self) -> None:
        """End a piece of work; the record remembers what is left."""
        if self._record is not None:
            self._record.left[self.message] = self.left
        self._record = None

    def spend(self, steps: int) -> None:
        """Take steps.

        Raises:
            TaskFault: There are none left (`Reason.LIMIT`).
            SpentTogether: There are none left for many records.
        """
        self.left -= steps
        if self.left < 0:
            if self._record is not None and self._record.is_many:
                raise SpentTogether
            raise TaskFault(Reason.LIMIT, self.message)


def charge(steps: int, held: int = 0, passing: int = 0) -> None:
    """Take steps and bytes from the budget of one record's tasks; outside of one, of one task.

    To be called before the work. Where it is refused, nothing is taken.

    Args:
        steps: Number of steps; one is about a microsecond where the work is at its worst.
        held: Bytes that a result keeps.
        passing: Bytes that are needed beside and let go again with the task.

    Raises:
        TaskFault: There is less left (`Reason.LIMIT`).
        SpentTogether: There is less left for many records.
    """
    record = _NOW.record
    if record is None:
        record = OneRecord()
    if steps > record.steps_left or held + passing > record.bytes_left:
        raise _spent(record, steps > record.steps_left)
    record.steps_left -= steps
    record.bytes_left -= held


def charge_done(steps: int) -> None:
    """Take steps whose number was known only afterwards.

    Raises:
        TaskFault: There were fewer left; there are none now (`Reason.LIMIT`).
        SpentTogether: There were fewer left for many records.
    """
    record = _NOW.record
    if record is None:
        return
    if steps > record.steps_left:
        record.steps_left = 0
        raise _spent(record, is_of_steps=True)
    record.steps_left -= steps


def steps_left() -> int:
    """Number of steps that `charge` would grant."""
    record = _NOW.record
    return MAX_RECORD_STEPS if record is None else record.steps_left


def charge_weight(value: JsonValue, values_per_step: int, passing: int = 0) -> None:
    """Take steps for going through a value, however deep.

    Args:
        value: The value.
        values_per_step: Values inside it that are looked at in the time of a step.
        passing: Bytes that are needed for each of them meanwhile.

    Raises:
        TaskFault: There are fewer left (`Reason.LIMIT`).
        SpentTogether: There are fewer left for many records.

    Cost: linear in the value, up to what is left.
    """
    most = (steps_left() + 1) * values_per_step
    count = weight(value, most)
    charge_done(count // _COUNTED_PER_STEP)  # taken also where the rest is refused
    charge(count // values_per_step, passing=passing * count)


def weight(value: JsonValue, most: int | None = None) -> int:
    """Count the values inside a value, at any depth; 0 if it is no list and no object.

    Args:
        value: The value.
        most: The count to stop at; the real number is then larger.
    """
    count, waiting = -1, [value]
    while waiting:
        count += 1
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
        else:
            continue
        if most is not None and count + len(waiting) > most:
            return count + len(waiting)
    return count


def no_steps() -> BaseException:
    """Make the exception to raise where `steps_left` is too little."""
    return _spent(_NOW.record or OneRecord(), is_of_steps=True)


def _spent(record: OneRecord, is_of_steps: bool) -> BaseException:
    if record.is_many:
        return SpentTogether()
    text = (
        _MANY_STEPS.format(MAX_RECORD_STEPS)
        if is_of_steps
        else _MANY_BYTES.format(MAX_RECORD_BYTES)
    )
    return TaskFault(Reason.LIMIT, text)
