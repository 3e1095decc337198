"""The falls that a detector looks for."""

from collections.abc import Sequence
from typing import Final

COUNT: Final = 8
SMALLEST: Final = 0.02
"""Smallest fall, in share of outcomes; a smaller one would take tens of thousands to see."""
_FLOOR: Final = 0.05
"""Lowest rate that is looked for: an agent below it is found as fast as one at it."""


def falls(healthy: float, count: int = COUNT) -> tuple[float, ...]:
    """Choose the rates that a detector weighs against the healthy one.

    Args:
        healthy: Healthy mean of the outcomes, in (0, 1).
        count: How many rates, 1 or more. Three cost up to 40 % of delay, twenty gain nothing.

    Returns:
        Rates below the healthy one, the nearest first: falls that grow by one factor from 2 points
        to all but 5 points of the rate. A rate that is itself too low for that is halved again and
        again.

    Raises:
        ValueError: The healthy mean is not inside (0, 1).
    """
    if not 0 < healthy < 1:
        raise ValueError(f"a healthy mean of {healthy} leaves no fall; expected one inside (0, 1)")
    largest = healthy - _FLOOR
    if largest <= SMALLEST:
        return tuple(healthy / 2 ** (step + 1) for step in range(count))
    if count == 1:
        return (healthy - (SMALLEST * largest) ** 0.5,)
    ratio = (largest / SMALLEST) ** (1 / (count - 1))
    return tuple(healthy - SMALLEST * ratio**step for step in range(count))


def bets(healthy: float, rates: Sequence[float]) -> tuple[float, ...]:
    """Turn rates into bets: how much of the evidence is staked on an outcome below the mean.

    Args:
        healthy: Healthy mean of the outcomes, in (0, 1).
        rates: Alternatives below it.

    Returns:
        A bet b for each: the factor of an outcome y is 1 - b (y - healthy), which for a pass or a
        fail is the likelihood ratio of the alternative. Below 1 / (1 - healthy), so that no factor
        is negative.
    """
    spread = healthy * (1 - healthy)
    return tuple((healthy - rate) / spread for rate in rates)
