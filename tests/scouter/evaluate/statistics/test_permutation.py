"""The permutation test against enumeration, against McNemar by hand, and by its laws."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest
import scipy.stats as reference
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.statistics.permutation import Stratum, fall_p_value

SHARES = st.sampled_from([0, 1, Fraction(1, 2), Fraction(1, 3), Fraction(2, 3)])
STRATA = st.builds(
    Stratum, st.lists(SHARES, min_size=0, max_size=3), st.lists(SHARES, min_size=0, max_size=3)
)


def enumerated(strata: Sequence[Stratum]) -> float:
    """Walk through every choice of new attempts in every stratum."""
    choices = [
        list(itertools.combinations([*old, *new], len(new))) for old, new in strata if old and new
    ]
    observed = sum(sum(new) for old, new in strata if old and new)
    sums = [sum(map(sum, choice)) for choice in itertools.product(*choices)]
    return sum(value <= observed for value in sums) / len(sums)


@given(st.lists(STRATA, max_size=3))
def test_against_enumeration(strata: list[Stratum]) -> None:
    assert fall_p_value(strata) == pytest.approx(enumerated(strata), rel=1e-12)


@pytest.mark.parametrize(
    ("fell", "rose", "p"),
    [
        (0, 0, 1.0),
        (1, 0, 1 / 2),
        (3, 0, 1 / 8),
        (5, 0, 1 / 32),
        (2, 1, 4 / 8),  # 3 of 3 fell, or 2 of 3
        (4, 1, 6 / 32),
        (0, 3, 1.0),
        (1, 2, 7 / 8),
    ],
)
def test_one_try_is_mcnemar_one_sided(fell: int, rose: int, p: float) -> None:
    """A fair coin decides each pair that changed; those that did not say nothing."""
    strata = [
        *[Stratum((1,), (0,))] * fell,
        *[Stratum((0,), (1,))] * rose,
        *[Stratum((1,), (1,))] * 7,
    ]
    assert fall_p_value(strata) == pytest.approx(p, rel=1e-12)


def test_attempts_of_one_scenario_are_exchangeable() -> None:
    """6 scenarios, 5 tries, 30 of 30 before: 5 of 30 now has 2 chances in a million million.

    By hand, per scenario: C(10, 5) = 252 choices; with 5 passes and 5 failures in all, one of
    them has no pass among the new. The five passes are all in one scenario, which says nothing.
    """
    strata = [*[Stratum((1,) * 5, (0,) * 5)] * 5, Stratum((1,) * 5, (1,) * 5)]
    assert fall_p_value(strata) == pytest.approx(252**-5, rel=1e-12)


def test_spread_collapse() -> None:
    """The same collapse, one of five tries still passing in five scenarios and none in the sixth.

    By hand: of C(10, 5) = 252 choices with 6 passes and 4 failures, at most 1 pass is among the
    new in C(6, 1) = 6; with 5 and 5 none in 1. Fewer passes cannot be, so the chances multiply.
    """
    strata = [*[Stratum((1,) * 5, (1, 0, 0, 0, 0))] * 5, Stratum((1,) * 5, (0,) * 5)]
    assert fall_p_value(strata) == pytest.approx((6 / 252) ** 5 / 252, rel=1e-12)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 40), st.integers(0, 40))
def test_one_stratum_is_hypergeometric(old: int, new: int, before: int, now: int) -> None:
    """A single stratum of zeros and ones is Fisher's exact test, one-sided."""
    before, now = min(before, old), min(now, new)
    stratum = Stratum([1] * before + [0] * (old - before), [1] * now + [0] * (new - now))
    expected = float(reference.hypergeom.cdf(now, old + new, before + now, new))
    assert fall_p_value([stratum]) == pytest.approx(min(expected, 1.0), rel=1e-9)


@given(st.lists(STRATA, max_size=4), st.randoms(use_true_random=False))
def test_order_says_nothing(strata: list[Stratum], random: Random) -> None:
    shuffled = [
        Stratum(random.sample(old, len(old)), random.sample(new, len(new)))
        for old, new in map(lambda each: (list(each.old), list(each.new)), strata)
    ]
    random.shuffle(shuffled)
    assert fall_p_value(shuffled) == fall_p_value(strata)


@given(st.lists(STRATA, min_size=1, max_size=4), st.data())
def test_a_swap_that_lowers_the_new_attempts_lowers_p(
    strata: list[Stratum], data: st.DataObject
) -> None:
    """The pooled values stay, so the distribution does, and p follows the sum."""
    at = data.draw(st.integers(0, len(strata) - 1))
    old, new = list(strata[at].old), list(strata[at].new)
    if not old or not new:
        return
    i, j = data.draw(st.integers(0, len(old) - 1)), data.draw(st.integers(0, len(new) - 1))
    old[i], new[j] = max(old[i], new[j]), min(old[i], new[j])
    lower = [*strata[:at], Stratum(old, new), *strata[at + 1 :]]
    assert fall_p_value(lower) <= fall_p_value(strata)


@given(st.lists(STRATA, max_size=4))
def test_range(strata: list[Stratum]) -> None:
    assert 0 < fall_p_value(strata) <= 1


def test_value_outside() -> None:
    with pytest.raises(ValueError, match="2 is no value of an attempt"):
        fall_p_value([Stratum((1,), (2,))])


@pytest.mark.parametrize("tries", [1, 3])
def test_many_strata_are_nearly_normal(tries: int) -> None:
    """Past what can be counted exactly; the moments are those of the hypergeometric law."""
    random = Random(tries)
    strata = [
        Stratum(
            [int(random.random() < 0.8) for _ in range(tries)],
            [int(random.random() < 0.79) for _ in range(tries + 1)],
        )
        for _ in range(6000)
    ]
    mean = variance = 0.0
    for old, new in strata:
        size, share = len(old) + len(new), (sum(old) + sum(new)) / (len(old) + len(new))
        mean += len(new) * share
        variance += len(new) * share * (1 - share) * len(old) / (size - 1)
    observed = sum(sum(new) for _, new in strata)
    expected = reference.norm.cdf((observed + 0.5 - mean) / math.sqrt(variance))
    assert fall_p_value(strata) == pytest.approx(float(expected), rel=1e-6)


def test_fine_values_are_rounded_and_the_level_is_right() -> None:
    """Values on no common grid: unchanged runs are rejected at 5 % in at most 5 % of cases."""
    random = Random(33)
    rejected = 0
    for _ in range(100):
        strata = [
            Stratum(
                [Fraction(random.randrange(98), 97) for _ in range(4)],
                [Fraction(random.randrange(102), 101) for _ in range(4)],
            )
            for _ in range(12)
        ]
        rejected += fall_p_value(strata) <= 0.05
    assert rejected <= 100 * 0.05 + 2 * math.sqrt(100 * 0.05 * 0.95)


def test_unchanged_flaky_agent() -> None:
    """An agent of 70 % sure, 20 % shaky and 10 % wavering scenarios: 4 % stop at most 4 %."""
    random = Random(4)
    rates = [0.99] * 14 + [0.85] * 4 + [0.5] * 2
    stopped = 0
    for _ in range(1000):
        strata = [
            Stratum(*([int(random.random() < rate) for _ in range(3)] for _ in range(2)))
            for rate in rates
        ]
        stopped += fall_p_value(strata) <= 0.04
    assert stopped <= 40
