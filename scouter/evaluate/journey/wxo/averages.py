"""Means over runs, as version 1.6.9 of the original takes them: rounded twice, and unweighted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scouter.evaluate.journey.result import Measure

RUNS = "Runs"


@dataclass(slots=True)
class Averages:
    """Means of runs."""

    per_dataset: dict[str, dict[str, Measure]] = field(
        default_factory=dict[str, dict[str, Measure]]
    )
    overall: dict[str, Measure] = field(default_factory=dict[str, Measure])


def averages(runs: Iterable[tuple[str, Mapping[str, Measure]]]) -> Averages:
    """Take the means of measures.

    Args:
        runs: The name of the dataset and the measures of each run; None does not count.

    Returns:
        Means of each dataset to two places, with `Runs`, the number of values of its last measure;
        and the means of these means, to two places again. None where there is no value.
    """
    found: dict[str, dict[str, list[Measure]]] = {}
    for name, measures in runs:
        for measure, value in measures.items():
            found.setdefault(name, {}).setdefault(measure, []).append(value)
    result = Averages()
    for name, measures in found.items():
        row = {measure: _mean(values) for measure, values in measures.items()}
        row[RUNS] = len(next(reversed(measures.values()))) if measures else 0
        result.per_dataset[name] = row
    names = dict.fromkeys(measure for row in result.per_dataset.values() for measure in row)
    rows = result.per_dataset.values()
    result.overall = {name: _mean([row.get(name) for row in rows]) for name in names}
    return result


def _mean(values: Sequence[Measure]) -> float | None:
    numbers = [float(value) for value in values if value is not None]
    return round(sum(numbers) / len(numbers), 2) if numbers else None
