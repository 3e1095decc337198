"""Corrected rates: published examples, exact draws, other intervals, and refusals."""

import math
from random import Random

import numpy as np
import pytest
from scipy import stats

from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.corrected_rate import (
    CannotSay,
    CorrectedRate,
    DrawnLabels,
    JudgeCounts,
    Raters,
    corrected_rate,
    judge_error,
    planned_width,
    rate_of_traffic,
    rates_of_judge,
)

Z = 1.959963984540054


def labels(good_passed: int, good: int, bad_failed: int, bad: int) -> Confusion:
    return Confusion(
        good_passed=good_passed,
        good_failed=good - good_passed,
        bad_failed=bad_failed,
        bad_passed=bad - bad_failed,
    )


def by_outcome(
    good_of_passed: tuple[int, int], good_of_failed: tuple[int, int], traffic: JudgeCounts
) -> DrawnLabels:
    """Labels drawn within the judge's outcomes: good ones and all, of each."""
    (good_passed, passed), (good_failed, failed) = good_of_passed, good_of_failed
    return DrawnLabels(
        counts=Confusion(
            good_passed=good_passed,
            good_failed=good_failed,
            bad_passed=passed - good_passed,
            bad_failed=failed - good_failed,
        ),
        traffic=traffic,
    )


def sample(counts: Confusion) -> DrawnLabels:
    return DrawnLabels(counts=counts)


def said(found: CorrectedRate | CannotSay) -> CorrectedRate:
    assert isinstance(found, CorrectedRate), found
    return found


def width(found: CorrectedRate | CannotSay) -> float:
    low, high = said(found).interval
    return high - low


def lang_reiczigel(known: Confusion, passed: int, judged: int) -> Interval:
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
    found = said(corrected_rate(sample(labels(96, 100, 89, 100)), JudgeCounts(23, 150)))

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
    found = said(corrected_rate(sample(known), JudgeCounts(passed, judged)))

    assert found.interval == pytest.approx(lang_reiczigel(known, passed, judged), abs=0.012)


def test_by_stratum() -> None:
    """By hand: 76 % passed, of which 24 of 25 are good; of the failed ones 8 of 25.

    0.76 * 0.96 + 0.24 * 0.32 = 0.8064. Sensitivity 0.7296 / 0.8064, specificity
    0.24 * 0.68 / (1 - 0.8064).
    """
    traffic = JudgeCounts(380, 500)
    drawn = by_outcome((24, 25), (8, 25), traffic)
    found = said(rate_of_traffic(drawn, traffic))

    assert found.estimate == pytest.approx(0.8064)
    judge = rates_of_judge(drawn)
    assert judge.sensitivity == pytest.approx(0.7296 / 0.8064)
    assert judge.specificity == pytest.approx(0.1632 / 0.1936)
    # on other records with the same pass rate the judge's shares give the same rate
    assert said(corrected_rate(drawn, traffic)).estimate == pytest.approx(0.8064)


def exact(drawn: DrawnLabels, now: JudgeCounts | None) -> Interval:
    """Ends of 95 % by scipy's quantiles of Jeffreys' beta distributions, 100,000 draws."""
    random = np.random.default_rng(11)
    counts = drawn.counts
    traffic = drawn.traffic or JudgeCounts(counts.passed, counts.total)

    def beta(up: float, down: float) -> np.ndarray:
        return stats.beta.ppf(random.random(100_000), up + 0.5, down + 0.5)

    good_if_passed = beta(counts.good_passed, counts.bad_passed)
    good_if_failed = beta(counts.good_failed, counts.bad_failed)
    then = beta(traffic.passed, traffic.judged - traffic.passed)
    rate = then * good_if_passed + (1 - then) * good_if_failed
    if now is not None:
        share = beta(now.passed, now.judged - now.passed)
        sensitivity = then * good_if_passed / rate
        false_passes = then * (1 - good_if_passed) / (1 - rate)
        is_seeing = sensitivity > false_passes
        rate = ((share - false_passes) / (sensitivity - false_passes))[is_seeing]
    low, high = np.quantile(np.clip(rate, 0, 1), [0.025, 0.975])
    return float(low), float(high)


@pytest.mark.parametrize(
    "drawn",
    [
        pytest.param(by_outcome((24, 25), (8, 25), JudgeCounts(380, 500)), id="halves"),
        pytest.param(by_outcome((25, 25), (17, 25), JudgeCounts(434, 500)), id="all-good"),
        pytest.param(by_outcome((90, 100), (3, 40), JudgeCounts(60, 100)), id="small-traffic"),
        pytest.param(sample(labels(36, 40, 8, 10)), id="sample"),
    ],
)
def test_exact_draws_give_the_same_ends(drawn: DrawnLabels) -> None:
    counts = drawn.counts
    traffic = drawn.traffic or JudgeCounts(counts.passed, counts.total)

    assert said(rate_of_traffic(drawn, traffic)).interval == pytest.approx(
        exact(drawn, None), abs=0.01
    )
    now = JudgeCounts(280, 400)
    assert said(corrected_rate(drawn, now)).interval == pytest.approx(exact(drawn, now), abs=0.03)


def test_half_the_width_for_the_traffic_of_the_labels() -> None:
    """50 labels drawn by outcome tell of their traffic twice as much as 50 transferred ones."""
    traffic = JudgeCounts(380, 500)
    drawn = by_outcome((24, 25), (8, 25), traffic)
    transferred = corrected_rate(sample(labels(36, 40, 8, 10)), traffic)

    assert width(rate_of_traffic(drawn, traffic)) < 0.55 * width(transferred)
    assert width(rate_of_traffic(drawn, traffic)) < width(corrected_rate(drawn, traffic))
    # the farther the judge's pass rate moves, the more hangs on sensitivity and specificity
    assert width(corrected_rate(drawn, traffic)) < width(
        corrected_rate(drawn, JudgeCounts(250, 500))
    )


def test_turns_of_one_conversation_tell_less() -> None:
    traffic = JudgeCounts(380, 500)
    counts = by_outcome((48, 50), (16, 50), traffic).counts
    alone = rate_of_traffic(DrawnLabels(counts=counts, traffic=traffic), traffic)
    half = DrawnLabels(counts=counts, traffic=traffic, effect=2.0)
    as_many = by_outcome((24, 25), (8, 25), traffic)

    assert width(rate_of_traffic(half, traffic)) == width(rate_of_traffic(as_many, traffic))
    assert width(alone) < width(rate_of_traffic(half, traffic))
    assert width(rate_of_traffic(half, JudgeCounts(380, 500, 4.0))) > width(
        rate_of_traffic(half, traffic)
    )


def test_people_who_differ_widen_the_interval() -> None:
    """18 of 100 pairs differ: people err in 10 %, so that 74 % labelled good are 80 % good."""
    traffic = JudgeCounts(380, 500)
    drawn = by_outcome((43, 50), (18, 50), traffic)
    alone = said(rate_of_traffic(drawn, traffic))
    single = DrawnLabels(counts=drawn.counts, traffic=traffic, raters=Raters(100, 18, 100))
    widened = said(rate_of_traffic(single, traffic))
    backed = DrawnLabels(counts=drawn.counts, traffic=traffic, raters=Raters(100, 18, 0))

    assert (alone.estimate, alone.interval[0]) == (widened.estimate, widened.interval[0])
    assert alone.interval[1] + 0.05 < widened.interval[1] < (alone.interval[1] - 0.1) / 0.8
    # labels with a second voice behind them are wrong in 1.2 % of the cases
    assert width(alone) < width(rate_of_traffic(backed, traffic)) < width(widened) - 0.03
    guessing = DrawnLabels(counts=drawn.counts, traffic=traffic, raters=Raters(100, 48, 100))
    found = rate_of_traffic(guessing, traffic)
    assert isinstance(found, CannotSay)
    assert "as if they guessed" in found.reason


def test_the_width_that_more_labels_would_give() -> None:
    """Foreseen from 50 labels: near to that of those there are, and to that of twice as many."""
    traffic = JudgeCounts(380, 500)
    drawn = by_outcome((24, 25), (8, 25), traffic)
    twice = by_outcome((48, 50), (16, 50), traffic)

    assert planned_width(drawn, traffic) == pytest.approx(
        width(rate_of_traffic(drawn, traffic)), abs=0.025
    )
    assert planned_width(drawn, traffic, 50) == pytest.approx(
        width(rate_of_traffic(twice, traffic)), abs=0.025
    )
    none = DrawnLabels(counts=labels(0, 0, 0, 0), traffic=traffic)
    # by hand, 25 labels of each outcome and 0.85 * 0.15 everywhere
    variance = 0.1275 / 25 * (0.76**2 + 0.24**2) + 0.7**2 * 0.76 * 0.24 / 500
    assert planned_width(none, traffic, 50) == pytest.approx(2 * Z * math.sqrt(variance))


def test_a_judge_that_is_known_to_be_right() -> None:
    """Nothing is left to correct; the interval is close to Wilson's."""
    known = sample(labels(10**7, 10**7, 10**7, 10**7))
    found = said(corrected_rate(known, JudgeCounts(400, 500)))

    assert found.estimate == pytest.approx(0.8)
    assert found.interval == pytest.approx(wilson(400, 500), abs=0.003)


@pytest.mark.parametrize(
    ("known", "passed", "judged", "words"),
    [
        (labels(45, 50, 0, 0), 380, 500, "none of the 50 labelled items is bad"),
        (labels(0, 0, 8, 10), 380, 500, "none of the 10 labelled items is good"),
        (labels(9, 10, 1, 2), 380, 500, "too few labels to tell"),
        (labels(40, 50, 10, 50), 380, 500, "as often as good ones"),
        (labels(45, 50, 8, 10), 0, 0, "decided none"),
        (labels(90, 100, 80, 100), 499, 500, "does not fit these records"),
    ],
)
def test_cannot_say_of_other_traffic(
    known: Confusion, passed: int, judged: int, words: str
) -> None:
    found = corrected_rate(sample(known), JudgeCounts(passed, judged))

    assert isinstance(found, CannotSay)
    assert words in found.reason


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (labels(18, 20, 8, 9), "29 labels are too few"),
        (labels(30, 30, 0, 10), "none of the 120 records that the judge failed has a label"),
        (labels(0, 30, 10, 10), "none of the 380 records that the judge passed has a label"),
    ],
)
def test_cannot_say_of_their_own_traffic(known: Confusion, words: str) -> None:
    found = rate_of_traffic(sample(known), JudgeCounts(380, 500))

    assert isinstance(found, CannotSay)
    assert words in found.reason


def test_no_counts() -> None:
    with pytest.raises(ValueError, match="no rate"):
        corrected_rate(sample(labels(9, 10, 8, 10)), JudgeCounts(6, 5))
    with pytest.raises(ValueError, match="confidence"):
        rate_of_traffic(sample(labels(9, 10, 8, 10)), JudgeCounts(4, 5), confidence=1.0)
    with pytest.raises(ValueError, match="no counts"):
        labels(11, 10, 8, 10)


@pytest.mark.parametrize("design", ["outcome", "sample", "transferred"])
def test_covers_the_truth(design: str) -> None:
    """A small cousin of the bench: 50 labels, true rate 0.8; 95 % of 60 runs, within chance."""
    random = Random(7)

    def flips(count: int, chance: float) -> int:
        return sum(random.random() < chance for _ in range(count))

    covered = spoke = 0
    for _ in range(60):
        now = JudgeCounts(flips(500, 0.76), 500)
        if design == "outcome":
            drawn = by_outcome((flips(25, 0.72 / 0.76), 25), (flips(25, 0.08 / 0.24), 25), now)
        else:
            good = flips(50, 0.8)
            drawn = sample(labels(flips(good, 0.9), good, flips(50 - good, 0.8), 50 - good))
        found = (corrected_rate if design == "transferred" else rate_of_traffic)(drawn, now)
        if isinstance(found, CorrectedRate):
            spoke += 1
            covered += found.interval[0] <= 0.8 <= found.interval[1]

    assert spoke >= 57
    assert covered / spoke >= 0.95 - 2 * math.sqrt(0.05 * 0.95 / 60)


def test_the_judges_error_alone() -> None:
    """Of endless answers only the labels' error is left: the same as of very many."""
    for drawn, passed in (
        (sample(labels(180, 200, 160, 200)), 20),
        (sample(labels(18, 20, 16, 20)), 32),
        (by_outcome((24, 25), (8, 25), JudgeCounts(380, 500)), 30),
    ):
        found = said(judge_error(drawn, JudgeCounts(passed, 40)))
        many = said(corrected_rate(drawn, JudgeCounts(passed * 10**6, 40 * 10**6)))
        outer = said(corrected_rate(drawn, JudgeCounts(passed, 40)))
        assert found.interval == pytest.approx(many.interval, abs=1e-3)
        assert outer.interval[0] < found.interval[0]
        assert found.interval[1] < outer.interval[1] or outer.interval[1] == 1
        assert found.estimate == outer.estimate


def test_the_judges_error_needs_answers_and_fitting_labels() -> None:
    assert isinstance(judge_error(sample(labels(18, 20, 16, 20)), JudgeCounts(0, 0)), CannotSay)
    known = sample(labels(180, 200, 160, 200))
    assert isinstance(corrected_rate(known, JudgeCounts(2, 40)), CorrectedRate)
    assert isinstance(judge_error(known, JudgeCounts(2, 40)), CannotSay)
    with pytest.raises(ValueError, match="3 of 2 is no rate"):
        judge_error(known, JudgeCounts(3, 2))
