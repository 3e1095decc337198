"""The ratio of two samples' sizes: a check that traffic is split as it was meant to be.

Records of a version that crashes before it sends them are missing from its results, and what is
left looks healthy. The ratio shows it.
"""

import math
from typing import Final

_PRIOR: Final = 100.0
"""Outcomes that the expected share counts as in the mixture: large enough to see a few points."""


def log_evidence_of_another_split(first: int, second: int, share: float) -> float:
    """Evidence that a unit does not fall into the second sample with this chance.

    Args:
        first: Units in the first sample.
        second: Units in the second sample.
        share: The expected share of the second sample, in (0, 1), the same all the time.

    Returns:
        Natural logarithm of an e-value, for any number of looks.

    Raises:
        ValueError: The share is not inside (0, 1).

    Source: the test martingale with a Dirichlet mixture of Lindon and Malek 2022,
        arXiv:2011.03567, of two categories.
    """
    if not 0 < share < 1:
        raise ValueError(f"a share of {share}; expected one inside (0, 1)")
    a, b = _PRIOR * share, _PRIOR * (1 - share)
    return (
        log_beta(a + second, b + first)
        - log_beta(a, b)
        - second * math.log(share)
        - first * math.log1p(-share)
    )


def log_beta(a: float, b: float) -> float:
    """Natural logarithm of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
