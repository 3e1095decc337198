"""The interval of kappa by the profile likelihood, compared with a search over a grid."""

import math

import numpy as np
import pytest

from scouter.evaluate.statistics.agreement import cohen_kappa
from scouter.evaluate.statistics.kappa_profile import profile_interval

LIMIT = 1.959964**2


def by_grid(cells: list[float], kappa: float) -> float:
    """The largest log-likelihood over how often each rater passes, to a grid of 0.002."""
    first = np.linspace(0.001, 0.999, 500)[:, None]
    second = np.linspace(0.001, 0.999, 500)[None, :]
    chance = first * second + (1 - first) * (1 - second)
    agree = kappa + (1 - kappa) * chance
    both = (agree + first + second - 1) / 2
    chances = [both, first - both, second - both, 1 - first - second + both]
    usable = np.minimum.reduce(chances) > 0
    logs = sum(
        cell * np.log(np.where(usable, each, 1.0))
        for cell, each in zip(cells, chances, strict=True)
    )
    return float(np.where(usable, logs, -math.inf).max())


@pytest.mark.parametrize(
    "cells",
    [
        [18.25, 2.25, 4.25, 16.25],
        [20.25, 0.25, 0.25, 9.25],
        [3.25, 1.25, 0.25, 45.25],
        [5.25, 9.25, 8.25, 3.25],
        [0.25, 12.25, 10.25, 0.25],
    ],
)
def test_the_ends_are_where_the_likelihood_says(cells: list[float]) -> None:
    """Just inside of an end the best table is likely enough, just outside it is not."""
    total = sum(cells)
    best = sum(cell * math.log(cell / total) for cell in cells)
    a, b, c, d = (cell / total for cell in cells)
    chance = (a + b) * (a + c) + (c + d) * (b + d)
    low, high = profile_interval(cells, (a + d - chance) / (1 - chance), 0.95)
    assert -1 < low < high < 1
    for end, inward in ((low, 0.02), (high, -0.02)):
        assert 2 * (best - by_grid(cells, end + inward)) < LIMIT
        if abs(end - inward) < 1:
            assert 2 * (best - by_grid(cells, end - inward)) > LIMIT


def test_perfect_agreement_on_few_items_is_no_proof() -> None:
    low, high = cohen_kappa(((15, 0), (0, 15))).interval
    assert high == 1.0
    assert 0.7 < low < 0.9


def test_skewed_tables_are_covered() -> None:
    """30 labels at sensitivity and specificity 0.98: the interval by atanh covered 88 %."""
    chances = (0.49, 0.01, 0.01, 0.49)
    random = np.random.default_rng(5)
    tables, counts = np.unique(random.multinomial(30, chances, 2000), axis=0, return_counts=True)
    inside = 0
    for (a, b, c, d), count in zip(tables.tolist(), counts.tolist(), strict=True):
        low, high = cohen_kappa(((a, b), (c, d))).interval
        inside += count * (low <= 0.96 <= high)
    assert inside / 2000 >= 0.93 - 3 * math.sqrt(0.93 * 0.07 / 2000)
