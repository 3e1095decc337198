"""The mean of numbers that belong together in groups, as the turns of one conversation do."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.distributions import student_quantile
from scouter.evaluate.statistics.proportion import CONFIDENCE

FEWEST_CLUSTERS: Final = 6
"""Fewer groups hardly tell how groups differ, and an interval would claim to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredMean:
    """A mean of numbers in groups, and how sure it is."""

    mean: float
    interval: Interval | None
    """None below `FEWEST_CLUSTERS`."""


def clustered_mean(
    clusters: Sequence[Sequence[float]], confidence: float = CONFIDENCE
) -> ClusteredMean:
    """Compute the mean of all numbers, each of which weighs the same.

    The interval takes groups for independent, and nothing inside of them. With groups of one size
    it is that of Student's t over the groups' means.

    Args:
        clusters: One group each, of one number or more; at least one group.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Returns:
        The mean, and the interval with (groups - 1) degrees of freedom.

    Source: the variance of a ratio of cluster totals, Cochran 1977, Sampling Techniques, 2.11.
    """
    sizes = [len(cluster) for cluster in clusters]
    count, total = sum(sizes), math.fsum(map(math.fsum, clusters))
    mean = total / count
    groups = len(clusters)
    if groups < FEWEST_CLUSTERS:
        return ClusteredMean(mean=mean, interval=None)
    apart = (
        math.fsum(cluster) - mean * size for cluster, size in zip(clusters, sizes, strict=True)
    )
    variance = math.fsum(each * each for each in apart) * groups / (groups - 1) / count**2
    half = student_quantile((1 + confidence) / 2, groups - 1) * math.sqrt(variance)
    return ClusteredMean(mean=mean, interval=(mean - half, mean + half))
