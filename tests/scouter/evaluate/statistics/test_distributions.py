"""Tails and quantiles against scipy."""

import pytest
import scipy.stats as reference

from scouter.evaluate.statistics.distributions import (
    binomial_cdf,
    binomial_pmf,
    incomplete_beta,
    student_cdf,
    student_quantile,
)


@pytest.mark.parametrize("trials", [0, 1, 2, 7, 40, 1000, 100_000])
@pytest.mark.parametrize("rate", [0.0, 1e-6, 0.03, 0.5, 0.97, 1.0])
def test_binomial(trials: int, rate: float) -> None:
    for successes in {-1, 0, 1, int(trials * rate), trials // 2, trials - 1, trials, trials + 1}:
        assert binomial_pmf(successes, trials, rate) == pytest.approx(
            float(reference.binom.pmf(successes, trials, rate)), rel=1e-8, abs=1e-200
        )
        assert binomial_cdf(successes, trials, rate) == pytest.approx(
            float(reference.binom.cdf(successes, trials, rate)), rel=1e-8, abs=1e-15
        )


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 47, 1000])
@pytest.mark.parametrize("probability", [0.001, 0.025, 0.4, 0.5, 0.9, 0.975, 0.9999])
def test_student(freedom: int, probability: float) -> None:
    quantile = student_quantile(probability, freedom)
    assert quantile == pytest.approx(float(reference.t.ppf(probability, freedom)), abs=1e-8)
    assert student_cdf(quantile, freedom) == pytest.approx(probability, abs=1e-12)


def test_incomplete_beta_at_its_ends() -> None:
    assert incomplete_beta(2, 3, 0) == 0
    assert incomplete_beta(2, 3, 1) == 1


@pytest.mark.parametrize(("probability", "freedom"), [(0, 3), (1, 3), (0.5, 0)])
def test_quantiles_that_do_not_exist(probability: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student_quantile(probability, freedom)
