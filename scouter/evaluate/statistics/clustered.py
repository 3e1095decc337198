"""Paired differences where several pairs belong together, as turns of one conversation do.

Such pairs rise and fall together, so that counting them one by one claims more evidence than there
is. Here the conversation is the unit: it keeps or swaps its runs as a whole.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.distributions import NORMAL, student_quantile
from scouter.evaluate.statistics.paired import mcnemar_exact, tango
from scouter.evaluate.statistics.proportion import CONFIDENCE

_EXACT_WORDS: Final = 30_000_000
"""Machine words that the exact count may add up, some hundredths of a second."""


class Cluster(NamedTuple):
    """The pairs of one conversation."""

    fell: int
    rose: int
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredDifference:
    """A difference of two rates over clustered pairs.

    `effective_pairs` is how many independent pairs would tell as much.
    """

    difference: float
    interval: Interval
    p_value: float
    design_effect: float
    effective_pairs: float


def compare_clusters(
    clusters: Sequence[Cluster], confidence: float = CONFIDENCE
) -> ClusteredDifference:
    """Compare two runs over the same clusters of pairs.

    The p-value flips the sign of each cluster's sum (see `sign_flip`). The interval is Tango's
    for the effective number of pairs, with Student's quantile of (clusters - 1) degrees in place
    of the normal one, as the design effect is itself estimated from the clusters.

    Args:
        clusters: One per conversation, each with one pair or more.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Returns:
        Difference and interval in [-1, 1], new minus old. A single cluster says nothing: the
        interval is all of [-1, 1].

    Source: effective sample size after Rao and Scott 1992, doi:10.2307/2532311.
    """
    fell = sum(cluster.fell for cluster in clusters)
    rose = sum(cluster.rose for cluster in clusters)
    pairs = sum(cluster.pairs for cluster in clusters)
    effect = design_effect(clusters)
    effective = pairs / effect
    interval: Interval = (-1.0, 1.0)
    if len(clusters) > 1:
        t = student_quantile((1 + confidence) / 2, len(clusters) - 1)
        interval = tango(fell / effect, rose / effect, effective, confidence, t)
    return ClusteredDifference(
        difference=(rose - fell) / pairs if pairs else 0.0,
        interval=interval,
        p_value=sign_flip(cluster.rose - cluster.fell for cluster in clusters),
        design_effect=effect,
        effective_pairs=effective,
    )


def design_effect(clusters: Sequence[Cluster]) -> float:
    """Estimate by how much clustering widens the variance of the mean difference.

    Args:
        clusters: One per conversation.

    Returns:
        Robust over naive variance, not below 1, and not above what clusters would give whose
        pairs are all alike, sum(pairs^2) / sum(pairs); that bound itself where no pair tells.
    """
    pairs = sum(cluster.pairs for cluster in clusters)
    if not pairs:
        return 1.0
    largest = sum(cluster.pairs**2 for cluster in clusters) / pairs
    changed = sum(cluster.fell + cluster.rose for cluster in clusters)
    mean = sum(cluster.rose - cluster.fell for cluster in clusters) / pairs
    naive = changed - pairs * mean * mean
    if len(clusters) < 2 or naive <= 1e-12 * pairs:
        return largest
    robust = math.fsum((c.rose - c.fell - mean * c.pairs) ** 2 for c in clusters)
    robust *= len(clusters) / (len(clusters) - 1)
    return min(largest, max(1.0, robust / naive))


def sign_flip(sums: Iterable[int]) -> float:
    """Two-sided p-value of the clusters' sums being as likely negative as positive.

    If nothing changed between the runs, each cluster's two runs could be swapped, which turns the
    sign of its sum. The p-value is the share of all ways to choose signs whose total is at least
    as far from 0 as the one found. With sums of -1, 0 and 1 this is McNemar's exact test.

    Args:
        sums: Rises minus falls of each cluster.

    Returns:
        The exact share, counted without enumeration; a normal approximation with continuity
        correction where several thousand clusters changed.

    Cost: (changed clusters)^2 * (sum of sizes) / 64 additions, bounded to less than 0.1 s.
    Source: Fisher 1935, The Design of Experiments, section 21.
    """
    changed = [value for value in sums if value]
    total = abs(sum(changed))
    if not total:
        return 1.0
    unit = math.gcd(*changed)
    sizes, total = [abs(value) // unit for value in changed], total // unit
    whole = sum(sizes)
    if whole == len(sizes):
        return mcnemar_exact((whole + total) // 2, (whole - total) // 2)
    if len(sizes) ** 2 * whole // 64 > _EXACT_WORDS:
        spread = math.sqrt(sum(size * size for size in sizes))
        return min(1.0, 2 * NORMAL.cdf(-(total - 1) / spread))
    width = len(sizes) + 1  # bits that hold any number of ways
    ways = 1  # digit s, in base 2**width: in how many ways the negative clusters sum up to s
    for size in sizes:
        ways += ways << (width * size)
    tail = ways & ((1 << (width * ((whole - total) // 2 + 1))) - 1)
    count = tail % ((1 << width) - 1)  # the sum of its digits
    return min(1.0, 2 * count / (1 << len(sizes)))
