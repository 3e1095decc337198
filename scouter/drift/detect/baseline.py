"""The healthy mean, known from a finite number of outcomes.

An estimate from 300 outcomes that is taken for the truth gives false alarms on 29 % of healthy
streams of 6,000. So the detector starts from a lower bound, and half of the allowed chance pays
for the bound.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from scouter.drift.detect.detector import ALPHA, Design
from scouter.drift.detect.spending import Start
from scouter.evaluate.statistics.distributions import incomplete_beta

ENOUGH: Final = 1_000
"""Outcomes of a baseline that are requested."""
PATIENCE: Final = 2_000
"""Outcomes within which a fall should be seen to be called visible."""
_HALVINGS: Final = 100
_LARGEST_BET: Final = 0.5
_MAX_CACHED: Final = 4_096
"""Baselines of which it is known what they can see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A healthy mean, and how sure it is.

    Args:
        mean: Estimated mean of the outcomes, in [0, 1].
        lower: Lower bound of the mean, wrong with a chance of half of `alpha`, in [0, 1).
        count: Outcomes behind it.
        alpha: Chance of ever alarming for nothing that bound and detector share.
    """

    mean: float
    lower: float
    count: int
    alpha: float = ALPHA

    def design(self, start: Start = Start.SPENT) -> Design:
        """The detector's bets against this baseline.

        Raises:
            ValueError: The lower bound is 0: no fall below it can be.
        """
        return Design(healthy=self.lower, alpha=self.alpha / 2, start=start)

    def visible(self, patience: int = PATIENCE) -> float | None:
        """The highest mean that would mostly be seen as a fall.

        Args:
            patience: Outcomes within which it should be.

        Returns:
            A mean below `lower`; None if not even a mean of 0 would.

        Source: Wald's approximation: the evidence grows by the divergence of the two means with
            each outcome, up to -ln(alpha / 2).
        """
        return _highest_seen(self.lower, -math.log(self.alpha / 2) / patience)

    def sentence(self) -> str:
        """Say what this baseline can see, and what would help."""
        seen = self.visible()
        if seen is None:
            text, more = "by which no fall can be distinguished from chance", f"collect {ENOUGH:,}"
        else:
            text = f"so that a fall below {seen:.0%} would be seen"
            more = f"and smaller ones by {ENOUGH:,}"
        text = f"{self.count:,} outcomes, {text}"
        return text if self.count >= ENOUGH else f"{text}, {more}"


@lru_cache(_MAX_CACHED)
def _highest_seen(lower: float, needed: float) -> float | None:
    """The highest mean whose divergence from a bound is so large.

    It is requested each time that people look at a baseline, which stays the same for long.
    """
    if not 0 < lower < 1 or divergence(0.0, lower) < needed:
        return None
    low, high = 0.0, lower
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if divergence(middle, lower) >= needed else (low, middle)
    return low


def of_passes(passed: int, total: int, alpha: float = ALPHA) -> Baseline:
    """Take a baseline from independent passes and fails.

    Args:
        passed: Passes.
        total: Passes and fails.
        alpha: Chance of ever alarming for nothing, in (0, 1).

    Returns:
        With the one-sided lower bound of Clopper and Pearson at alpha / 2.

    Raises:
        ValueError: The counts contradict each other, or there are none.

    Source: Clopper and Pearson 1934, doi:10.1093/biomet/26.4.404.
    """
    if not 0 <= passed <= total or not total:
        raise ValueError(f"{passed} passes of {total} are no baseline")
    return Baseline(
        mean=passed / total,
        lower=clopper_pearson_lower(passed, total, alpha / 2),
        count=total,
        alpha=alpha,
    )


def of_scores(scores: Sequence[float], alpha: float = ALPHA) -> Baseline:
    """Take a baseline from independent scores, such as means of conversations.

    Args:
        scores: Each in [0, 1], in the order in which they came.
        alpha: Chance of ever alarming for nothing, in (0, 1).

    Returns:
        With a lower bound by betting at alpha / 2: the largest mean that a bettor on higher
        scores, who looks at the past only, has refused.

    Raises:
        ValueError: A score is outside [0, 1], or there are none.

    Cost: a hundred passes over the scores.
    Source: Waudby-Smith and Ramdas 2024, doi:10.1093/jrsssb/qkad009, the approximate GRAPA bet.
    """
    if not scores or not all(0 <= score <= 1 for score in scores):
        raise ValueError("a baseline needs scores from 0 to 1")
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _refuses(scores, middle, alpha / 2) else (low, middle)
        if high - low < 1e-9:
            break
    return Baseline(mean=math.fsum(scores) / len(scores), lower=low, count=len(scores), alpha=alpha)


def _refuses(scores: Sequence[float], mean: float, level: float) -> bool:
    """Tell whether the scores refuse that their mean is at most this one."""
    if mean <= 0:
        return True
    wealth, line = 0.0, -math.log(level)
    total, squares, count = 0.5, 0.25, 1  # one made-up score of 1/2 before the first, spread 1/4
    for score in scores:
        middle = total / count
        gain = middle - mean
        bet = 0.0 if gain <= 0 else gain / (squares / count + gain * gain)
        wealth += math.log1p(min(bet, _LARGEST_BET / mean) * (score - mean))
        if wealth >= line:
            return True
        count += 1
        squares += (score - middle) * (score - (total + score) / count)
        total += score
    return False


def clopper_pearson_lower(passed: int, total: int, level: float) -> float:
    """Lower bound of a rate, one-sided.

    Args:
        passed: Passes.
        total: Passes and fails, 1 or more.
        level: Chance that the true rate is below the bound, in (0, 1).

    Returns:
        The rate at which so many passes or more have this chance; 0 without a pass.
    """
    if not passed:
        return 0.0
    low, high = 0.0, passed / total
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if incomplete_beta(passed, total - passed + 1, middle) < level:
            low = middle
        else:
            high = middle
    return low


def divergence(rate: float, healthy: float) -> float:
    """Kullback-Leibler divergence of two passes-or-fails, in nats.

    Args:
        rate: True rate, in [0, 1].
        healthy: Healthy rate, in (0, 1).

    Returns:
        The mean growth of the evidence with each outcome, 0 or more.
    """
    total = 0.0
    if rate > 0:
        total += rate * math.log(rate / healthy)
    if rate < 1:
        total += (1 - rate) * math.log((1 - rate) / (1 - healthy))
    return max(0.0, total)
