"""Confidence intervals of pass rates."""

import math
from statistics import NormalDist
from typing import Final, TypeAlias

Interval: TypeAlias = tuple[float, float]

_NORMAL: Final = NormalDist()


def wilson(
    passed: float, total: float, confidence: float = 0.95, z: float | None = None
) -> Interval:
    """Compute the Wilson score interval of a rate, without continuity correction.

    Args:
        passed: Successes, 0 <= passed <= total; a fraction where they are counted at an effective
            size.
        total: Samples.
        confidence: Two-sided level, between 0 and 1, both excluded.
        z: Standard errors on either side, in place of the level's.

    Returns:
        Lower and upper bound in [0, 1]; (0, 1) without samples.

    Raises:
        ValueError: The counts contradict each other, or the level is out of range.

    Source: Wilson 1927, doi:10.1080/01621459.1927.10502953.
    """
    if not 0 <= passed <= total:
        raise ValueError(f"{passed} of {total} is no rate")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; expected a level between 0 and 1")
    if total == 0:
        return 0.0, 1.0
    if z is None:
        z = _NORMAL.inv_cdf((1 + confidence) / 2)
    rate, square = passed / total, z * z / total
    middle = rate + square / 2
    half = z * math.sqrt(rate * (1 - rate) / total + square / (4 * total))
    low = 0.0 if passed == 0 else (middle - half) / (1 + square)
    high = 1.0 if passed == total else (middle + half) / (1 + square)
    return low, high
