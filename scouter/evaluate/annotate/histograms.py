"""Histograms over the numbers of an evaluation."""

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import isfinite
from typing import Final

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.annotations import Histogram, RecordAnnotations
from scouter.evaluate.results.rows import ResultRows

BINS: Final = 10

_LARGEST: Final = sys.float_info.max


def histogram(values: Iterable[float | None]) -> Histogram | None:
    """Count values in ten bins of equal width between the smallest and the largest.

    A bin holds its lower edge and not its upper one; the last bin holds both. Where all values
    are the same, or too close for ten bins to have ten widths, the bins cover half a unit (or a
    billionth of the value, if that is more) to both sides, so that the values stand in the middle.

    Args:
        values: Any number of them; None, NaN and infinities count as missing.

    Returns:
        None if nothing can be counted.

    Cost: linear.
    Source: the edges are those of `numpy.histogram(values, bins=10)`.
    """
    given = list(values)
    numbers = [value for value in given if value is not None and isfinite(value)]
    if not numbers:
        return None
    edges = _edges(min(numbers), max(numbers))
    counts = [0] * BINS
    for number in numbers:
        counts[min(max(bisect_right(edges, number) - 1, 0), BINS - 1)] += 1
    return Histogram(
        bin_edges=tuple(edges),
        bin_counts=tuple(counts),
        total=len(numbers),
        missing=len(given) - len(numbers),
    )


def _edges(low: float, high: float) -> list[float]:
    edges = _between(low, high)
    if all(left < right for left, right in pairwise(edges)):
        return edges
    around = max(0.5, 1e-9 * max(abs(low), abs(high)))
    return _between(max(low - around, -_LARGEST), min(high + around, _LARGEST))


def _between(low: float, high: float) -> list[float]:
    """Spread eleven edges; by parts, as `high - low` can be more than the largest float."""
    inner = [low * (1 - at / BINS) + high * (at / BINS) for at in range(1, BINS)]
    return [low, *inner, high]


def all_histograms(
    results: ResultRows, records: Sequence[RecordAnnotations] | None
) -> dict[str, Histogram]:
    """Make the histogram of every column of numbers, wherever in the records it first appears.

    The columns: `{task}` is 1.0 where the task passed, 0.0 where it failed or errored, missing
    where it was skipped; `actual({task})` is the value that the task compared, where that is a
    number, such as a judge's score; `mean({target})` is the mean of a target's embedding;
    `similarity({target}, {target})` of two.

    Raises:
        ConfigError: A task's id is the name of another column.

    Cost: linear in task results.
    """
    columns = _task_columns(results)
    for name, column in _embedding_columns(records or ()):
        if name in columns:
            raise ConfigError(f"the id of the task {name!r} is the name of another histogram")
        columns[name] = column
    found = {name: histogram(_padded(column, len(results))) for name, column in columns.items()}
    return {name: made for name, made in found.items() if made is not None}


def _padded(column: Sequence[float | None], length: int) -> Iterator[float | None]:
    yield from column
    yield from [None] * (length - len(column))


def _task_columns(results: ResultRows) -> dict[str, list[float | None]]:
    passed: dict[str, list[float | None]] = {}
    actual: dict[str, list[float | None]] = {}
    for record in results.records:
        for task in record.tasks:
            name = task.task_id
            value = None if task.outcome is Outcome.SKIPPED else task.value
            passed.setdefault(name, []).append(value)
            number = None if value is None else _number(task.actual)
            if number is not None:
                actual.setdefault(name, []).append(number)
    columns = dict(passed)
    for name, numbers in actual.items():
        if f"actual({name})" in columns:
            raise ConfigError(f"the id of the task 'actual({name})' is the name of another column")
        columns[f"actual({name})"] = list(numbers)
    return columns


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond the floats has no place between edges
        return None


def _embedding_columns(
    records: Sequence[RecordAnnotations],
) -> Iterator[tuple[str, list[float | None]]]:
    means: dict[str, list[float | None]] = {}
    pairs: dict[str, list[float | None]] = {}
    for record in records:
        for target, mean in record.mean_embeddings.items():
            means.setdefault(target, []).append(mean)
        for pair, score in record.similarity_scores.items():
            pairs.setdefault(pair, []).append(score)
    yield from ((f"mean({target})", column) for target, column in means.items())
    yield from ((f"similarity({pair})", column) for pair, column in pairs.items())
