"""How much of what tasks found and expected a verdict keeps."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from pydantic import JsonValue

from collector.split import split
from collector.storage.json_text import dump_json
from collector.storage.rows import EvaluationRow, TaskRow
from scouter.evaluate.shorten import shorten

MOST_CHARACTERS: Final = 2**18
"""Of one verdict: of all that its tasks found and expected, written as JSON.

A page of 200 verdicts, which is what an export reads at a time, fits into the store's memory."""
_TOGETHER: Final = 8 * 2**20
"""Characters of the verdicts that are stored together; DuckDB has each in memory at once."""
_ROW: Final = 1_000
_PLAIN: Final = frozenset({int, float, bool, type(None)})
_NOTE: Final = " of JSON; the rest is no whole value"


def most_characters(tasks: int) -> int:
    """Characters that one value of a verdict may have, of so many tasks.

    A value may be as large as a record, and a profile from the network may have 256 tasks that all
    find it: a verdict of 1 GB, which no store takes, and which would hold up all that come behind.
    The share depends on the profile alone, so that a task's value does not change with others'.
    """
    return MOST_CHARACTERS // (2 * max(tasks, 1))


def kept(value: JsonValue, most: int) -> JsonValue:
    """A value as a verdict keeps it.

    Returns:
        The value itself; of one that is too large, the beginning and the end of its text, with a
        note between them of how much was left out.

    Cost: linear in texts, lists and objects.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, str):
        return value if len(value) <= most else shorten(value, most)
    if not value:
        return value
    text = dump_json(value)
    return value if len(text) <= most else shorten(text, most, _NOTE)


def parts_of_rows(rows: Sequence[EvaluationRow]) -> Iterator[Sequence[EvaluationRow]]:
    """Split verdicts, in order, so that a part fits into the memory of the store."""
    if len(rows) * MOST_CHARACTERS <= _TOGETHER:
        if rows:
            yield rows
        return
    yield from split(rows, lambda row: (_ROW + _size_of(row.tasks),), (_TOGETHER,))


def _size_of(tasks: Iterable[TaskRow]) -> int:
    """About how many characters their values have."""
    values = chain.from_iterable((task.actual, task.expected, task.message) for task in tasks)
    return sum(
        len(value) if type(value) is str else len(repr(value))
        for value in values
        if type(value) not in _PLAIN
    )
