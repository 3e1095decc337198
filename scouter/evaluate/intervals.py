"""How sure a pass rate is, given the number of samples behind it."""

import math
from statistics import NormalDist
from typing import Final, TypeAlias

Interval: TypeAlias = tuple[float, float]

Z_95: Final = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""


def wilson(passed: int, total: int, z: float = Z_95) -> Interval:
    """Compute the Wilson score interval of a rate.

    Args:
        passed: Successes, 0 <= passed <= total.
        total: Samples.
        z: Quantile of the normal distribution; 95 % two-sided by default.

    Returns:
        Lower and upper bound in [0, 1]; (0, 1) without samples.

    Raises:
        ValueError: The counts contradict each other.

    Source: Wilson 1927, doi:10.1080/01621459.1927.10502953.
    """
    if not 0 <= passed <= total:
        raise ValueError(f"{passed} of {total} is no rate")
    if total == 0:
        return 0.0, 1.0
    rate, square = passed / total, z * z / total
    middle = rate + square / 2
    half = z * math.sqrt(rate * (1 - rate) / total + square / (4 * total))
    low = 0.0 if passed == 0 else (middle - half) / (1 + square)
    high = 1.0 if passed == total else (middle + half) / (1 + square)
    return low, high


def wilson_interval(passed: int, n: int, confidence: float = 0.95) -> Interval:
    """Compute the Wilson score interval of a rate for any level.

    Args:
        passed: Successes, 0 <= passed <= n.
        n: Samples.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Returns:
        As `wilson`.

    Raises:
        ValueError: The counts contradict each other, or the level is out of range.

    Source: Wilson 1927, doi:10.1080/01621459.1927.10502953; without continuity correction.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; expected a level between 0 and 1")
    return wilson(passed, n, NormalDist().inv_cdf((1 + confidence) / 2))
