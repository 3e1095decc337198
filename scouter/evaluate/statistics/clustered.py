"""Paired differences where several pairs belong together, as turns of one conversation do.

Such pairs rise and fall together, so that counting them one by one claims more evidence than there
is. The interval here counts how many independent pairs would tell as much.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.distributions import NORMAL, student_quantile
from scouter.evaluate.statistics.paired import tango
from scouter.evaluate.statistics.proportion import CONFIDENCE


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
    design_effect: float
    effective_pairs: float


def compare_clusters(
    clusters: Sequence[Cluster], confidence: float = CONFIDENCE
) -> ClusteredDifference:
    """Compare two runs over the same clusters of pairs.

    The interval is Tango's for the effective number of pairs, with Student's quantile of
    (clusters - 1) degrees in place of the normal one, as the design effect is itself estimated
    from the clusters; clusters of one size of which none changed in part are single pairs.

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
        middle = (1 + confidence) / 2
        t = None if _are_alike(clusters) else student_quantile(middle, len(clusters) - 1)
        interval = tango(fell / effect, rose / effect, effective, confidence, t)
    return ClusteredDifference(
        difference=(rose - fell) / pairs if pairs else 0.0,
        interval=interval,
        design_effect=effect,
        effective_pairs=effective,
    )


def _are_alike(clusters: Sequence[Cluster]) -> bool:
    """Tell whether all clusters are of one size and none changed in part: as single pairs."""
    size = clusters[0].pairs
    return all(c.pairs == size and {c.fell, c.rose} <= {0, size} for c in clusters)


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


def effect_of_conversations(outcomes: Iterable[tuple[str, bool]]) -> float:
    """Estimate how many records tell as much as one that stands alone.

    Args:
        outcomes: Conversation and outcome of each record; a record without a conversation, "", is
            one of its own.

    Returns:
        1 where no conversation has two records; else `design_effect`, as much larger as Student's
        quantile makes an interval from so few conversations.
    """
    by_session: defaultdict[str | int, list[bool]] = defaultdict(list)
    for at, (session, passed) in enumerate(outcomes):
        by_session[session or at].append(passed)
    clusters = [Cluster(0, sum(each), len(each)) for each in by_session.values()]
    if all(cluster.pairs == 1 for cluster in clusters):
        return 1.0
    effect = design_effect(clusters)
    if len(clusters) < 2:
        return effect
    middle = (1 + CONFIDENCE) / 2
    return effect * (student_quantile(middle, len(clusters) - 1) / NORMAL.inv_cdf(middle)) ** 2
