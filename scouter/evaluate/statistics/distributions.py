"""The distributions that the tests are made of."""

import math
from collections.abc import Iterator
from functools import lru_cache
from statistics import NormalDist
from typing import Final

NORMAL: Final = NormalDist()

_STEPS: Final = 300
_TINY: Final = 1e-300


def binomial_pmf(successes: int, trials: int, rate: float) -> float:
    """Probability of exactly so many successes.

    Args:
        successes: Any integer; outside 0..trials the answer is 0.
        trials: Number of independent trials, 0 or more.
        rate: Probability of one success, in [0, 1].

    Returns:
        A probability; relative error below 1e-10 for up to a million trials.
    """
    if not 0 <= successes <= trials:
        return 0.0
    if rate <= 0.0 or rate >= 1.0:
        return float(successes == (0 if rate <= 0.0 else trials))
    log_ways = (
        math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    )
    return math.exp(
        log_ways + successes * math.log(rate) + (trials - successes) * math.log1p(-rate)
    )


def binomial_cdf(successes: int, trials: int, rate: float) -> float:
    """Probability of at most so many successes.

    Args:
        successes: Any integer.
        trials: Number of independent trials, 0 or more.
        rate: Probability of one success, in [0, 1].

    Returns:
        A probability in [0, 1].

    Cost: about 40 standard deviations of terms at most.
    """
    if successes < 0:
        return 0.0
    if successes >= trials:
        return 1.0
    if rate <= 0.0 or rate >= 1.0:
        return float(rate <= 0.0)
    if successes > trials * rate:  # the other tail is the smaller one: fewer terms, no rounding
        return 1.0 - math.fsum(_falling(trials - successes - 1, trials, 1.0 - rate))
    return min(1.0, math.fsum(_falling(successes, trials, rate)))


def _falling(start: int, trials: int, rate: float) -> Iterator[float]:
    """Terms of the lower tail from `start` down, until they no longer count."""
    term = binomial_pmf(start, trials, rate)
    odds = (1.0 - rate) / rate
    for successes in range(start, -1, -1):
        yield term
        if successes < trials * rate and term < _TINY:
            return
        term *= successes / (trials - successes + 1) * odds


@lru_cache(maxsize=4096)
def student_quantile(probability: float, freedom: int) -> float:
    """Value below which Student's t stays with this probability.

    Args:
        probability: Between 0 and 1, both excluded.
        freedom: Degrees of freedom, 1 or more.

    Returns:
        The quantile, to about 1e-10.

    Raises:
        ValueError: An argument is out of range.
    """
    if not 0 < probability < 1 or freedom < 1:
        raise ValueError(f"no quantile {probability} of Student's t with {freedom} degrees")
    if probability < 0.5:
        return -student_quantile(1.0 - probability, freedom)
    low, high = 0.0, 1.0
    while student_cdf(high, freedom) < probability:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if student_cdf(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def student_cdf(value: float, freedom: int) -> float:
    """Probability that Student's t is at most `value`."""
    half = incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value)) / 2
    return 1.0 - half if value > 0 else half


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b).

    Args:
        a: Positive.
        b: Positive.
        x: In [0, 1].

    Source: continued fraction 8.17.22 of the Digital Library of Mathematical Functions,
        evaluated by Lentz' method in the form of Thompson and Barnett 1986.
    """
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast only below its mean
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    return math.exp(log_front) / a * _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    numerator, denominator = 1.0, _nonzero(1.0 - (a + b) * x / (a + 1))
    denominator = 1.0 / denominator
    value = denominator
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for step in (even, odd):
            denominator = 1.0 / _nonzero(1.0 + step * denominator)
            numerator = _nonzero(1.0 + step / numerator)
            change = denominator * numerator
            value *= change
        if abs(change - 1.0) < 1e-15:
            break
    return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
