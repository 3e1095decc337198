"""Two samples of conversations: by hand, by counting all ways, and by the laws of single ones."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scouter.evaluate.statistics.clustered import Cluster
from scouter.evaluate.statistics.proportion import fall_mid_p, newcombe_difference
from scouter.evaluate.statistics.samples import compare_samples, sample_of

cluster = st.integers(1, 6).flatmap(
    lambda n: st.integers(0, n).map(lambda passed: Cluster(0, passed, n))
)
clusters = st.lists(cluster, min_size=2, max_size=30)


def singles(passed: int, failed: int) -> list[Cluster]:
    return [Cluster(0, 1, 1)] * passed + [Cluster(0, 0, 1)] * failed


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_a_mid_p_counts_all_ways(passed: int, failed: int, passes: int, fails: int) -> None:
    values = [1] * (passed + passes) + [0] * (failed + fails)
    taken = passes + fails
    sums = [sum(values[at] for at in way) for way in combinations(range(len(values)), taken)]
    lower, equal = sum(s < passes for s in sums), sum(s == passes for s in sums)
    found = fall_mid_p(passed, passed + failed, passes, taken)
    assert found == pytest.approx((lower + equal / 2) / len(sums))


def test_counts_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        fall_mid_p(3, 2, 0, 1)


@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 40), st.integers(0, 40))
def test_records_that_stand_alone_are_counted_as_they_are(
    passed: int, failed: int, passes: int, fails: int
) -> None:
    found = compare_samples(sample_of(singles(passed, failed)), sample_of(singles(passes, fails)))
    counts = (passed, passed + failed, passes, passes + fails)
    assert found.interval == pytest.approx(newcombe_difference(*counts))
    assert found.p_value == pytest.approx(fall_mid_p(*counts))
    assert found.difference == pytest.approx(passes / counts[3] - passed / counts[1])


def test_turns_that_are_all_alike_tell_as_much_as_one() -> None:
    """Ten conversations of five, eight passed: ten results, less Student's of nine degrees."""
    found = sample_of([Cluster(0, 5, 5)] * 8 + [Cluster(0, 0, 5)] * 2)
    t, z = stats.t.ppf(0.975, 9), stats.norm.ppf(0.975)
    # The robust variance of ten means is cut at five times that of single results.
    assert found.effective == pytest.approx(50 / 5 * (z / t) ** 2)
    assert (found.rate, found.count, found.conversations) == (0.8, 50, 10)


def test_longer_conversations_of_one_quality_are_no_fall() -> None:
    """Nine of ten records pass on both sides, in conversations of two and of ten records.

    As wholes 80 of 100 conversations of two pass, and none of the longer ones.
    """
    before = sample_of([Cluster(0, 2, 2)] * 80 + [Cluster(0, 1, 2)] * 20)
    after = sample_of([Cluster(0, 9, 10)] * 30)
    found = compare_samples(before, after)
    assert found.difference == pytest.approx(0)
    assert found.p_value > 0.4
    assert found.interval[0] < 0 < found.interval[1]


@given(clusters, clusters)
def test_an_open_comparison_is_never_surer(before: list[Cluster], after: list[Cluster]) -> None:
    sides = sample_of(before), sample_of(after)
    once, always = compare_samples(*sides), compare_samples(*sides, is_open=True)
    assert always.interval[0] <= once.interval[0] <= once.difference + 1e-9
    assert always.interval[1] >= once.interval[1] >= once.difference - 1e-9
    assert always.p_value >= once.p_value * 0.999
    assert once.before.effective <= once.before.count
