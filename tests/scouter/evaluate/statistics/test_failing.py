"""The chance that an unchanged scenario fails so often, against sums by brute force."""

import math
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.statistics.failing import Attempts, FailingChances

MEANS = (0.1, 0.3, 0.5, 0.65, 0.75, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995)
WEIGHTS = (0.3, 0.8, 2, 5, 12, 30, 80)
STRAYS = (0, 0.1, 0.25)


def beta(a: float, b: float) -> float:
    return math.exp(math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b))


def chance(passed: int, made: int, mean: float, weight: float, strays: float) -> float:
    """Chance of one sequence of attempts, if its rate is drawn from the guess."""
    a, b, failed = mean * weight, (1 - mean) * weight, made - passed
    usual = beta(a + passed, b + failed) / beta(a, b)
    return (1 - strays) * usual + strays * beta(1 + passed, 1 + failed)


def by_brute_force(
    baseline: Sequence[tuple[int, int]], first: Sequence[tuple[int, int]], own: int, failures: int
) -> float:
    """Bayes' rule over all guesses, with the first attempts of the others and none of its own."""
    passed, made = baseline[own]
    above = below = 0.0
    for guess in product(MEANS, WEIGHTS, STRAYS):
        others = math.prod(
            chance(old[0] + new[0], old[1] + new[1], *guess)
            for at, (old, new) in enumerate(zip(baseline, first, strict=True))
            if at != own
        )
        below += others * chance(passed, made, *guess)
        above += others * chance(passed, made + failures, *guess)
    return above / below


def chances(
    baseline: Sequence[tuple[int, int]], first: Sequence[tuple[int, int]]
) -> FailingChances:
    return FailingChances([Attempts(*each) for each in baseline], [Attempts(*e) for e in first])


attempts = st.integers(0, 4).flatmap(lambda made: st.tuples(st.integers(0, made), st.just(made)))


@given(st.lists(st.tuples(attempts, attempts), min_size=1, max_size=6), st.integers(0, 8))
def test_against_all_guesses(
    suite: list[tuple[tuple[int, int], tuple[int, int]]], failures: int
) -> None:
    baseline, first = [old for old, _ in suite], [new for _, new in suite]
    found = chances(baseline, first).all_failing(0, failures)
    assert found == pytest.approx(by_brute_force(baseline, first, 0, failures), rel=1e-9)


def test_no_failure_is_certain() -> None:
    assert chances([(3, 3)], [(3, 3)]).all_failing(0, 0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        pytest.param(
            ([(1, 1)] * 10, [(1, 1)] * 10, 4), ([(1, 1)] * 10, [(1, 1)] * 10, 3), id="failures"
        ),
        pytest.param(
            ([(3, 3)] * 10, [(1, 1)] * 10, 3), ([(1, 1)] * 10, [(1, 1)] * 10, 3), id="baseline"
        ),
        pytest.param(
            ([(3, 3)] * 10, [(1, 1)] * 10, 3),
            ([(3, 3), *[(2, 3)] * 9], [(1, 1)] * 10, 3),
            id="flaky-suite",
        ),
        pytest.param(
            ([(3, 3)] * 10, [(0, 1), *[(1, 1)] * 9], 3),
            ([(3, 3)] * 10, [(0, 1)] * 10, 3),
            id="others-fail-now",
        ),
    ],
)
def test_order(
    less: tuple[list[tuple[int, int]], list[tuple[int, int]], int],
    more: tuple[list[tuple[int, int]], list[tuple[int, int]], int],
) -> None:
    """More failures, and more passes before, make it less probable; a flaky suite more so."""
    low, high = (
        chances(baseline, first).all_failing(0, failures)
        for baseline, first, failures in (less, more)
    )
    assert low < high
