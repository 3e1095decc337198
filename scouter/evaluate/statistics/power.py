"""Power of a run: what it could have seen, and how many pairs that needs."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from scouter.evaluate.statistics.distributions import NORMAL, binomial_pmf

ALPHA: Final = 0.05
POWER: Final = 0.8

_EXACT_CHANGES: Final = 150
"""Expected number of changed pairs up to which the power is summed up exactly."""

_MOST_PAIRS: Final = 100_000_000
_PRECISION: Final = 0.001
"""Precision of a smallest fall, as a share of itself."""


def power_of_pairs(pairs: int, fall: float, churn: float = 0.0, alpha: float = ALPHA) -> float:
    """Compute the chance that McNemar's exact test reports a fall.

    Args:
        pairs: Independent pairs, 0 or more.
        fall: By how much the pass rate truly falls, in [0, 1].
        churn: Share of pairs that rise by chance; as many fall by chance, beside the true fall.
        alpha: Two-sided level of the test.

    Returns:
        The chance, in [0, 1], of a p-value at most `alpha` with more falls than rises.

    Raises:
        ValueError: The shares do not fit into one.

    Cost: grows with the square root of the number of changed pairs; constant above 150 expected.
    Source: exact sum over the number of changed pairs; above that the normal form of Connor 1987,
        doi:10.2307/2531961, with continuity correction.
    """
    changing = fall + 2 * churn
    if pairs < 0 or fall < 0 or churn < 0 or changing > 1 + 1e-9:
        raise ValueError(f"a fall of {fall} with a churn of {churn} in {pairs} pairs is impossible")
    changing = min(changing, 1.0)
    expected = pairs * changing
    if not expected:
        return 0.0
    if expected > _EXACT_CHANGES:
        return _connor(pairs, fall, churn, alpha)
    reach = 6 * math.sqrt(expected) + 12  # what lies beyond has a chance below 1e-8
    least = max(_fewest_changes(alpha), math.floor(expected - reach))
    return min(
        1.0,
        math.fsum(
            binomial_pmf(changes, pairs, changing)
            * _at_most(_most_rises(changes, alpha), changes, churn / changing)
            for changes in range(least, min(pairs, math.ceil(expected + reach)) + 1)
        ),
    )


def _connor(pairs: int, fall: float, churn: float, alpha: float) -> float:
    changing = fall + 2 * churn
    z = NORMAL.inv_cdf(1 - alpha / 2)
    spread = math.sqrt(max(changing - fall * fall, 1e-12))
    distance = (fall * pairs - 1) / math.sqrt(pairs)  # the 1 stands for the exact test's caution
    return NORMAL.cdf((distance - z * math.sqrt(changing)) / spread)


def _at_most(rises: int, changes: int, rate: float) -> float:
    """Binomial tail for at most a few hundred trials and a rate of at most 1/2: no underflow."""
    if rises < 0:
        return 0.0
    term = total = (1.0 - rate) ** changes
    odds = rate / (1.0 - rate)
    for count in range(rises):
        term *= (changes - count) / (count + 1) * odds
        total += term
    return min(1.0, total)


@lru_cache(maxsize=16_384)
def _most_rises(changes: int, alpha: float) -> int:
    """Largest number of rises among so many changes that the test still calls a fall; or -1."""
    tail, rises = 0.0, -1
    while rises + 1 < changes / 2:
        tail += binomial_pmf(rises + 1, changes, 0.5)
        if 2 * tail > alpha * (1 + 1e-12):
            break
        rises += 1
    return rises


def _fewest_changes(alpha: float) -> int:
    """Fewest changes that can be significant, all of them falls."""
    return max(1, math.ceil(1 - math.log2(alpha) - 1e-12))


def smallest_such_fall(
    power_of: Callable[[float], float],
    largest: float,
    power: float = POWER,
    guess: float | None = None,
) -> float | None:
    """Search for the smallest fall with enough power.

    Args:
        power_of: Power of a fall; grows with it.
        largest: Largest fall there can be.
        power: Wanted power.
        guess: About where it may be; a good one halves the work.

    Returns:
        The fall, rounded up by less than a thousandth of itself; None if the largest one has too
        little power.
    """
    if power_of(largest) < power:
        return None
    low, high = 0.0, largest
    if guess is not None:
        for edge in (guess * 0.95, guess * 1.15):
            if low < edge < high:
                if power_of(edge) < power:
                    low = edge
                else:
                    high = edge
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        if power_of(middle) < power:
            low = middle
        else:
            high = middle
    return high


def pairs_needed(
    fall: float, churn: float = 0.0, alpha: float = ALPHA, power: float = POWER
) -> int:
    """Compute how many independent pairs show a fall of this size.

    Args:
        fall: True fall of the pass rate, in (0, 1].
        churn: As in `power_of_pairs`.
        alpha: Two-sided level of the test.
        power: Wanted chance to see the fall, between 0 and 1.

    Returns:
        The fewest pairs. With churn the exact power goes up in small teeth; a somewhat smaller
        number may reach it, too.

    Raises:
        ValueError: The fall is 0 or no share, or would take more than a hundred million pairs.
    """
    if not 0 < fall <= 1:
        raise ValueError(f"a fall of {fall} cannot be planned for; expected a share above 0")
    low, high = 0, 1
    while power_of_pairs(high, fall, churn, alpha) < power:
        low, high = high, high * 2
        if high > _MOST_PAIRS:
            raise ValueError(f"a fall of {fall} takes more than {_MOST_PAIRS} pairs to see")
    while high - low > 1:
        middle = (low + high) // 2
        if power_of_pairs(middle, fall, churn, alpha) < power:
            low = middle
        else:
            high = middle
    return high


def power_of_rates(
    old_total: int, total: int, old_rate: float, fall: float, alpha: float = ALPHA
) -> float:
    """Compute the chance that a test of two independent rates reports a fall.

    Args:
        old_total: Results of the baseline.
        total: Results of the new run.
        old_rate: Pass rate of the baseline.
        fall: By how much it truly falls; more than all of it counts as all of it.
        alpha: Two-sided level of the test.

    Returns:
        A chance in [0, 1]; the normal form with continuity correction, some points below the
        exact power of Fisher's test.

    Source: Casagrande, Pike and Smith 1978, doi:10.2307/2530613, for groups of two sizes.
    """
    fall = min(fall, old_rate)
    if not old_total or not total or fall <= 0:
        return 0.0
    rate = old_rate - fall
    mean = (old_rate * old_total + rate * total) / (old_total + total)
    step = 1 / old_total + 1 / total
    z = NORMAL.inv_cdf(1 - alpha / 2)
    spread = math.sqrt(old_rate * (1 - old_rate) / old_total + rate * (1 - rate) / total)
    distance = fall - step / 2 - z * math.sqrt(mean * (1 - mean) * step)
    if spread <= 0:
        return float(distance >= 0)
    return NORMAL.cdf(distance / spread)
