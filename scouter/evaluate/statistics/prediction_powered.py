"""Prediction-powered inference: a judge's many outcomes make a few labels say more."""

import math
from dataclasses import dataclass

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.distributions import NORMAL
from scouter.evaluate.statistics.proportion import CONFIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionPowered:
    """A share of good items."""

    estimate: float
    interval: Interval
    tuning: float
    """Weight of the judge's outcomes, in [0, 1]: at 0 they do not count, at 1 they count fully."""


def prediction_powered(
    labels: Confusion,
    passed: int,
    judged: int,
    tuning: float | None = None,
    confidence: float = CONFIDENCE,
) -> PredictionPowered:
    """Estimate the share of good items from few labels and many outcomes of the same traffic.

    The judge's pass rate, less what the labels show it to be wrong by. Sound however bad the
    judge is, but the interval is a normal one: near 0 and 1 it is too short (see the bench). Use
    `corrected_rate` with `same_traffic` there, which has the same data and no such weakness.

    Args:
        labels: A random sample of the traffic that people and the judge have decided.
        passed: Items without label that the judge passed.
        judged: Items without label that it passed or failed, at least 1.
        tuning: Weight of the outcomes; None finds the one with the least variance, in [0, 1].
        confidence: Two-sided level, between 0 and 1, both excluded.

    Raises:
        ValueError: There are no labels or no outcomes, or the counts contradict each other.

    Source: Angelopoulos et al. 2023, doi:10.1126/science.adi6000; power tuning Angelopoulos,
        Duchi and Zrnic 2023, PPI++, arXiv:2311.01453, example 6.1.
    """
    count = labels.total
    if not count or not judged or not 0 <= passed <= judged:
        raise ValueError(f"{count} labels, {passed} of {judged} passed: nothing to infer from")
    good, agreed = labels.good / count, labels.passed / count
    both = labels.good_passed / count
    share = passed / judged
    covariance = both - good * agreed
    spread = share * (1 - share)
    if tuning is None:
        pooled = (passed + labels.passed) / (judged + count)
        least = (1 + count / judged) * pooled * (1 - pooled)
        tuning = min(1.0, max(0.0, covariance / least)) if least else 0.0
    variance = tuning * tuning * spread / judged
    variance += max(
        0.0, good * (1 - good) - 2 * tuning * covariance + tuning**2 * agreed * (1 - agreed)
    ) / count  # fmt: skip
    estimate = good + tuning * (share - agreed)
    half = NORMAL.inv_cdf((1 + confidence) / 2) * math.sqrt(variance)
    return PredictionPowered(
        estimate=estimate,
        interval=(max(0.0, estimate - half), min(1.0, estimate + half)),
        tuning=tuning,
    )
