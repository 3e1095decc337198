"""Baselines: lower bounds against references, and what they let a detector see."""

import math
import random

import pytest

from scouter.drift.detect.baseline import (
    Baseline,
    clopper_pearson_lower,
    divergence,
    of_passes,
    of_scores,
)
from scouter.drift.detect.detector import Detector
from tests.support.vectors import load_vectors


def test_the_bound_is_that_of_clopper_and_pearson() -> None:
    for case in load_vectors("drift/vectors_confseq.json")["clopper_pearson_lower"]:
        found = clopper_pearson_lower(case["passes"], case["n"], case["one_sided_alpha"])
        # Of no pass the reference gives no number; no rate is too low for that.
        expected = case["lower"] if case["passes"] else 0
        assert found == pytest.approx(expected, abs=1e-9)


def test_all_passed_by_hand() -> None:
    # p^300 = 0.005
    assert of_passes(300, 300).lower == pytest.approx(0.005 ** (1 / 300), abs=1e-12)
    assert of_passes(0, 300).lower == 0


def test_divergence_by_hand() -> None:
    assert divergence(0.5, 0.75) == pytest.approx(0.5 * math.log(2 / 3) + 0.5 * math.log(2))
    assert divergence(0.0, 0.9) == pytest.approx(math.log(10))
    assert divergence(0.9, 0.9) == 0


@pytest.mark.parametrize("count", [100, 300, 1_000, 5_000])
def test_more_outcomes_see_smaller_falls(count: int) -> None:
    found = of_passes(round(0.9 * count), count)
    seen = found.visible()
    assert seen is not None
    assert seen < found.lower < found.mean
    assert divergence(seen, found.lower) == pytest.approx(-math.log(0.005) / 2_000, rel=1e-6)
    assert ("smaller ones by 1,000" in found.sentence()) is (count < 1_000)


def test_a_baseline_that_sees_nothing_says_so() -> None:
    assert "no fall can be distinguished" in of_passes(0, 40).sentence()
    with pytest.raises(ValueError, match="leaves no fall"):
        of_passes(0, 40).design()


def test_the_bound_by_betting_holds() -> None:
    # Means of conversations: the bound at 2.5 % may lie above the true mean in 1 of 40 cases;
    # 13 of 200 or more would have a chance of 0.2 %.
    rng = random.Random(11)
    above = sum(
        of_scores([rng.betavariate(4, 1) for _ in range(120)], alpha=0.05).lower > 0.8
        for _ in range(200)
    )
    assert above <= 12


def test_the_bound_by_betting_is_close() -> None:
    rng = random.Random(12)
    found = of_scores([rng.betavariate(40, 10) for _ in range(1_000)])
    assert 0.78 < found.lower < found.mean < 0.81


@pytest.mark.parametrize("scores", [[], [0.5, 1.2], [math.nan]])
def test_bad_scores_are_refused(scores: list[float]) -> None:
    with pytest.raises(ValueError, match="scores from 0 to 1"):
        of_scores(scores)


def test_bad_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="no baseline"):
        of_passes(5, 3)


def test_a_short_baseline_alarms_for_nothing_no_more_often() -> None:
    # The true mean is 0.9; each baseline of 100 is drawn anew. At alpha = 10 % more than 31 of 200
    # streams would have a chance below 0.6 %.
    rng = random.Random(13)
    alarms = 0
    for _ in range(200):
        passed = sum(rng.random() < 0.9 for _ in range(100))
        detector = Detector(of_passes(passed, 100, alpha=0.1).design())
        alarms += any(detector.update(float(rng.random() < 0.9)) for _ in range(1_000))
    assert alarms <= 31


def test_half_of_the_chance_is_the_detectors() -> None:
    assert Baseline(mean=0.9, lower=0.8, count=10, alpha=0.02).design().alpha == 0.01
