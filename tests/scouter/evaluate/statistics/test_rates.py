"""Rates against each other: published tables, scipy, enumeration, and how often they mislead."""

import itertools
import math
from random import Random
from typing import cast

import pytest
import scipy.stats as reference
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.statistics.clustered import (
    Cluster,
    compare_clusters,
    design_effect,
)
from scouter.evaluate.statistics.distributions import binomial_pmf
from scouter.evaluate.statistics.multiplicity import holm
from scouter.evaluate.statistics.paired import mcnemar_exact, tango
from scouter.evaluate.statistics.proportion import fisher_exact, newcombe_difference


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17, 873-890, table II, method 10
        ((48, 80, 56, 70), 0.0524, 0.3339),
        ((3, 10, 9, 10), 0.1705, 0.8090),
        ((0, 10, 10, 10), 0.6075, 1.0),
        ((0, 10, 0, 10), -0.2775, 0.2775),
    ],
)
def test_newcombe(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    assert newcombe_difference(*counts) == pytest.approx((low, high), abs=1.5e-4)


def test_newcombe_without_results() -> None:
    """Nothing is known of a difference to nothing."""
    low, high = newcombe_difference(0, 0, 0, 0)
    assert (low, high) == pytest.approx((-math.sqrt(0.5), math.sqrt(0.5)))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_fisher_against_scipy(a: int, b: int, c: int, d: int) -> None:
    found = fisher_exact(a, a + b, c, c + d)
    _, expected = cast(tuple[float, float], reference.fisher_exact([[a, b], [c, d]]))
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("fell", "rose", "p"),
    [
        (7, 1, 0.0703),  # airway hyper-responsiveness, Fagerland et al. 2013
        (16, 6, 0.0525),  # complete response after transplant, Fagerland et al. 2013
        (0, 0, 1.0),
        (6, 0, 2 / 64),
        (5, 5, 1.0),
    ],
)
def test_mcnemar(fell: int, rose: int, p: float) -> None:
    assert mcnemar_exact(fell, rose) == pytest.approx(p, abs=5e-5)
    assert mcnemar_exact(rose, fell) == mcnemar_exact(fell, rose)


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_against_scipy(fell: int, rose: int) -> None:
    if fell + rose:
        expected = reference.binomtest(fell, fell + rose).pvalue
        assert mcnemar_exact(fell, rose) == pytest.approx(float(expected), rel=1e-8)


def test_counts_are_checked() -> None:
    with pytest.raises(ValueError, match="no counts"):
        mcnemar_exact(-1, 2)
    with pytest.raises(ValueError, match="no counts"):
        fisher_exact(3, 2, 0, 0)
    with pytest.raises(ValueError, match="no counts"):
        tango(3, 2, 4)
    with pytest.raises(ValueError, match="expected a level"):
        tango(1, 1, 4, confidence=1)
    with pytest.raises(ValueError, match="p-values"):
        holm([0.1, 1.1])


def test_tango_against_the_published_example() -> None:
    """7 of 21 fell and 1 rose: Fagerland, Lydersen and Laake 2014, doi:10.1002/sim.6148."""
    assert tango(7, 1, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)


@pytest.mark.parametrize("pairs", [1, 20, 400])
def test_tango_without_changes(pairs: int) -> None:
    """By hand: the bound solves n d^2 = z^2 (d (1 - d) + 2 * 0), so d = z^2 / (n + z^2)."""
    square = 1.959963984540054**2
    bound = square / (pairs + square)
    assert tango(0, 0, pairs) == pytest.approx((-bound, bound), abs=1e-9)
    assert tango(0, 0, 0) == (-1.0, 1.0)


def _score(rose: int, fell: int, pairs: int, difference: float) -> float:
    """Tango's score by brute force: the likeliest chance of a fall is searched on a grid."""
    stayed = pairs - rose - fell

    def likelihood(falling: float) -> float:
        rising, rest = falling + difference, 1 - 2 * falling - difference
        terms = [(rose, rising), (fell, falling), (stayed, rest)]
        return sum(count * math.log(max(rate, 1e-300)) for count, rate in terms)

    low, high = max(0.0, -difference), (1 - difference) / 2
    for _ in range(60):  # golden enough: the likelihood is concave
        third = (high - low) / 3
        if likelihood(low + third) < likelihood(high - third):
            low += third
        else:
            high -= third
    variance = pairs * (2 * low + difference * (1 - difference))
    return (rose - fell - pairs * difference) / math.sqrt(variance)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 60))
def test_tango_solves_the_score_equation(rose: int, fell: int, stayed: int) -> None:
    """At a bound the score is as far off as the level allows; and swapping runs mirrors it."""
    pairs = rose + fell + stayed
    low, high = tango(fell, rose, pairs)
    assert _score(rose, fell, pairs, high) == pytest.approx(-1.959963984540054, abs=1e-4)
    assert _score(rose, fell, pairs, low) == pytest.approx(1.959963984540054, abs=1e-4)
    assert tango(rose, fell, pairs) == pytest.approx((-high, -low), abs=1e-12)


def _tables(pairs: int) -> list[tuple[int, int]]:
    return [(f, r) for f in range(pairs + 1) for r in range(pairs + 1 - f)]


def _chance(fell: int, rose: int, pairs: int, falling: float, rising: float) -> float:
    rest = falling if falling < 1 else 1.0
    return binomial_pmf(fell, pairs, rest) * binomial_pmf(
        rose, pairs - fell, min(1.0, rising / (1 - falling)) if falling < 1 else 0.0
    )


@pytest.mark.parametrize("pairs", [10, 25, 50])
def test_coverage_of_tango_by_enumeration(pairs: int) -> None:
    """Exact coverage over every table: 95 % on average, never far below, as published."""
    intervals = {table: tango(*table, pairs) for table in _tables(pairs)}
    found: list[float] = []
    for falling, rising in itertools.product([0.02, 0.05, 0.1, 0.2, 0.35], repeat=2):
        true = rising - falling
        found.append(
            sum(
                _chance(*table, pairs, falling, rising)
                for table, (low, high) in intervals.items()
                if low <= true <= high
            )
        )
    assert sum(found) / len(found) > 0.945
    assert min(found) > 0.915


@pytest.mark.parametrize("pairs", [5, 20, 60])
def test_false_alarms_of_mcnemar_by_enumeration(pairs: int) -> None:
    """Nothing changed, whatever the flakiness: at most 5 % of runs look changed."""
    for churn in (0.01, 0.05, 0.2, 0.4, 0.5):
        alarms = sum(
            _chance(*table, pairs, churn, churn)
            for table in _tables(pairs)
            if mcnemar_exact(*table) <= 0.05
        )
        assert alarms <= 0.05 + 1e-9


def test_clusters_that_change_as_a_whole_are_single_pairs() -> None:
    """Six conversations of five, five of which fell: as five falls of six pairs."""
    clusters = [Cluster(5, 0, 5)] * 5 + [Cluster(0, 0, 5)]
    assert compare_clusters(clusters).interval == pytest.approx(tango(5, 0, 6))


def test_design_effect_at_its_ends() -> None:
    """Pairs that are all alike count once per cluster; single pairs count as they are."""
    alike = [Cluster(5, 0, 5), Cluster(0, 0, 5), Cluster(0, 5, 5), Cluster(0, 0, 5)]
    assert design_effect(alike) == pytest.approx(5)
    assert design_effect([Cluster(0, 0, 5)] * 4) == 5
    single = [Cluster(1, 0, 1)] * 3 + [Cluster(0, 0, 1)] * 9
    assert design_effect(single) == 1
    assert design_effect([]) == 1


def test_one_conversation_says_nothing() -> None:
    found = compare_clusters([Cluster(40, 0, 40)])
    assert found.interval == (-1.0, 1.0)
    assert found.difference == -1.0


def _draw(random: Random, clusters: int, size: int, spread: float, rates: tuple[float, float]):  # noqa: ANN202
    """Conversations whose pass rates scatter: a beta with intra-class correlation `spread`."""
    found: list[Cluster] = []
    for _ in range(clusters):
        own = [
            random.betavariate(rate * (1 - spread) / spread, (1 - rate) * (1 - spread) / spread)
            for rate in rates
        ]
        fell = rose = 0
        for _ in range(size):
            was, now = (random.random() < rate for rate in own)
            fell += was and not now
            rose += now and not was
        found.append(Cluster(fell, rose, size))
    return found


@pytest.mark.parametrize(
    ("clusters", "size", "spread", "rates"),
    [
        (8, 5, 0.5, (0.8, 0.8)),
        (20, 5, 0.1, (0.9, 0.9)),
        (20, 5, 0.6, (0.7, 0.7)),
        (30, 4, 0.3, (0.9, 0.7)),
        (60, 3, 0.3, (0.95, 0.9)),
    ],
)
def test_calibration_of_clusters(
    clusters: int, size: int, spread: float, rates: tuple[float, float]
) -> None:
    """Fixed seed, 400 runs: the interval covers in at least 95 %, less 3 points."""
    random = Random(7)
    true = rates[1] - rates[0]
    runs = [compare_clusters(_draw(random, clusters, size, spread, rates)) for _ in range(400)]
    covered = sum(low <= true <= high for low, high in (run.interval for run in runs))
    assert covered / len(runs) >= 0.92


def test_holm_by_hand() -> None:
    """0.01 x 4, 0.02 x 3 = 0.06, 0.03 x 2 = 0.06 (not below), 0.5 x 1."""
    assert holm([0.5, 0.01, 0.03, 0.02]) == pytest.approx([0.5, 0.04, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_rejects_as_its_definition_says(values: list[float]) -> None:
    """Step down by hand at level 0.05: reject while p <= 0.05 / (hypotheses left)."""
    adjusted = holm(values)
    left, stopped = len(values), False
    for at in sorted(range(len(values)), key=values.__getitem__):
        stopped = stopped or left * values[at] > 0.05
        assert (adjusted[at] <= 0.05) is not stopped
        left -= 1
