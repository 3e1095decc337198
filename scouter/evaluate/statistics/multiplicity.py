"""Correction for looking at many tasks at once."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that rejecting at a level is wrong anywhere with at most that chance.

    A release gate closes on a single rejection, so the chance of *any* false one has to be
    bounded; a rate of false discoveries would not do. Holm's procedure bounds it however the
    tasks depend on each other, and is never weaker than Bonferroni's.

    Args:
        p_values: One per hypothesis, each in [0, 1].

    Returns:
        The adjusted values in the same order, each in [0, 1].

    Raises:
        ValueError: A value is outside [0, 1].

    Cost: sorts once.
    Source: Holm 1979, Scandinavian Journal of Statistics 6, 65-70.
    """
    if any(not 0 <= value <= 1 for value in p_values):
        raise ValueError(f"{list(p_values)} are no p-values; each lies in [0, 1]")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = largest
    return adjusted
