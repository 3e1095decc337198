"""One pass rate against another where nothing says which result belongs to which."""

import math
from typing import Final

from scouter.evaluate.intervals import Interval, wilson

CONFIDENCE: Final = 0.95

_ROUNDING: Final = 1e-7
"""Tables whose probabilities differ by less are equally likely; rounding made the difference."""


def newcombe_difference(
    old_passed: float,
    old_total: float,
    passed: float,
    total: float,
    confidence: float = CONFIDENCE,
    z: float | None = None,
) -> Interval:
    """Interval of a difference of two independent rates, new minus old.

    Args:
        old_passed: Passes of the baseline; these and the others may be fractions, of results that
            are counted at an effective size.
        old_total: Results of the baseline.
        passed: Passes now.
        total: Results now.
        confidence: Two-sided level, between 0 and 1, both excluded.
        z: Standard errors on either side, in place of the level's.

    Returns:
        Lower and upper bound in [-1, 1].

    Raises:
        ValueError: The counts contradict each other, or the level is out of range.

    Source: hybrid score interval, method 10 of Newcombe 1998, Statistics in Medicine 17, 873-890.
    """
    old_low, old_high = wilson(old_passed, old_total, confidence, z)
    low, high = wilson(passed, total, confidence, z)
    old_rate = old_passed / old_total if old_total else 0.5
    rate = passed / total if total else 0.5
    difference = rate - old_rate
    return (
        max(-1.0, difference - math.hypot(rate - low, old_high - old_rate)),
        min(1.0, difference + math.hypot(high - rate, old_rate - old_low)),
    )


def fisher_exact(old_passed: int, old_total: int, passed: int, total: int) -> float:
    """Two-sided p-value of two independent rates being one and the same.

    Args:
        old_passed: Passes of the baseline.
        old_total: Results of the baseline.
        passed: Passes now.
        total: Results now.

    Returns:
        The probability, given the margins, of a table at most as likely as this one.

    Raises:
        ValueError: The counts contradict each other.

    Cost: as many terms as the smaller margin.
    Source: Fisher 1934; two-sided by the probabilities of the tables, as is usual.
    """
    if not (0 <= old_passed <= old_total and 0 <= passed <= total):
        raise ValueError(f"{old_passed} of {old_total} and {passed} of {total} are no counts")
    successes = old_passed + passed
    low, high = max(0, successes - old_total), min(total, successes)
    whole = _log_choose(old_total + total, successes)

    def chance(count: int) -> float:
        ways = _log_choose(total, count) + _log_choose(old_total, successes - count)
        return math.exp(ways - whole)

    limit = chance(passed) * (1 + _ROUNDING)
    chances = (chance(count) for count in range(low, high + 1))
    return min(1.0, math.fsum(value for value in chances if value <= limit))


def fall_mid_p(old_passed: int, old_total: int, passed: int, total: int) -> float:
    """One-sided p-value of a rate that did not fall, as a mid-p.

    Args:
        old_passed: Passes of the baseline.
        old_total: Results of the baseline.
        passed: Passes now.
        total: Results now.

    Returns:
        The probability, given the margins, of fewer passes now, and half of that of as many.

    Raises:
        ValueError: The counts contradict each other.

    Cost: as many terms as the smaller margin.
    Source: Fisher 1934; mid-p: Lancaster 1961, doi:10.1080/01621459.1961.10482105.
    """
    if not (0 <= old_passed <= old_total and 0 <= passed <= total):
        raise ValueError(f"{old_passed} of {old_total} and {passed} of {total} are no counts")
    successes = old_passed + passed
    whole = _log_choose(old_total + total, successes)

    def chance(count: int) -> float:
        ways = _log_choose(total, count) + _log_choose(old_total, successes - count)
        return math.exp(ways - whole)

    low, high = max(0, successes - old_total), min(total, successes)
    half = chance(passed) / 2
    if passed - low < high - passed:
        return math.fsum(map(chance, range(low, passed))) + half
    return max(0.0, 1 - math.fsum(map(chance, range(passed + 1, high + 1))) - half)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
