"""Power against enumeration over every outcome, published sample sizes, and simulation."""

from random import Random

import pytest

from scouter.evaluate.statistics.distributions import binomial_pmf
from scouter.evaluate.statistics.flakiness import falls_beyond_flakiness
from scouter.evaluate.statistics.paired import mcnemar_exact
from scouter.evaluate.statistics.power import (
    pairs_needed,
    power_of_pairs,
    power_of_rates,
)
from scouter.evaluate.statistics.proportion import fisher_exact


@pytest.mark.parametrize("pairs", [0, 5, 6, 20, 45])
@pytest.mark.parametrize(("fall", "churn"), [(0.3, 0.0), (0.2, 0.05), (0.1, 0.2), (0.5, 0.25)])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_power_by_enumeration(pairs: int, fall: float, churn: float, alpha: float) -> None:
    """Sum the chance of every table with a significant fall."""
    falling = fall + churn
    expected = sum(
        binomial_pmf(f, pairs, falling) * binomial_pmf(r, pairs - f, churn / (1 - falling))
        for f in range(pairs + 1)
        for r in range(pairs + 1 - f)
        if f > r and mcnemar_exact(f, r) <= alpha
    )
    assert power_of_pairs(pairs, fall, churn, alpha) == pytest.approx(expected, abs=1e-9)


def test_the_normal_form_takes_over_smoothly() -> None:
    """On both sides of 150 expected changes."""
    exact = power_of_pairs(995, 0.03, 0.06)
    normal = power_of_pairs(1_005, 0.03, 0.06)
    assert exact == pytest.approx(normal, abs=0.02)


def test_sample_size_near_connor() -> None:
    """Connor's formula by hand: fall 0.2, churn 0.05, so 0.3 change, alpha 0.05, power 0.8.

    n = (1.96 sqrt(0.3) + 0.8416 sqrt(0.3 - 0.04))^2 / 0.04 = (1.0735 + 0.4291)^2 / 0.04 = 56.4;
    the exact test is somewhat more careful.
    """
    assert 57 <= pairs_needed(0.2, 0.05) <= 65


@pytest.mark.parametrize("fall", [0.05, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("churn", [0.0, 0.02])
def test_the_two_questions_agree(fall: float, churn: float) -> None:
    pairs = pairs_needed(fall, churn)
    assert power_of_pairs(pairs, fall, churn) >= 0.8
    assert power_of_pairs(pairs - 1, fall, churn) < 0.8


def test_too_few_pairs_see_nothing() -> None:
    """Five falls of five have p = 1/16; six of six have 1/32."""
    assert power_of_pairs(5, 1.0) == 0
    assert power_of_pairs(6, 0.9) == pytest.approx(0.9**6)


@pytest.mark.parametrize(("arguments"), [(-1, 0.1), (5, 0.9, 0.2), (5, -0.1)])
def test_impossible_shares(arguments: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match="impossible"):
        power_of_pairs(*arguments)


@pytest.mark.parametrize("fall", [0, 1.5, 1e-9])
def test_falls_that_cannot_be_planned_for(fall: float) -> None:
    with pytest.raises(ValueError, match=r"cannot be planned for|takes more than"):
        pairs_needed(fall)


@pytest.mark.parametrize(("old", "new", "rate", "fall"), [(40, 40, 0.9, 0.3), (30, 90, 0.8, 0.25)])
def test_power_of_rates_by_enumeration(old: int, new: int, rate: float, fall: float) -> None:
    """The normal form with correction promises no more than Fisher's test keeps, nor much less."""
    expected = sum(
        binomial_pmf(a, old, rate) * binomial_pmf(b, new, rate - fall)
        for a in range(old + 1)
        for b in range(new + 1)
        if b / new < a / old and fisher_exact(a, old, b, new) <= 0.05
    )
    assert expected - 0.08 < power_of_rates(old, new, rate, fall) < expected + 0.02


def test_power_of_rates_at_its_ends() -> None:
    assert power_of_rates(0, 10, 0.5, 0.1) == 0
    assert power_of_rates(10, 10, 0.0, 0.1) == 0
    assert power_of_rates(50, 50, 1.0, 1.0) == 1.0


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ((1, 1), (0, 1), True),  # without repeats every turn from pass to fail counts
        ((0, 1), (0, 1), False),
        ((2, 2), (0, 2), True),
        ((2, 2), (1, 2), False),
        ((3, 3), (1, 3), True),  # P(at most 1 of 3 at 7/8) = 0.043
        ((3, 3), (2, 3), False),
        ((2, 3), (1, 3), False),
        ((2, 3), (0, 3), False),  # P(0 of 3 at 5/8) = 0.053
        ((5, 5), (4, 5), False),
        ((5, 5), (2, 5), True),  # P(at most 2 of 5 at 11/12) = 0.005
        ((4, 5), (1, 5), True),  # P(at most 1 of 5 at 3/4) = 0.0156
        ((4, 5), (2, 5), False),
        ((5, 5), (0, 1), True),  # a clean flip, whatever the numbers
        ((1, 1), (0, 5), True),
        ((3, 5), (4, 5), False),
        ((0, 0), (0, 5), False),
        ((5, 5), (0, 0), False),
    ],
)
def test_flakiness(before: tuple[int, int], now: tuple[int, int], expected: bool) -> None:
    assert falls_beyond_flakiness(*before, *now) is expected


@pytest.mark.parametrize("attempts", [2, 3, 5, 10])
def test_flaky_cases_seldom_alarm(attempts: int) -> None:
    """An unchanged case of any pass rate falls "beyond its flakiness" in at most 11 % of runs."""
    for percent in range(0, 101, 5):
        rate = percent / 100
        alarms = sum(
            binomial_pmf(b, attempts, rate) * binomial_pmf(c, attempts, rate)
            for b in range(attempts + 1)
            for c in range(attempts + 1)
            if falls_beyond_flakiness(b, attempts, c, attempts)
        )
        assert alarms <= 0.11


def test_power_by_simulation() -> None:
    """Fixed seed, 2,000 runs of 80 cases: as many alarms as computed."""
    random = Random(3)
    alarms = 0
    for _ in range(2_000):
        draws = [random.random() for _ in range(80)]
        fell = sum(draw < 0.17 for draw in draws)
        rose = sum(draw > 0.97 for draw in draws)
        alarms += fell > rose and mcnemar_exact(fell, rose) <= 0.05
    assert alarms / 2_000 == pytest.approx(power_of_pairs(80, 0.14, 0.03), abs=0.03)
