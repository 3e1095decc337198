"""The difference of the means of two samples, looked at as often as one likes.

A bet on each sample gives an e-value against "this mean is at most m" and one against "that mean is
at least m". Both samples grow as they like, and their product is evidence against both at once. So
the smallest product over all m is evidence against "the first mean is at most the second one": the
true mean is one of these m.

Source: the bets, and mixtures over fixed bets, of Waudby-Smith and Ramdas 2024,
doi:10.1093/jrsssb/qkad009; e-values of two samples by the smallest product over the common mean as
in Wasserman, Ramdas and Balakrishnan 2020, doi:10.1073/pnas.1922664117 (universal inference, with
the supremum over the null hypothesis). At all looks together: Ville's inequality.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

_STAKES: Final = tuple(0.9 * 0.55**step for step in range(11))
"""Shares of the wealth that are bet at once: from 0.9 down to 0.2 %, for falls of any size."""
_LOG_WEIGHT: Final = -math.log(len(_STAKES))
_FINEST: Final = 2.0**-30
"""Means that are nearer to each other are not distinguished, which is on the safe side."""
_STEPS: Final = 14
"""Halvings of a bound: it is right to a ten-thousandth."""


class Sample:
    """Outcomes in [0, 1], whose order is forgotten.

    Args:
        counts: How often each outcome came.
    """

    def __init__(self, counts: Mapping[float, int]) -> None:
        if not all(0 <= value <= 1 and count >= 0 for value, count in counts.items()):
            raise ValueError("outcomes are numbers from 0 to 1, each with how often it came")
        self._counts = {value: count for value, count in counts.items() if count}
        self._known: dict[float, float] = {}
        self.size: Final = sum(self._counts.values())
        """Number of outcomes."""

    @staticmethod
    def of(outcomes: Iterable[float]) -> "Sample":
        """Count outcomes."""
        return Sample(Counter(outcomes))

    @property
    def mean(self) -> float:
        """Mean outcome; of no outcomes an error."""
        return math.fsum(value * count for value, count in self._counts.items()) / self.size

    def mirrored(self) -> "Sample":
        """The sample of 1 - outcome."""
        return Sample({1 - value: count for value, count in self._counts.items()})

    def log_evidence_above(self, mean: float) -> float:
        """Evidence against "the mean is at most this one".

        Args:
            mean: Any; below 0 the claim is false, at 1 and above it is true.

        Returns:
            Natural logarithm of an e-value, which falls as the mean rises.

        Cost: eleven logarithms for each distinct outcome.
        """
        if mean >= 1:
            return 0.0
        if mean <= 0:
            return math.inf if mean < 0 or any(self._counts) else 0.0
        known = self._known.get(mean)
        if known is None:
            logs = [self._log_wealth(stake, mean) for stake in _STAKES]
            most = max(logs)
            known = most + _LOG_WEIGHT + math.log(sum(math.exp(each - most) for each in logs))
            self._known[mean] = known
        return known

    def _log_wealth(self, stake: float, mean: float) -> float:
        """Winnings of a bettor who stakes this share on each outcome to be above the mean."""
        rate = stake / mean
        retained = 1 - stake
        return sum(
            count * math.log(retained + rate * value) for value, count in self._counts.items()
        )


class Interval(NamedTuple):
    """The difference of two means, the second minus the first."""

    lower: float
    upper: float


def difference(first: Sample, second: Sample, alpha: float) -> Interval:
    """Bound the difference of the means of two samples.

    Args:
        first: Outcomes, each independent of what came before it in either sample.
        second: The same.
        alpha: Chance that either bound is ever wrong, however often one looks, in (0, 1).

    Returns:
        Mean of the second minus mean of the first, within [-1, 1], as an interval: it contains
        the difference at all looks together with a chance of 1 - alpha or more.

    Raises:
        ValueError: The chance is out of range.

    Cost: some hundred times `Sample.log_evidence_above`, more for more distinct outcomes.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; expected a chance between 0 and 1")
    line = math.log(2 / alpha)
    return Interval(-_highest(second, first, line), _highest(first, second, line))


def is_below(first: Sample, second: Sample, gap: float, alpha: float) -> bool:
    """Tell whether the second mean is proven to be below the first one plus a gap.

    Args:
        first: As for `difference`.
        second: The same.
        gap: In [-1, 1].
        alpha: Chance of ever saying so where it is not, however often one looks, in (0, 1).
    """
    return _refuses(first, second.mirrored(), gap, -math.log(alpha))


def _highest(first: Sample, second: Sample, line: float) -> float:
    """The largest difference, second minus first, that the outcomes do not refuse."""
    below = second.mirrored()
    low, high = -1.0, 1.0
    if not _refuses(first, below, high, line):
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _refuses(first, below, middle, line) else (middle, high)
    return high


def _refuses(first: Sample, below: Sample, gap: float, line: float) -> bool:
    """Tell whether "second mean >= first mean + gap" has evidence up to the line against it.

    That is so if for each m one of "first mean <= m - gap" and "second mean >= m" has it, or both
    together. Evidence against the one falls with m, that against the other rises. So both at
    their lower ends bound all m of a cell, and a cell that is not decided is halved.

    Args:
        first: The first sample.
        below: The second one, mirrored.
        gap: In [-1, 1].
        line: Logarithm of the evidence that is requested.
    """
    cells = [(max(0.0, gap), 1.0)]
    while cells:
        low, high = cells.pop()
        if _product(first, below, high - gap, low) >= line:
            continue
        middle = (low + high) / 2
        if _product(first, below, middle - gap, middle) < line or high - low < _FINEST:
            return False
        cells += [(low, middle), (middle, high)]
    return True


def _product(first: Sample, below: Sample, at_most: float, at_least: float) -> float:
    return first.log_evidence_above(at_most) + below.log_evidence_above(1 - at_least)
