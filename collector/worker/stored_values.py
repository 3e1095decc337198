"""The bound on compared values that an evaluation keeps."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import is_
from typing import Final

from pydantic import JsonValue

from collector.split import split
from collector.store.json_text import dump_json
from collector.store.rows import EvaluationRow, TaskRow
from scouter.evaluate.files.json_text import beginning, end, is_longer
from scouter.evaluate.judge.shorten import shorten
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.json_value import plain_text

MOST_CHARACTERS: Final = 2**18
"""Most characters of all found and expected values of one evaluation, written as JSON.

A page of 200 evaluations, which an export reads at a time, fits into the store's memory.
"""
MOST_TOGETHER: Final = 8 * 2**20
"""Characters of the evaluations that are stored together; DuckDB has each in memory at once."""
_ROW: Final = 1_000
MESSAGE_CHARACTERS: Final = 500
"""Characters of the message of a task that are always stored.

More are stored where a value of the task may have more.
"""
_COUNTED: Final = 16
"""Longest JSON text that is written as a whole to be measured: so many times the stored one."""
_PLAIN: Final = frozenset({int, float, bool, type(None)})
_NOTE: Final = " of JSON; the rest is no whole value"
_UNCOUNTED: Final = " [… the middle of this JSON, which is no whole value any more, left out …] "


def most_characters(tasks: int) -> int:
    """Characters that one value of an evaluation may have, of so many tasks.

    A value may be as large as a record, and a profile from the network may have 256 tasks that all
    find it: an evaluation of 1 GB, which no store takes, and which would hold up all that come
    behind. The share depends on the profile alone, so that a task's value does not change with
    others'.
    """
    return MOST_CHARACTERS // (2 * max(tasks, 1))


def stored_value(value: JsonValue, most: int) -> JsonValue:
    """A value as an evaluation keeps it.

    Returns:
        The value itself; of one that is too large, the beginning and the end of its text, with a
        note between them of how much was left out, if it is not very much.

    Cost: linear in the characters of one value, however large it is.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, str):
        return value if len(value) <= most else shorten(value, most)
    if not value:
        return value
    if not is_longer(value, _COUNTED * most):
        text = dump_json(value)
        return value if len(text) <= most else shorten(text, most, _NOTE)
    head, tail = (most + 1) // 2, most // 2
    text, last = dump_json(beginning(value, head + 1)), dump_json(end(value, tail + 1))
    return f"{text[:head]}{_UNCOUNTED}{last[len(last) - tail :]}"


class Keeper:
    """Cuts the values of one evaluation; one that several tasks found is cut once.

    Args:
        most: Characters of a value; see `most_characters`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[int, tuple[JsonValue, JsonValue]] = {}
        """By `id`, which stays the value's own as it is stored beside."""

    def value(self, value: JsonValue) -> JsonValue:
        """A value as an evaluation keeps it; see `stored_value`."""
        if type(value) in _PLAIN or (isinstance(value, str) and len(value) <= self._most):
            return value
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = (value, stored_value(value, self._most))
        return known[1]

    def message(self, message: str) -> str:
        """Shorten the message of a task to text that an evaluation keeps and a column can hold."""
        text = plain_text(message)
        return shorten(text, max(self._most, MESSAGE_CHARACTERS))

    def result(self, result: RecordResult) -> RecordResult:
        """A result whose values and messages are cut, and whose large ones can be let go."""
        tasks = tuple(map(self._task, result.tasks))
        if all(map(is_, tasks, result.tasks)):
            return result
        return RecordResult(
            result.record_uid, result.record_id, result.session_id, result.trace_id,
            result.outcome, tasks, result.created_ns, result.duration_ns,
        )  # fmt: skip

    def _task(self, task: EvalTaskResult) -> EvalTaskResult:
        expected, actual = self.value(task.expected), self.value(task.actual)
        given = task.given_message
        is_whole = expected is task.expected and actual is task.actual
        if is_whole and (given is None or len(given) <= MESSAGE_CHARACTERS):
            return task
        message = self.message(task.message)
        cut = replace(task, expected=expected, actual=actual, given_message=message)
        return cut.scored(task.score)


def parts_of_rows(rows: Sequence[EvaluationRow]) -> Iterator[Sequence[EvaluationRow]]:
    """Split evaluations, in order, so that a part fits into the memory of the store."""
    if len(rows) * MOST_CHARACTERS <= MOST_TOGETHER:
        if rows:
            yield rows
        return
    yield from split(rows, lambda row: (_ROW + size_of(row.tasks),), (MOST_TOGETHER,))


def size_of(tasks: Iterable[TaskRow]) -> int:
    """About how many characters their values have."""
    values = chain.from_iterable((task.actual, task.expected, task.message) for task in tasks)
    return sum(
        len(value) if type(value) is str else len(repr(value))
        for value in values
        if type(value) not in _PLAIN
    )
