"""Scores on a scale: agreement of people with each other, and errors of a judge."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.agreement import ANY_KAPPA, Kappa, fisher_interval
from scouter.evaluate.statistics.clustered_mean import clustered_mean
from scouter.evaluate.statistics.distributions import NORMAL, student_quantile
from scouter.evaluate.statistics.proportion import CONFIDENCE


def krippendorff_alpha(units: Iterable[Sequence[float]], confidence: float = CONFIDENCE) -> Kappa:
    """Compute Krippendorff's alpha of scores: do people agree more than by chance?

    Any number of people may have scored a unit. A unit with one score says nothing about agreement
    and is left out. The distance of two scores is the square of their difference, so that with two
    people alpha is nearly Cohen's quadratically weighted kappa, and needs no categories. The units
    are the sample. The interval adds one unit that agrees by chance only, as in `fleiss_kappa`; it
    covers 88 to 95 % with 20 units and 90 to 96 % with 50 (normal scores, and five steps of them).

    Args:
        units: The scores of each unit, finite numbers.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Returns:
        1 where all agree, 0 by chance alone, below 0 if worse; None where all scores are the same.

    Raises:
        ValueError: The level is out of range.

    Source: Krippendorff 2011, Computing Krippendorff's Alpha-Reliability, interval data; standard
        error by linearisation of a ratio over the units, Cochran 1977, Sampling Techniques, 2.11.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; expected a level between 0 and 1")
    paired = [unit for unit in units if len(unit) > 1]
    values = [score for unit in paired for score in unit]
    if not values:
        return Kappa(value=None, standard_error=None, interval=ANY_KAPPA)
    mean = math.fsum(values) / len(values)
    spreads = [math.fsum((score - mean) ** 2 for score in unit) for unit in paired]
    total = math.fsum(spreads)
    if total <= 1e-12 * max(1.0, mean * mean):
        return Kappa(value=None, standard_error=None, interval=ANY_KAPPA)
    share = (len(values) - 1) / len(values)
    apart = [share * len(unit) * _variance(unit) for unit in paired]
    alpha = 1 - math.fsum(apart) / total

    def squares(alpha: float) -> float:
        """Sum the squares of the units' pulls on alpha, each times the number of units."""
        pulls = (
            ((1 - alpha) * spread - within) * len(paired) / total
            for spread, within in zip(spreads, apart, strict=True)
        )
        return math.fsum(pull * pull for pull in pulls)

    error = math.sqrt(squares(alpha)) / len(paired)
    if len(paired) == 1:
        return Kappa(value=alpha, standard_error=error, interval=ANY_KAPPA)
    size, freedom = len(paired) + 1, len(paired) - 1
    middle = alpha * len(paired) / size
    spread = math.sqrt(squares(middle) + middle * middle) / size
    level = (1 + confidence) / 2
    few = student_quantile(level, freedom) / NORMAL.inv_cdf(level) * math.sqrt(1 + 1 / freedom)
    return Kappa(
        value=alpha,
        standard_error=error,
        interval=fisher_interval(alpha, middle, spread * few, confidence),
    )


def _variance(unit: Sequence[float]) -> float:
    mean = math.fsum(unit) / len(unit)
    return math.fsum((score - mean) ** 2 for score in unit) / (len(unit) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its interval."""

    value: float | None
    """None where there is nothing to compute it from."""
    interval: Interval | None
    """None where the scores do not say how sure the number is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreErrors:
    """A judge's scores beside those of people."""

    items: int
    mean_absolute_error: Estimate
    """Mean distance of the two scores, in the unit of the scale; not below 0."""
    bias: Estimate
    """Mean of the judge's score less the people's: above 0 where the judge gives more."""
    correlation: Estimate
    """Pearson's, in [-1, 1]: does the judge put the items in the people's order?"""


def score_errors(
    pairs: Sequence[tuple[float, float]], confidence: float = CONFIDENCE
) -> ScoreErrors:
    """Compute how far a judge's scores are from those of people.

    The interval of the correlation is Fisher's with one more item that agrees by chance only, so
    that a perfect one on few items is not certain. The intervals of the means are Student's; there
    is none below six items, and none where all differences are the same.

    Args:
        pairs: The people's score and the judge's of each item, finite numbers.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Source: Fisher 1921, Metron 1, 3, for the correlation.
    """
    differences = [judge - people for people, judge in pairs]
    distance = _mean([abs(each) for each in differences], confidence)
    if distance.interval is not None:
        low, high = distance.interval
        distance = Estimate(value=distance.value, interval=(max(0.0, low), high))
    return ScoreErrors(
        items=len(pairs),
        mean_absolute_error=distance,
        bias=_mean(differences, confidence),
        correlation=_correlation(pairs, confidence),
    )


def _mean(values: Sequence[float], confidence: float) -> Estimate:
    if not values:
        return Estimate(value=None, interval=None)
    found = clustered_mean([[each] for each in values], confidence)
    is_even = max(values) == min(values)
    return Estimate(value=found.mean, interval=None if is_even else found.interval)


def _correlation(pairs: Sequence[tuple[float, float]], confidence: float) -> Estimate:
    if len(pairs) < 2 or any(len(set(side)) == 1 for side in zip(*pairs, strict=True)):
        return Estimate(value=None, interval=None)
    value = statistics.correlation([a for a, _ in pairs], [b for _, b in pairs])
    if len(pairs) <= 3:
        return Estimate(value=value, interval=None)
    middle = value * len(pairs) / (len(pairs) + 1)
    spread = (1 - middle * middle) / math.sqrt(len(pairs) - 3)
    return Estimate(value=value, interval=fisher_interval(value, middle, spread, confidence))
