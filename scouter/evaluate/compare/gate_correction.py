"""Rates of gates corrected for the errors of judges whose calibration is known."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from scouter.evaluate.compare.gate_counts import TaskCount, add_up
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.results.judge_rate import JudgeRate

JudgeRates: TypeAlias = Mapping[tuple[str, str], JudgeRate]
"""Rates of judges by alias (empty for a scenario's own task) and task id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCorrection:
    """A rate as people would give it."""

    rate: float
    interval: Interval
    """95 % interval of the rate, from the judges' errors and the number of results together."""
    error: Interval | None
    """95 % interval of the rate, from the judges' errors alone.

    None where labels and verdicts cannot both be right.
    """


def by_task(rates: Iterable[JudgeRate]) -> JudgeRates:
    """Find rates of judges by alias and task."""
    return {(each.alias, each.task_id): each for each in rates}


def correct_gate(counts: Sequence[TaskCount], known: JudgeRates) -> GateCorrection | None:
    """Replace the pass rate of judges by that of people, as calibrations tell it.

    Results without a calibration count as they are. The ends of the interval are those of the
    parts, each by its number of results: as wide as if all errors went the same way.

    Args:
        counts: The results that the rate is over.
        known: Calibrated rates of the judges; only rates that could be corrected are used.

    Returns:
        The corrected rate; None where there is nothing to correct.

    Cost: about 1 ms for each calibrated task.
    """
    judged = [
        rate
        for each in counts
        if (rate := known.get((each.alias, each.task_id))) is not None
        and rate.rate is not None
        and rate.judged
    ]
    if not judged:
        return None
    passed, total = add_up(counts)
    plain_passed = passed - sum(each.passed for each in judged)
    plain_total = total - sum(each.judged for each in judged)
    low, high = wilson(plain_passed, plain_total)

    def mixed(plain: float, ofs: Iterable[float]) -> float:
        parts = (rate * each.judged for rate, each in zip(ofs, judged, strict=True))
        return (plain + math.fsum(parts)) / total

    intervals = [each.interval or (0.0, 1.0) for each in judged]
    errors = [each.error for each in judged if each.error is not None]
    return GateCorrection(
        rate=mixed(plain_passed, (each.rate or 0.0 for each in judged)),
        interval=(
            mixed(low * plain_total, (bounds[0] for bounds in intervals)),
            mixed(high * plain_total, (bounds[1] for bounds in intervals)),
        ),
        error=None
        if len(errors) < len(judged)
        else (
            mixed(plain_passed, (bounds[0] for bounds in errors)),
            mixed(plain_passed, (bounds[1] for bounds in errors)),
        ),
    )


def not_corrected(counts: Iterable[TaskCount], known: JudgeRates) -> list[str]:
    """Say of which judges a calibration is there and of no use, and why."""
    found = (known.get((each.alias, each.task_id)) for each in counts)
    return [
        f"task {rate.task_id!r} counts as its judge says ({rate.standing_text}: {rate.why})"
        for rate in found
        if rate is not None and rate.standing in ("cannot_say", "another_judge")
    ]
