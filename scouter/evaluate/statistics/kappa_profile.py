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

_STEPS: Final = 60
"""Steps of a search at most; some eight are usual."""
_NEAR: Final = 1e-8
"""Accuracy of the peak's place, in its range."""
_EDGE_NEAR: Final = 1e-6
"""Accuracy of an end of the interval."""
_INSET: Final = 1e-12
"""Share of a range that is left out at its ends, where a chance is 0."""
_IMPOSSIBLE: Final = -math.inf


def profile_interval(cells: Sequence[float], middle: float, confidence: float) -> Interval:
    """Compute the interval of kappa.

    Args:
        cells: Both pass, the first alone, the second alone, none of them; all above 0.
        middle: Kappa of these cells.
        confidence: Two-sided level, between 0 and 1.

    Cost: some 15 values of the profile, 60 of the likelihood's slope each; about 2 ms.
    Source: Wilks 1938, doi:10.1214/aoms/1177732360; for kappa of two categories the likelihood is
        that of Hale and Fleiss 1993, doi:10.2307/2532566.
    """
    best = _best(cells)
    reach = NORMAL.inv_cdf((1 + confidence) / 2)

    def beyond(kappa: float) -> float:
        """Root of the deviance, which is nearly straight in kappa, less what the level allows."""
        return math.sqrt(max(0.0, 2 * (best - _profile(cells, kappa)))) - reach

    def edge(outside: float) -> float:
        return _root(beyond, middle, outside, -reach, math.inf, _EDGE_NEAR)

    return edge(-1.0), edge(1.0)


def holds(cells: Sequence[float], kappa: float, confidence: float) -> bool:
    """Tell whether a kappa is in the interval; a fifteenth of the work."""
    least = _best(cells) - NORMAL.inv_cdf((1 + confidence) / 2) ** 2 / 2
    return _profile(cells, kappa) >= least


def _best(cells: Sequence[float]) -> float:
    """The largest log-likelihood of all."""
    total = math.fsum(cells)
    return math.fsum(cell * math.log(cell / total) for cell in cells)


def _profile(cells: Sequence[float], kappa: float) -> float:
    """The largest log-likelihood of a kappa.

    At the peak the slopes in m and d are 0. Each is taken times the chances, which makes it finite
    at the ends. Along the best d the slope in m is the partial one, as that in d is 0 there.
    """
    apart = 1 - kappa
    end = min(1.0, 1 / apart)

    def difference(mean: float) -> float:
        most = _largest_difference(mean, apart) * (1 - _INSET)
        return _root_within(lambda d: _slope_in_d(cells, mean, d, apart), -most, most)

    inset = _INSET * (2 * end - 1)
    mean = _root_within(
        lambda mean: _slope_in_mean(cells, mean, difference(mean), apart),
        1 - end + inset,
        end - inset,
    )
    return _log_likelihood(cells, mean, difference(mean), apart)


def _slope_in_d(cells: Sequence[float], mean: float, d: float, apart: float) -> float:
    turn = 2 * apart * d
    return _slope(cells, _chances(mean, d, apart), (-turn, turn + 1, turn - 1, -turn))


def _slope_in_mean(cells: Sequence[float], mean: float, d: float, apart: float) -> float:
    turn = apart * (1 - 2 * mean)
    return _slope(cells, _chances(mean, d, apart), (1 - turn, turn, turn, -1 - turn))


def _slope(
    cells: Sequence[float], chances: Sequence[float], turns: tuple[float, float, float, float]
) -> float:
    """Slope of the log-likelihood times all chances, from the slopes of the chances."""
    a, b, c, d = chances
    w, x, y, z = (cell * turn for cell, turn in zip(cells, turns, strict=True))
    return (w * b + x * a) * c * d + (y * d + z * c) * a * b


def _largest_difference(mean: float, apart: float) -> float:
    """Beyond it one of the chances would be negative."""
    spread = mean * (1 - mean)
    square = (1 - 2 * apart * spread - abs(1 - 2 * mean)) / (2 * apart)
    most = math.sqrt(max(0.0, square))
    root = 1 - 4 * apart * apart * spread
    return min(most, (1 - math.sqrt(root)) / (2 * apart)) if root > 0 else most


def _chances(mean: float, d: float, apart: float) -> tuple[float, float, float, float]:
    differ = apart * (mean * (1 - mean) + d * d)
    both = mean - differ
    return both, differ + d, differ - d, both + 1 - 2 * mean


def _log_likelihood(cells: Sequence[float], mean: float, d: float, apart: float) -> float:
    chances = _chances(mean, d, apart)
    if min(chances) <= 0:
        return _IMPOSSIBLE
    return math.fsum(cell * math.log(p) for cell, p in zip(cells, chances, strict=True))


def _root_within(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a slope that is above 0 at first and below it at last is 0; an end if it is not so."""
    if high <= low:
        return (low + high) / 2
    at_low, at_high = of(low), of(high)
    if at_low <= 0 or at_high >= 0:
        return low if at_low <= 0 else high
    return _root(of, low, high, at_low, at_high, _NEAR * (high - low))


def _root(
    of: Callable[[float], float], a: float, b: float, at_a: float, at_b: float, near: float
) -> float:
    """Where a function is 0 between two places with opposite signs.

    By inverse quadratic interpolation where that is safe, else by halves, as where a value is not
    finite.

    Source: Chandrupatla 1997, doi:10.1016/S0965-9978(96)00051-8.
    """
    share = 0.5
    for _ in range(_STEPS):
        x = a + share * (b - a)
        at_x = of(x)
        if (at_x > 0) is (at_a > 0):
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = x, at_x
        least = near / abs(b - a) if a != b else 1.0
        if at_a == 0 or least > 0.5:
            break
        place, height = (a - b) / (c - b), math.nan
        if at_c != at_b and math.isfinite(at_b) and math.isfinite(at_c):
            height = (at_a - at_b) / (at_c - at_b)
        if 1 - math.sqrt(1 - place) < height < math.sqrt(place):
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
            share = min(1 - least, max(least, share))
        else:
            share = 0.5
    return a if abs(at_a) < abs(at_b) else b
