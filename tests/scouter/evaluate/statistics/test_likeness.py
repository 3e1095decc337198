"""Likeness of neighbours, by hand and on random orders."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.statistics.likeness import blocks, likeness


def test_the_correlation_of_pairs_by_hand() -> None:
    """1 1 0 0, five times: each is 1/2 from the mean; of 19 neighbours ten are alike, nine not."""
    found = likeness([1, 1, 0, 0] * 5)
    assert found.correlation == pytest.approx((10 - 9) / 20)
    assert not found.is_beyond_chance


def test_conversations_that_nobody_named_are_seen() -> None:
    """Forty of five records each that pass or fail together."""
    rng = random.Random(1)
    found = likeness([value for _ in range(40) for value in [int(rng.random() < 0.8)] * 5])
    assert found.is_beyond_chance
    assert found.correlation > 0.5


@pytest.mark.parametrize("values", [[], [1], [1] * 50, [0, 1] * 5])
def test_without_chance_to_tell_nothing_is_found(values: list[int]) -> None:
    assert not likeness(values).is_beyond_chance


def test_a_random_order_is_seldom_taken_for_alike() -> None:
    """A normal value is above 2 in 2.3 % of cases."""
    rng = random.Random(2)
    found = sum(
        likeness([int(rng.random() < 0.9) for _ in range(300)]).is_beyond_chance
        for _ in range(1_000)
    )
    assert found <= 40


@given(st.lists(st.integers(), max_size=500))
def test_blocks_have_everything_in_its_order(values: list[int]) -> None:
    found = blocks(values)
    assert [each for block in found for each in block] == values
    assert max(map(len, found), default=0) <= 20
    assert len(values) < 10 or len(found) >= 10
