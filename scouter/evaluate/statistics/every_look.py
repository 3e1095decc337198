"""Bounds that hold at every look, for a comparison that somebody refreshes while traffic comes in.

An interval of 95 % is wrong in 5 % of looks, and who looks often enough sees it wrong. The bounds
here hold at all looks together: in 95 % of comparisons every interval that is ever shown is right.

A difference of two rates grows more certain as either side takes traffic. Multiplied by its
information, the inverse of its squared standard error, it is a Brownian motion in the time of that
information, whichever side the traffic comes to (Jennison and Turnbull 2000, Group Sequential
Methods with Applications to Clinical Trials, chapter 3). Robbins' normal mixture bounds such a
motion at all times.
"""

import math
from typing import Final

from scouter.evaluate.statistics.distributions import NORMAL
from scouter.evaluate.statistics.proportion import CONFIDENCE

_SPREAD: Final = 0.1
"""Standard deviation of the mixture, in the units of a rate: the bounds are narrowest for
differences of about ten points, and nowhere far from the narrowest that there are."""


def look_quantile(information: float, confidence: float = CONFIDENCE) -> float:
    """Standard errors on either side of a difference that hold at every look.

    Args:
        information: Inverse of the squared standard error of the difference, above 0.
        confidence: Two-sided level over all looks, between 0 and 1, both excluded.

    Returns:
        The number that takes the place of 1.96; between 3 and 4 for most comparisons.

    Source: Robbins 1970, doi:10.1214/aoms/1177696786; with estimated standard errors
        Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2024, Time-uniform central limit theory
        and asymptotic confidence sequences, doi:10.1214/24-AOS2408.
    """
    ripe = information * _SPREAD**2
    return math.sqrt((1 + 1 / ripe) * (math.log1p(ripe) - 2 * math.log(1 - confidence)))


def look_p_value(z: float, information: float) -> float:
    """P-value of a difference that is not below 0, valid at every look.

    Args:
        z: Standard errors by which the difference is below 0; negative where it is above.
        information: Inverse of the squared standard error of the difference, above 0.

    Returns:
        The inverse of the evidence for a fall, at most 1. If nothing fell, it is ever at or below
        a level with at most the chance of that level.

    Source: the one-sided normal mixture of the source above.
    """
    ripe = information * _SPREAD**2
    part = ripe / (1 + ripe)
    log_evidence = (
        math.log(2)
        + math.log(max(NORMAL.cdf(z * math.sqrt(part)), 1e-300))
        - math.log1p(ripe) / 2
        + z * z * part / 2
    )
    return math.exp(-max(0.0, log_evidence))
