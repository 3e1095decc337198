"""The interval of Cohen's kappa of two categories, by the profile likelihood.

With kappa k, and m and d the mean and half the difference of how often the two raters pass, the
four chances are (p + 2m - 1) / 2, (1 - p) / 2 + d, (1 - p) / 2 - d and (p + 1 - 2m) / 2, where
p = 1 - 2 (1 - k) (m (1 - m) + d²) is the share of agreement. A kappa belongs to the interval unless
every m and d makes the table too unlikely under it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.distributions import NORMAL

_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_STEPS: Final = 24
"""Steps of a search: to 1e-5 of its range, and to 1e-10 of the peak."""
_HALVINGS: Final = 18
_IMPOSSIBLE: Final = -math.inf


def profile_interval(cells: Sequence[float], middle: float, confidence: float) -> Interval:
    """Compute the interval of kappa.

    Args:
        cells: Both pass, the first alone, the second alone, none of them; all above 0.
        middle: Kappa of these cells.
        confidence: Two-sided level, between 0 and 1.

    Cost: some 40 values of the profile, 700 of the likelihood each; about 0.1 s.
    Source: Wilks 1938, doi:10.1214/aoms/1177732360; for kappa of two categories the likelihood is
        that of Hale and Fleiss 1993, doi:10.2307/2532566.
    """

    def is_inside(kappa: float) -> bool:
        return holds(cells, kappa, confidence)

    return _edge(is_inside, middle, -1.0), _edge(is_inside, middle, 1.0)


def holds(cells: Sequence[float], kappa: float, confidence: float) -> bool:
    """Tell whether a kappa is in the interval; a fortieth of the work."""
    total = math.fsum(cells)
    best = math.fsum(cell * math.log(cell / total) for cell in cells)
    least = best - NORMAL.inv_cdf((1 + confidence) / 2) ** 2 / 2
    return _profile(cells, kappa) >= least


def _edge(is_inside: Callable[[float], bool], inside: float, outside: float) -> float:
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if is_inside(middle):
            inside = middle
        else:
            outside = middle
    return inside


def _profile(cells: Sequence[float], kappa: float) -> float:
    """The largest log-likelihood of a kappa."""
    apart = 1 - kappa
    end = min(1.0, 1 / apart)

    def of_mean(mean: float) -> float:
        most = _largest_difference(mean, apart)
        return _largest(lambda d: _log_likelihood(cells, mean, d, apart), -most, most)

    return _largest(of_mean, 1 - end, end)


def _largest_difference(mean: float, apart: float) -> float:
    """Beyond it one of the chances would be negative."""
    spread = mean * (1 - mean)
    square = (1 - 2 * apart * spread - abs(1 - 2 * mean)) / (2 * apart)
    most = math.sqrt(max(0.0, square))
    root = 1 - 4 * apart * apart * spread
    return min(most, (1 - math.sqrt(root)) / (2 * apart)) if root > 0 else most


def _log_likelihood(cells: Sequence[float], mean: float, d: float, apart: float) -> float:
    differ = apart * (mean * (1 - mean) + d * d)
    both = mean - differ
    chances = (both, differ + d, differ - d, both + 1 - 2 * mean)
    if min(chances) <= 0:
        return _IMPOSSIBLE
    return math.fsum(cell * math.log(p) for cell, p in zip(cells, chances, strict=True))


def _largest(of: Callable[[float], float], low: float, high: float) -> float:
    """The largest value of a function with one peak, by golden sections."""
    width = high - low
    left, right = high - _GOLDEN * width, low + _GOLDEN * width
    at_left, at_right = of(left), of(right)
    best = max(at_left, at_right)
    for _ in range(_STEPS):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = of(right)
            best = max(best, at_right)
        else:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = of(left)
            best = max(best, at_left)
    return best
