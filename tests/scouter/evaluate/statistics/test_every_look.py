"""Bounds for every look: by hand, by numeric integration, and along simulated paths."""

import math
import random
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.statistics.every_look import look_p_value, look_quantile

NORMAL = NormalDist()


def test_a_quantile_by_hand() -> None:
    """Information 900 and the spread 0.1: 900 * 0.01 = 9, and (10/9) * (ln 10 + 2 ln 20)."""
    by_hand = math.sqrt(10 / 9 * (2.302585092994046 + 2 * 2.995732273553991))
    assert look_quantile(900) == pytest.approx(by_hand)


@given(st.floats(1, 1e6), st.floats(-4, 6))
def test_a_p_value_is_above_that_of_one_look(information: float, z: float) -> None:
    assert look_p_value(z, information) > NORMAL.cdf(-z) * 0.999
    assert look_p_value(z, information) <= 1


@given(st.floats(10, 1e5))
def test_interval_and_p_value_agree(information: float) -> None:
    """At the end of the interval the p-value is half of 5 %, but for what the other side has."""
    value = look_p_value(look_quantile(information), information)
    assert value == pytest.approx(0.025, rel=0.05)


@pytest.mark.parametrize("information", [20, 900, 40_000])
def test_the_evidence_has_the_mean_one_if_nothing_fell(information: float) -> None:
    """Above one it is 1/p; what is left of the mean is not negative."""
    step = 0.001
    above = math.fsum(
        NORMAL.pdf(z) * step / value
        for z in (at * step for at in range(-8_000, 8_000))
        if (value := look_p_value(z, information)) < 1
    )
    assert above <= 1


def test_few_paths_ever_leave_the_bounds() -> None:
    """1,000 paths of 200 looks each; the promise is 5 % for the interval, 2.5 % for a fall."""
    rng = random.Random(54)
    left = fell = 0
    for _ in range(1_000):
        path, has_left, has_fallen = 0.0, False, False
        for look in range(1, 201):
            path += rng.gauss(0, math.sqrt(50))
            z = path / math.sqrt(50 * look)
            has_left |= abs(z) > look_quantile(50 * look)
            has_fallen |= look_p_value(-z, 50 * look) <= 0.025
        left, fell = left + has_left, fell + has_fallen
    assert left <= 50
    assert fell <= 25
