"""The mean of grouped numbers, against scipy and by hand."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scouter.evaluate.statistics.clustered_mean import FEWEST_CLUSTERS, clustered_mean

numbers = st.floats(-100, 100)


@given(st.lists(numbers, min_size=FEWEST_CLUSTERS, max_size=20), st.floats(0.5, 0.99))
def test_groups_of_one_are_students_t(values: list[float], confidence: float) -> None:
    found = clustered_mean([[value] for value in values], confidence)
    reference = stats.ttest_1samp(values, 0).confidence_interval(confidence)
    assert found.mean == pytest.approx(sum(values) / len(values), abs=1e-9)
    assert found.interval is not None
    if math.isfinite(reference.low):  # scipy makes nan of values that are all alike
        assert found.interval == pytest.approx((reference.low, reference.high), abs=1e-6)


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=6, max_size=12))
def test_groups_of_one_size_are_students_t_over_their_means(
    groups: list[tuple[float, ...]],
) -> None:
    by_mean = clustered_mean([[sum(group) / 3] for group in groups])
    found = clustered_mean(groups)
    assert by_mean.interval is not None
    assert found.interval == pytest.approx(by_mean.interval, abs=1e-6)


def test_groups_of_several_sizes_by_hand() -> None:
    """Five groups [1], one [2, 2, 2]: mean 11/8; totals stray by -3/8 five times and by 15/8.

    Variance (5 * 9 + 225) / 64 * 6/5 / 64 = 0.0791015625, of 5 degrees: t = 2.5705818356.
    """
    found = clustered_mean([[1.0]] * 5 + [[2.0, 2.0, 2.0]])
    half = 2.5705818356363146 * math.sqrt(0.0791015625)
    assert found.mean == 1.375
    assert found.interval == pytest.approx((1.375 - half, 1.375 + half), abs=1e-9)


def test_five_groups_are_too_few() -> None:
    assert clustered_mean([[1.0, 2.0]] * 5).interval is None


def test_the_interval_covers_the_mean_of_conversations_that_differ() -> None:
    """1,000 runs of 12 conversations with 1 to 5 turns that share their conversation's level.

    Of such few groups, of uneven sizes, a 95 % interval covers somewhat less.
    """
    rng = random.Random(5)
    covered = 0
    for _ in range(1_000):
        groups = [
            [level + rng.gauss(0, 0.3) for _ in range(rng.randint(1, 5))]
            for level in (rng.gauss(0, 1) for _ in range(12))
        ]
        interval = clustered_mean(groups).interval
        assert interval is not None
        covered += interval[0] <= 0 <= interval[1]
    assert 0.91 <= covered / 1_000 <= 0.97
