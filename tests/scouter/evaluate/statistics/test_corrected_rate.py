"""Corrected rates: published examples, scipy's optimiser, other intervals, and refusals."""

import math
from random import Random
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import optimize

from scouter.evaluate.intervals import wilson
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.corrected_rate import (
    ADDED,
    CannotSay,
    CorrectedRate,
    Profile,
    corrected_rate,
    judge_error,
)
from scouter.evaluate.statistics.prediction_powered import prediction_powered
from tests.support.examples import examples

Z = 1.959963984540054


def labels(good_passed: int, good: int, bad_failed: int, bad: int) -> Confusion:
    return Confusion(
        good_passed=good_passed,
        good_failed=good - good_passed,
        bad_failed=bad_failed,
        bad_passed=bad - bad_failed,
    )


def said(found: CorrectedRate | CannotSay) -> CorrectedRate:
    assert isinstance(found, CorrectedRate)
    return found


def lang_reiczigel(known: Confusion, passed: int, judged: int) -> tuple[float, float]:
    """Lang and Reiczigel 2014, equations 6, 7, 16 and 17."""
    good, bad, count = known.good + 2, known.bad + 2, judged + Z * Z
    sensitivity = (known.good_passed + 1) / good
    specificity = (known.bad_failed + 1) / bad
    share = (passed + Z * Z / 2) / count
    youden = sensitivity + specificity - 1
    rate = (share + specificity - 1) / youden
    of_good = sensitivity * (1 - sensitivity) / good
    of_bad = specificity * (1 - specificity) / bad
    middle = rate + 2 * Z * Z * (rate * of_good - (1 - rate) * of_bad)
    variance = share * (1 - share) / count + rate**2 * of_good + (1 - rate) ** 2 * of_bad
    half = Z * math.sqrt(variance) / youden
    return middle - half, middle + half


def test_rogan_gladen() -> None:
    """The herd in the manual of the R package epiR, `epi.prev`, with 5.1 true cases per 100.

    23 of 150 cows react to a test of sensitivity 0.96 and specificity 0.89.
    """
    found = said(corrected_rate(labels(96, 100, 89, 100), 23, 150))

    assert found.estimate == pytest.approx((23 / 150 + 0.89 - 1) / (0.96 + 0.89 - 1))
    assert found.estimate == pytest.approx(0.051, abs=5e-4)


@pytest.mark.parametrize(
    ("known", "passed", "judged"),
    [
        (labels(360, 400, 320, 400), 380, 500),
        (labels(860, 950, 39, 50), 400, 500),
        (labels(480, 500, 430, 500), 900, 3000),
    ],
)
def test_near_lang_and_reiczigel_with_many_labels(
    known: Confusion, passed: int, judged: int
) -> None:
    """Two derivations of one interval: they meet as the labels grow."""
    found = said(corrected_rate(known, passed, judged))

    assert found.interval == pytest.approx(lang_reiczigel(known, passed, judged), abs=0.006)


def test_with_a_judge_that_is_known_to_be_right() -> None:
    """Nothing is left to correct; the likelihood's interval is close to Wilson's."""
    found = said(corrected_rate(labels(10**7, 10**7, 10**7, 10**7), 400, 500))

    assert found.estimate == pytest.approx(0.8)
    assert found.interval == pytest.approx(wilson(400, 500), abs=0.002)


def negative(known: Confusion, passed: int, judged: int, rate: float, added: float) -> float:
    """The least of minus the log-likelihood, by scipy, over sensitivity and specificity."""

    def value(at: np.ndarray) -> float:
        sensitivity, false_passes = at
        share = rate * sensitivity + (1 - rate) * false_passes
        parts = (
            (known.good_passed + added, sensitivity),
            (known.good_failed + added, 1 - sensitivity),
            (known.bad_passed + added, false_passes),
            (known.bad_failed + added, 1 - false_passes),
            (passed, share),
            (judged - passed, 1 - share),
        )
        return -sum(count * math.log(max(chance, 1e-300)) for count, chance in parts if count)

    starts = [(a, b) for a in (0.2, 0.8) for b in (0.2, 0.8)]
    edge = (1e-9, 1 - 1e-9)
    return min(
        float(cast("Any", optimize.minimize)(value, start, bounds=[edge, edge], tol=1e-12).fun)
        for start in starts
    )


@settings(max_examples=examples(20), deadline=None)
@given(
    st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30),
    st.integers(0, 60), st.integers(0, 60), st.floats(0.01, 0.99), st.booleans(),
)  # fmt: skip
def test_the_profile_is_the_maximum(
    a: int, b: int, c: int, d: int, passed: int, failed: int, rate: float, same_traffic: bool
) -> None:
    """Bisection over one number finds what scipy finds in two dimensions."""
    known = Confusion(good_passed=a, good_failed=b, bad_passed=c, bad_failed=d)
    found = Profile(known, passed, passed + failed, same_traffic).log_likelihood(rate)
    wanted = -negative(known, passed, passed + failed, rate, ADDED)
    if same_traffic:
        wanted += (known.good + 2 * ADDED) * math.log(rate)
        wanted += (known.bad + 2 * ADDED) * math.log(1 - rate)

    assert found == pytest.approx(wanted, abs=2e-5)


@example(1, 0, 5, 32, 2, 123, False)  # the other end is likelier
@settings(max_examples=examples(30), deadline=None)
@given(
    st.integers(1, 60), st.integers(0, 30), st.integers(0, 30), st.integers(1, 60),
    st.integers(0, 300), st.integers(1, 300), st.booleans(),
)  # fmt: skip
def test_the_likeliest_rate_and_the_ends(
    a: int, b: int, c: int, d: int, passed: int, failed: int, same_traffic: bool
) -> None:
    """No rate is likelier than the one said to be; at the ends it is as unlikely as allowed."""
    known = Confusion(good_passed=a, good_failed=b, bad_passed=c, bad_failed=d)
    judged = passed + failed
    found = corrected_rate(known, passed, judged, same_traffic=same_traffic)
    assume(isinstance(found, CorrectedRate))
    profile = Profile(known, passed, judged, same_traffic)
    top = profile.log_likelihood(profile.likeliest())

    assert all(profile.log_likelihood(rate / 50) <= top + 1e-7 for rate in range(51))
    low, high = said(found).interval
    assert 0 <= low <= said(found).estimate <= high <= 1
    raw = said(found).estimate
    for end in (low, high):
        if 0 < end < 1 and end != raw:
            assert profile.log_likelihood(end) == pytest.approx(top - Z * Z / 2, abs=1e-5)


def test_labels_alone() -> None:
    """With nothing judged, labels from the traffic are a plain binomial sample."""
    found = said(corrected_rate(labels(54, 60, 32, 40), 0, 0, same_traffic=True))

    def fall(rate: float) -> float:
        top = 60.5 * math.log(60.5 / 101) + 40.5 * math.log(40.5 / 101)
        return top - 60.5 * math.log(rate) - 40.5 * math.log(1 - rate) - Z * Z / 2

    assert found.estimate == pytest.approx(0.6)
    root = cast("Any", optimize.brentq)
    assert found.interval == pytest.approx((root(fall, 0.01, 0.6), root(fall, 0.6, 0.99)))


def test_a_sample_of_the_traffic_says_more() -> None:
    """The same counts; what is known of how they were picked makes the difference."""
    known = labels(72, 80, 16, 20)
    picked = said(corrected_rate(known, 380, 500))
    sampled = said(corrected_rate(known, 380, 500, same_traffic=True))

    assert picked.estimate == pytest.approx(0.8)
    assert sampled.estimate == pytest.approx(0.8)
    assert sampled.interval[1] - sampled.interval[0] < picked.interval[1] - picked.interval[0]


def test_more_labels_narrow_it_down() -> None:
    widths: list[float] = []
    for times in (1, 2, 4, 20):
        low, high = said(corrected_rate(labels(36 * times, 40 * times, 8 * times, 10 * times),
                                        380, 500)).interval  # fmt: skip
        widths.append(high - low)

    assert widths == sorted(widths, reverse=True)
    low, high = wilson(380, 500)
    assert widths[-1] > (high - low) / 0.7 * 0.99  # never surer than with all labels in the world


@pytest.mark.parametrize(
    ("known", "passed", "judged", "same_traffic", "words"),
    [
        (labels(45, 50, 0, 0), 380, 500, False, "none of the 50 labelled items is bad"),
        (labels(0, 0, 8, 10), 380, 500, False, "none of the 10 labelled items is good"),
        (labels(9, 10, 1, 2), 380, 500, False, "too few labels to tell"),
        (labels(40, 50, 10, 50), 380, 500, False, "as often as good ones"),
        (labels(45, 50, 8, 10), 0, 0, False, "decided none"),
        (labels(90, 100, 80, 100), 499, 500, False, "does not fit these records"),
        (labels(9, 10, 8, 9), 380, 500, True, "19 labels are too few"),
        (labels(72, 80, 16, 20), 250, 500, True, "no random sample of these records"),
    ],
)
def test_cannot_say(
    known: Confusion, passed: int, judged: int, same_traffic: bool, words: str
) -> None:
    found = corrected_rate(known, passed, judged, same_traffic=same_traffic)

    assert isinstance(found, CannotSay)
    assert words in found.reason


def test_no_counts() -> None:
    with pytest.raises(ValueError, match="no rate"):
        corrected_rate(labels(9, 10, 8, 10), 6, 5)
    with pytest.raises(ValueError, match="confidence"):
        corrected_rate(labels(9, 10, 8, 10), 4, 5, confidence=1.0)
    with pytest.raises(ValueError, match="no counts"):
        labels(11, 10, 8, 10)


def by_arrays(known: Confusion, passed: int, judged: int, tuning: float) -> tuple[float, float]:
    """The mean of PPI++ with a given tuning and its error, from whole arrays of 0 and 1."""
    y = np.repeat([1, 1, 0, 0], [known.good_passed, known.good_failed, *known.table[1]])
    f = np.repeat([1, 0, 1, 0], [known.good_passed, known.good_failed, *known.table[1]])
    unlabelled = np.repeat([1, 0], [passed, judged - passed])
    mean = tuning * unlabelled.mean() + (y - tuning * f).mean()
    error = math.sqrt(
        (tuning * unlabelled).var() / len(unlabelled) + (y - tuning * f).var() / len(y)
    )
    return float(mean), error


@pytest.mark.parametrize("tuning", [None, 0.0, 0.4, 1.0])
@pytest.mark.parametrize("known", [labels(72, 80, 16, 20), labels(47, 48, 1, 2)])
def test_prediction_powered(known: Confusion, tuning: float | None) -> None:
    found = prediction_powered(known, 380, 500, tuning)
    mean, error = by_arrays(known, 380, 500, found.tuning)

    assert found.estimate == pytest.approx(mean)
    ends = (max(0.0, mean - Z * error), min(1.0, mean + Z * error))
    assert found.interval == pytest.approx(ends)
    if tuning is not None:
        assert found.tuning == tuning


def test_power_tuning_is_best() -> None:
    """No other weight gives a shorter interval, up to which variance is estimated from what."""
    known = labels(72, 80, 16, 20)
    best = prediction_powered(known, 380, 500)
    low, high = best.interval
    for tenth in range(11):
        other = prediction_powered(known, 380, 500, tenth / 10).interval
        assert high - low <= (other[1] - other[0]) * 1.001
    assert prediction_powered(known, 500, 500).tuning > 0
    assert prediction_powered(labels(10, 10, 0, 10), 500, 500).tuning == 0.0


def test_prediction_powered_needs_both() -> None:
    with pytest.raises(ValueError, match="nothing to infer from"):
        prediction_powered(labels(0, 0, 0, 0), 3, 5)
    with pytest.raises(ValueError, match="nothing to infer from"):
        prediction_powered(labels(5, 6, 3, 4), 0, 0)


@pytest.mark.parametrize("same_traffic", [False, True])
def test_covers_the_truth(same_traffic: bool) -> None:
    """A small cousin of the bench: 50 labels, true rate 0.8; 95 % of 400 runs, within chance."""
    random = Random(7)

    def flips(count: int, chance: float) -> int:
        return sum(random.random() < chance for _ in range(count))

    covered = spoke = 0
    for _ in range(400):
        good = flips(50, 0.8)
        known = labels(flips(good, 0.9), good, flips(50 - good, 0.8), 50 - good)
        found = corrected_rate(known, flips(500, 0.76), 500, same_traffic=same_traffic)
        if isinstance(found, CorrectedRate):
            spoke += 1
            covered += found.interval[0] <= 0.8 <= found.interval[1]

    assert spoke >= 380
    assert 0.92 <= covered / spoke <= 0.98


def error_on_a_grid(known: Confusion, share: float) -> tuple[float, float]:
    """Rates whose labels' likelihood, at the best sensitivity that gives the share, is close.

    Of endless verdicts the share is known: rate * sensitivity + (1 - rate) * false passes. Close is
    half of 3.84 below the best, in logarithms, with `ADDED` labels of each kind as everywhere.
    """
    rates = np.linspace(0, 1, 1001)[:-1, None]
    sensitivity = np.linspace(0, 1, 4001)[None, 1:-1]
    passes = (share - rates * sensitivity) / (1 - rates)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (
            (known.good_passed + ADDED) * np.log(sensitivity)
            + (known.good_failed + ADDED) * np.log(1 - sensitivity)
            + (known.bad_passed + ADDED) * np.log(passes)
            + (known.bad_failed + ADDED) * np.log(1 - passes)
        )
    best = np.nanmax(np.where(np.isnan(found), -np.inf, found), axis=1)
    inside = rates[best >= best.max() - Z * Z / 2]
    return float(inside.min()), float(inside.max())


@pytest.mark.parametrize(
    ("known", "passed"),
    [
        (labels(180, 200, 160, 200), 20),
        (labels(18, 20, 16, 20), 32),
        (labels(18, 20, 16, 20), 38),
        (labels(45, 50, 90, 100), 8),
    ],
)
def test_the_judges_error_alone(known: Confusion, passed: int) -> None:
    """A grid finds the same; it lies inside of the interval with the verdicts' error."""
    low, high = error_on_a_grid(known, passed / 40)
    found = said(judge_error(known, passed, 40))
    assert found.interval == pytest.approx((low, high), abs=0.003)
    outer = said(corrected_rate(known, passed, 40))
    assert outer.interval[0] < found.interval[0] + 1e-3
    assert found.interval[1] < outer.interval[1] + 1e-3
    assert found.estimate == pytest.approx(outer.estimate)


def test_the_judges_error_needs_verdicts_and_fitting_labels() -> None:
    assert isinstance(judge_error(labels(18, 20, 16, 20), 0, 0), CannotSay)
    known = labels(180, 200, 160, 200)
    assert isinstance(corrected_rate(known, 2, 40), CorrectedRate)
    assert isinstance(judge_error(known, 2, 40), CannotSay)
    with pytest.raises(ValueError, match="3 of 2 is no rate"):
        judge_error(known, 3, 2)
