"""Flakiness: tells a scenario that turned from one that wavers as before."""

from typing import Final

from scouter.evaluate.statistics.distributions import binomial_cdf

LEVEL: Final = 0.05
"""Chance below which a count of passes is no longer put down to flakiness."""


def falls_beyond_flakiness(
    baseline_passed: int, baseline_attempts: int, passed: int, attempts: int, level: float = LEVEL
) -> bool:
    """Tell whether fewer attempts pass than the case's own flakiness explains.

    Two rules; either is enough.

    1. A clean flip: every attempt of the baseline passed and none does now. So a case that was
       tried once in each run falls when it turns from pass to fail, as without repeats.
    2. The rate fell, and a case that passes with the baseline's measured rate would pass so
       seldom with a chance of at most `level`. The measured rate is (passes + 1/2) / (attempts +
       1): the half pass and the half failure keep a few clean attempts from counting as proof
       that the case never fails.

    Args:
        baseline_passed: Attempts of the baseline that passed.
        baseline_attempts: Attempts of the baseline.
        passed: Attempts that pass now.
        attempts: Attempts now.
        level: Largest chance that counts as beyond, in (0, 1).

    Returns:
        False where either run has no attempts.

    Source: plug-in binomial test; the estimate is that of Krichevsky and Trofimov 1981,
        doi:10.1109/TIT.1981.1056331, the mean under Jeffreys' prior.
    """
    if not baseline_attempts or not attempts:
        return False
    if baseline_passed == baseline_attempts and passed == 0:
        return True
    if passed * baseline_attempts >= baseline_passed * attempts:
        return False
    rate = (baseline_passed + 0.5) / (baseline_attempts + 1)
    return binomial_cdf(passed, attempts, rate) <= level
