"""The difference of two means: against brute force, by laws, and by simulation of many looks."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.drift.detect.split import log_beta, log_evidence_of_another_split
from scouter.drift.detect.two_samples import Interval, Sample, difference, is_below
from tests.support.vectors import load_vectors

STAKES = [0.9 * 0.55**step for step in range(11)]
samples = st.dictionaries(
    st.sampled_from([0.0, 0.25, 0.5, 2 / 3, 1.0]), st.integers(0, 40), max_size=5
).map(Sample)


def wealth(outcomes: list[float], mean: float) -> float:
    """Mean wealth of eleven bettors who play one game after the other."""
    total = 0.0
    for stake in STAKES:
        money = 1.0
        for value in outcomes:
            money *= 1 + stake * (value / mean - 1)
        total += money
    return total / len(STAKES)


def brute_force(first: list[float], second: list[float], alpha: float, steps: int) -> Interval:
    """Each difference on a grid, and for it each common mean on a finer one."""

    def is_accepted(one: list[float], other: list[float], gap: float) -> bool:
        """True if "mean of the other >= mean of the one + gap" stands for some mean."""
        flipped = [1 - value for value in other]
        for step in range(8 * steps + 1):
            mean = step / (8 * steps)
            if mean - gap < 0 or mean - gap > 1:
                continue
            at_most = 1.0 if mean - gap == 1 else _edge(one, mean - gap)
            at_least = 1.0 if mean == 0 else _edge(flipped, 1 - mean)
            if at_most * at_least < 2 / alpha:
                return True
        return False

    gaps = [step / steps for step in range(-steps, steps + 1)]
    return Interval(
        -max(gap for gap in gaps if is_accepted(second, first, gap)),
        max(gap for gap in gaps if is_accepted(first, second, gap)),
    )


def _edge(outcomes: list[float], mean: float) -> float:
    if mean == 0:
        return math.inf if any(outcomes) else 1.0
    return wealth(outcomes, mean)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1.0] * 18 + [0.0] * 2, [1.0] * 5 + [0.0] * 15),
        ([1.0] * 30, [1.0] * 20 + [0.5] * 10),
        ([0.0, 1.0] * 10, [0.25] * 30),
        ([1.0] * 3, [0.0] * 2),
    ],
)
def test_the_interval_is_that_of_brute_force(first: list[float], second: list[float]) -> None:
    """To the width of the grid."""
    steps = 50
    wanted = brute_force(first, second, 0.05, steps)
    found = difference(Sample.of(first), Sample.of(second), 0.05)
    assert found.lower == pytest.approx(wanted.lower, abs=2 / steps)
    assert found.upper == pytest.approx(wanted.upper, abs=2 / steps)


@given(samples, samples)
def test_the_interval_has_the_observed_difference_in_it(first: Sample, second: Sample) -> None:
    found = difference(first, second, 0.05)
    assert -1 <= found.lower <= found.upper <= 1
    if first.size and second.size:
        assert found.lower <= second.mean - first.mean <= found.upper
    if not first.size and not second.size:
        assert found == Interval(-1, 1)


@given(samples, samples)
def test_the_samples_change_places(first: Sample, second: Sample) -> None:
    there, back = difference(first, second, 0.05), difference(second, first, 0.05)
    assert there == Interval(-back.upper, -back.lower)


@given(samples, samples)
def test_failures_are_mirrored_passes(first: Sample, second: Sample) -> None:
    """Up to the numbers that 1 - x cannot hold."""
    there = difference(first, second, 0.05)
    back = difference(second.mirrored(), first.mirrored(), 0.05)
    assert there.lower == pytest.approx(back.lower, abs=3e-4)
    assert there.upper == pytest.approx(back.upper, abs=3e-4)


@given(samples, samples)
def test_more_confidence_is_a_wider_interval(first: Sample, second: Sample) -> None:
    wide, narrow = difference(first, second, 0.01), difference(first, second, 0.2)
    assert wide.lower <= narrow.lower
    assert narrow.upper <= wide.upper


def test_an_outcome_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Sample.of([1.2])
    with pytest.raises(ValueError, match="alpha is 1"):
        difference(Sample.of([1]), Sample.of([1]), 1)


@given(samples, samples, st.floats(-1, 1), st.floats(0.01, 0.5))
def test_what_is_proven_lies_outside_the_interval(
    first: Sample, second: Sample, gap: float, alpha: float
) -> None:
    """Each side of an interval has half of the chance; it is right to a ten-thousandth."""
    found = difference(first, second, alpha)
    if is_below(first, second, gap, alpha / 2):
        assert found.upper <= gap + 2e-4
    else:
        assert found.upper >= gap - 2e-4


def ever_below(rng: random.Random, rate: float, turns: int, weight: int, alpha: float) -> bool:
    """Two versions that are alike: whether the second was ever proven to be worse.

    Conversations have a rate of their own (Beta distributed), and their mean is the outcome.
    """
    counts = Counter[float](), Counter[float]()
    for _ in range(40):
        for _ in range(25):
            own = rng.betavariate(4 * rate, 4 * (1 - rate)) if turns > 1 else rate
            mean = sum(rng.random() < own for _ in range(turns)) / turns
            counts[rng.randrange(weight) == 0][mean] += 1
        if is_below(Sample(counts[0]), Sample(counts[1]), 0.0, alpha):
            return True
    return False


@pytest.mark.parametrize(
    ("rate", "turns", "weight"), [(0.9, 1, 2), (0.5, 1, 2), (0.98, 1, 10), (0.8, 5, 3)]
)
def test_equal_versions_are_distinguished_seldom(rate: float, turns: int, weight: int) -> None:
    """200 runs of 1,000 conversations with 40 looks at a level of 10 %: 20 may be wrong.

    At exactly 10 % more than 32 would have a chance of 0.3 %.
    """
    rng = random.Random(7)
    assert sum(ever_below(rng, rate, turns, weight, 0.1) for _ in range(200)) <= 32


def test_a_peeking_z_test_would_not_pass() -> None:
    """The same looks with a test for one look: the simulation can tell the two."""
    rng = random.Random(7)
    wrong = 0
    for _ in range(200):
        passed, total = [0, 0], [0, 0]
        for _ in range(40):
            for _ in range(25):
                side = rng.randrange(2)
                passed[side] += rng.random() < 0.9
                total[side] += 1
            rates = [p / n for p, n in zip(passed, total, strict=True)]
            spread = math.sqrt(sum(r * (1 - r) / n for r, n in zip(rates, total, strict=True)))
            if rates[1] - rates[0] < -1.2816 * spread:
                wrong += 1
                break
    assert wrong > 64


def test_a_fall_is_seen() -> None:
    """Ten points of 1,000 conversations each."""
    good, bad = Sample({1.0: 900, 0.0: 100}), Sample({1.0: 800, 0.0: 200})
    assert difference(good, bad, 0.05).upper < 0


def test_the_mixture_of_the_split_is_that_of_others() -> None:
    """At each end of their interval the mixture over Beta(1/2, 1/2) has just its line."""
    for case in load_vectors("drift/vectors_confseq.json")["beta_binomial_cs"]:
        passed, failed = case["passes"], case["fails"]
        for share in case["ci"]:
            if 0 < share < 1:
                log = (
                    log_beta(0.5 + passed, 0.5 + failed) - log_beta(0.5, 0.5)
                    - passed * math.log(share) - failed * math.log1p(-share)
                )  # fmt: skip
                assert log == pytest.approx(-math.log(case["alpha"]), abs=1e-5), case


def test_the_split_by_hand() -> None:
    """A prior of 50 and 50, and one unit in the second: B(51, 50) / B(50, 50) / 0.5 = 1."""
    assert log_evidence_of_another_split(0, 1, 0.5) == pytest.approx(0)
    # Two in the second: 50/100 * 51/101 / 0.25.
    assert log_evidence_of_another_split(0, 2, 0.5) == pytest.approx(math.log(51 / 101 * 2))
    with pytest.raises(ValueError, match="inside"):
        log_evidence_of_another_split(1, 1, 1)


def test_a_split_as_planned_is_called_wrong_seldom() -> None:
    """2,000 runs of 1,000 units, looked at after each: 0.1 % at most; 9 of 2,000 have 2e-4."""
    rng = random.Random(3)
    line = math.log(1000)
    wrong = 0
    for _ in range(2_000):
        second = 0
        for n in range(1, 1_001):
            second += rng.random() < 0.1
            if n % 10 == 0 and log_evidence_of_another_split(n - second, second, 0.1) >= line:
                wrong += 1
                break
    assert wrong <= 8


def test_another_split_is_seen() -> None:
    assert log_evidence_of_another_split(940, 60, 0.1) > math.log(1000)
