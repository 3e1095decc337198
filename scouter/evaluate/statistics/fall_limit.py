"""The largest fall that a comparison does not rule out."""

import math
from typing import Final

from scouter.evaluate.statistics.distributions import NORMAL, incomplete_beta
from scouter.evaluate.statistics.paired import tango

CONFIDENCE: Final = 0.95
"""One-sided."""

_HALVINGS: Final = 60


def fall_limit(fell: float, rose: float, scenarios: int, confidence: float = CONFIDENCE) -> float:
    """Upper limit of how far the share of scenarios that pass has fallen, one-sided.

    It is the larger of two limits: Tango's score limit of the net fall, and that of Clopper and
    Pearson for as many net falls. Tango's alone is too low where nothing fell and nothing rose;
    there the other gives what 0 of n always gives: 13.9 points for 20 scenarios, 9.5 for 30.

    Args:
        fell: Sum of the falls of the scenarios' own rates, each in [0, 1].
        rose: Sum of their rises.
        scenarios: Number of scenarios, with those that neither fell nor rose.
        confidence: One-sided level, between 0 and 1, both excluded.

    Returns:
        A share in [0, 1]; 1 without scenarios.

    Raises:
        ValueError: The sums contradict each other, or the level is out of range.

    Source: Tango 1998, Statistics in Medicine 17, 891-908; Clopper and Pearson 1934,
        doi:10.1093/biomet/26.4.404, at a count that may be a fraction.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; expected a level between 0 and 1")
    if scenarios <= 0:
        return 1.0
    by_score = -tango(fell, rose, scenarios, z=NORMAL.inv_cdf(confidence))[0]
    return max(by_score, highest_rate(max(fell - rose, 0.0), scenarios, confidence))


def fewest_scenarios(limit: float, confidence: float = CONFIDENCE) -> int:
    """Count the scenarios that it takes to rule out a fall, if not one of them fell.

    Args:
        limit: The fall, a share above 0.
        confidence: One-sided level, between 0 and 1, both excluded.

    Returns:
        Fewest scenarios, from 1; attempts at the same scenarios cannot take their place.
    """
    if limit >= 1:
        return 1
    return math.ceil(math.log1p(-confidence) / math.log1p(-limit) - 1e-9)


def highest_rate(count: float, total: int, confidence: float = CONFIDENCE) -> float:
    """Upper limit of a rate after Clopper and Pearson, one-sided.

    Args:
        count: Number of hits, possibly a fraction, in [0, total].
        total: Number of trials.
        confidence: One-sided level, between 0 and 1, both excluded.

    Returns:
        The quantile of the beta distribution with `count + 1` and `total - count`; 1 where all
        count.

    Cost: 60 evaluations of the incomplete beta function.
    """
    if count >= total:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if incomplete_beta(count + 1, total - count, middle) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2
