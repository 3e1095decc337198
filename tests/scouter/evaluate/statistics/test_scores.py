"""Scores: the published example of alpha, its definition pair by pair, SciPy, and hand counts."""

import math
import random
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scouter.evaluate.statistics.agreement import cohen_kappa
from scouter.evaluate.statistics.scores import krippendorff_alpha, score_errors

KRIPPENDORFF = """
    11.1 2232 3333 3333 2222 1234 4444 1121 2222 .555 ..11 .3..
"""
"""Four observers' values of twelve units; a dot for none. Krippendorff 2011, example C."""


def units(text: str) -> list[list[float]]:
    return [[float(each) for each in unit if each != "."] for unit in text.split()]


def test_alpha_as_published() -> None:
    """0.849 in the paper, for interval data; the unit with one value says nothing."""
    assert krippendorff_alpha(units(KRIPPENDORFF)).value == pytest.approx(0.849, abs=5e-4)


def by_pairs(found: Sequence[Sequence[float]]) -> float:
    """Alpha by its definition: mean squared distance inside of units, and of all values."""
    paired = [unit for unit in found if len(unit) > 1]
    values = [each for unit in paired for each in unit]
    inside = sum(
        sum((a - b) ** 2 for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in paired
    )
    among = sum((a - b) ** 2 for a, b in permutations(values, 2))
    return 1 - (inside / len(values)) / (among / (len(values) * (len(values) - 1)))


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=12))
def test_alpha_is_that_of_all_pairs(found: list[list[float]]) -> None:
    alpha = krippendorff_alpha(found)
    values = {each for unit in found if len(unit) > 1 for each in unit}
    if len(values) < 2:
        assert (alpha.value, alpha.interval) == (None, (-1.0, 1.0))
        return
    assert alpha.value == pytest.approx(by_pairs(found), abs=1e-9)
    assert alpha.interval[0] <= (alpha.value or 0.0) <= alpha.interval[1]
    moved = krippendorff_alpha([[3 * each - 100 for each in unit] for unit in found])
    assert moved.value == pytest.approx(alpha.value)
    assert moved.interval == pytest.approx(alpha.interval, abs=1e-6)


def test_alpha_error_is_near_the_jackknife() -> None:
    """Leave out one unit at a time, and see how far alpha moves."""
    rng = random.Random(3)
    levels = [rng.gauss(0, 1) for _ in range(40)]
    found = [[level + rng.gauss(0, 0.7) for _ in range(3)] for level in levels]
    others = [by_pairs(found[:at] + found[at + 1 :]) for at in range(40)]
    mean = sum(others) / 40
    jackknife = math.sqrt(39 / 40 * sum((each - mean) ** 2 for each in others))
    assert krippendorff_alpha(found).standard_error == pytest.approx(jackknife, rel=0.1)


def test_alpha_of_two_people_is_nearly_the_weighted_kappa() -> None:
    """On 400 records: 1/n is all that is between them."""
    rng = random.Random(9)
    pairs = [(at := rng.randint(1, 5), min(5, max(1, at + rng.randint(-1, 1)))) for _ in range(400)]
    table = [[pairs.count((a, b)) for b in range(1, 6)] for a in range(1, 6)]
    kappa = cohen_kappa(table, "quadratic").value
    assert krippendorff_alpha(pairs).value == pytest.approx(kappa, abs=0.005)


def test_the_interval_of_alpha_covers_the_truth() -> None:
    """Two people on 30 records, who differ by half of the variance: alpha is 0.5."""
    rng = random.Random(11)
    covered = 0
    for _ in range(1_000):
        found = [
            [at + rng.gauss(0, 1), at + rng.gauss(0, 1)]
            for at in (rng.gauss(0, 1) for _ in range(30))
        ]
        low, high = krippendorff_alpha(found).interval
        covered += low <= 0.5 <= high
    assert 0.90 <= covered / 1_000 <= 0.98


def test_perfect_agreement_is_not_certain() -> None:
    few, many = krippendorff_alpha([[1, 1], [5, 5]] * 5), krippendorff_alpha([[1, 1], [5, 5]] * 250)
    assert few.value == many.value == few.interval[1] == 1.0
    assert 0.2 < few.interval[0] < 0.9 < many.interval[0] < 1.0


def test_alpha_of_one_unit_says_nothing_sure() -> None:
    assert krippendorff_alpha([[1, 3]]).value == pytest.approx(0.0)
    assert krippendorff_alpha([[1, 3]]).interval == (-1.0, 1.0)
    assert krippendorff_alpha([]).value is None


@pytest.mark.parametrize("confidence", [0.0, 1.0])
def test_levels(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        krippendorff_alpha([[1, 2]], confidence)


def test_errors_by_hand() -> None:
    """People 1 2 3 4 5 5, judge 2 2 4 4 5 4: differences 1 0 1 0 0 -1, of which 3 are not 0."""
    found = score_errors(list(zip((1, 2, 3, 4, 5, 5), (2, 2, 4, 4, 5, 4), strict=True)))
    assert found.items == 6
    assert found.mean_absolute_error.value == pytest.approx(0.5)
    assert found.bias.value == pytest.approx(1 / 6)
    # Deviations of the differences: squares sum to 3 - 6/36 = 17/6, variance 17/30.
    half = float(stats.t.ppf(0.975, 5)) * math.sqrt(17 / 30 / 6)
    assert found.bias.interval == pytest.approx((1 / 6 - half, 1 / 6 + half))
    low, high = found.mean_absolute_error.interval or (math.nan, math.nan)
    assert low == 0  # 0.5 less 2.57 * sqrt(0.3 / 6) is below 0
    assert high == pytest.approx(0.5 + float(stats.t.ppf(0.975, 5)) * math.sqrt(0.3 / 6))


def test_correlation_as_scipy_has_it() -> None:
    """The interval holds one more item; of 500 that is hardly seen."""
    rng = random.Random(2)
    pairs = [(at := rng.gauss(3, 1), at + rng.gauss(0, 1)) for _ in range(500)]
    wanted: Any = stats.pearsonr(*zip(*pairs, strict=True))
    found = score_errors(pairs).correlation
    assert found.value == pytest.approx(float(wanted.statistic))
    assert found.interval == pytest.approx(tuple(wanted.confidence_interval()), abs=3e-3)


@pytest.mark.parametrize(
    ("pairs", "value"),
    [([], None), ([(1, 2)], None), ([(1, 2), (1, 4)], None), ([(1, 2), (3, 4)], 1.0)],
    ids=["none", "one", "all the same", "two"],
)
def test_few_items_have_no_interval(pairs: list[tuple[float, float]], value: float | None) -> None:
    found = score_errors(pairs).correlation
    assert (found.value, found.interval) == (value, None)


def test_no_error_on_few_items_is_not_certain() -> None:
    found = score_errors([(each % 5, each % 5) for each in range(8)])
    assert found.mean_absolute_error.value == 0
    assert found.mean_absolute_error.interval is found.bias.interval is None
    low, high = found.correlation.interval or (1.0, 0.0)
    assert low < 0.6
    assert high == pytest.approx(1.0)
