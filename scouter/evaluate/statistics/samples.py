"""Two samples of conversations: a rate per record in each, and how the two differ.

Live records of two versions are other ones: nothing says which belongs to which. Records of one
conversation pass and fail together, so that counting them one by one claims more evidence than
there is. The rate is that of records, and the conversation is the unit of chance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.clustered import Cluster, design_effect
from scouter.evaluate.statistics.distributions import NORMAL, student_quantile
from scouter.evaluate.statistics.every_look import look_p_value, look_quantile
from scouter.evaluate.statistics.proportion import (
    CONFIDENCE,
    fall_mid_p,
    newcombe_difference,
)

_MIDDLE: Final = (1 + CONFIDENCE) / 2
_NORMAL: Final = NORMAL.inv_cdf(_MIDDLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Results of one side, and how many independent ones would tell as much."""

    passed: int
    count: int
    conversations: int
    effective: float
    """At most `count`: results over the design effect."""

    @property
    def rate(self) -> float:
        """Share of the results that passed."""
        return self.passed / self.count

    @property
    def variance(self) -> float:
        """Variance of the rate; above 0 even where all passed."""
        rate = (self.rate * self.effective + 0.5) / (self.effective + 1)
        return rate * (1 - rate) / self.effective


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDifference:
    """Difference of the rates of two samples."""

    before: Sample
    after: Sample
    difference: float
    """After minus before."""
    interval: Interval
    """95 %, two-sided; for open samples at all looks together."""
    p_value: float
    """One-sided, of a fall; for open samples valid at every look."""


def sample_of(clusters: Sequence[Cluster]) -> Sample:
    """Sum conversations up.

    Args:
        clusters: One per conversation, with its results as `pairs` and its passes as `rose`; at
            least one result.

    Source: the rate is the ratio of totals; its variance over that of independent results is the
        design effect (Cochran 1977, Sampling Techniques, 2.11; Rao and Scott 1992,
        doi:10.2307/2532311). For evaluations of language models: Miller 2024, Adding Error Bars
        to Evals, arXiv:2411.00640.
    """
    count = sum(each.pairs for each in clusters)
    return Sample(
        passed=sum(each.rose for each in clusters),
        count=count,
        conversations=len(clusters),
        effective=count / _effect(clusters, count),
    )


def _effect(clusters: Sequence[Cluster], count: int) -> float:
    """Design effect, as much larger as Student's quantile makes an interval from few of them.

    Conversations of which few are long tell less of their own spread: as many as (sum n)^2 /
    (sum n^2) of one length would (Kish 1965, Survey Sampling).
    """
    if all(each.pairs == 1 for each in clusters):
        return 1.0
    alike = count**2 / sum(each.pairs**2 for each in clusters)
    freedom = max(1, math.floor(alike) - 1)
    return design_effect(clusters) * (student_quantile(_MIDDLE, freedom) / _NORMAL) ** 2


def compare_samples(before: Sample, after: Sample, *, is_open: bool = False) -> SampleDifference:
    """Compare two samples at their effective sizes.

    Args:
        before: The baseline.
        after: The sample in question.
        is_open: True if a side may still get records: interval and p-value then hold at every
            look, however many there are.

    Returns:
        Newcombe's interval and Fisher's mid-p of the effective counts; of an open comparison both
        are as wide as the confidence sequence asks.

    Cost: as many terms as the smaller margin of the counts.
    Source: Rao and Scott 1992: divide counts by the design effect and treat them as independent.
    """
    difference = after.rate - before.rate
    information = 1 / (before.variance + after.variance)
    sides = [(each.rate * each.effective, each.effective) for each in (before, after)]
    quantile = look_quantile(information) if is_open else None
    p_value = _mid_p(before, after)
    if is_open:
        z = -NORMAL.inv_cdf(min(max(p_value, 1e-300), 1 - 1e-15))
        p_value = look_p_value(z, information)
    return SampleDifference(
        before=before,
        after=after,
        difference=difference,
        interval=newcombe_difference(*sides[0], *sides[1], z=quantile),
        p_value=p_value,
    )


def _mid_p(before: Sample, after: Sample) -> float:
    """Fisher's mid-p of whole effective counts, rounded so that a fall looks no larger."""
    old, new = (max(1, round(each.effective)) for each in (before, after))
    failed = math.ceil((1 - before.rate) * old - 1e-9)
    fails = math.floor((1 - after.rate) * new + 1e-9)
    return fall_mid_p(old - failed, old, new - fails, new)
