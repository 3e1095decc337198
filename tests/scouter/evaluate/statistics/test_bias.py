"""Biases of a judge: tests of the textbooks, hand counts, and judges that are biased on purpose."""

from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scouter.evaluate.intervals import wilson
from scouter.evaluate.statistics.bias import (
    Finding,
    SizedItem,
    consistency,
    length_bias,
    leniency,
    position_bias,
)
from scouter.evaluate.statistics.confusion import Confusion


def judged(good: bool, passed: bool, *lengths: float) -> list[SizedItem]:
    return [SizedItem(is_good=good, passed=passed, length=length) for length in lengths]


def test_leniency_by_hand() -> None:
    """14 bad ones passed, 2 good ones failed: McNemar's p is 2 P(X <= 2), X ~ B(16, 1/2)."""
    found = leniency(Confusion(good_passed=60, good_failed=2, bad_passed=14, bad_failed=24))

    assert found.value == pytest.approx(0.12)
    assert found.p_value == pytest.approx(2 * (1 + 16 + 120) / 2**16)
    assert found.is_biased
    assert found.interval[0] > 0
    assert "passes more items than people do" in found.sentence


def test_strictness() -> None:
    found = leniency(Confusion(good_passed=60, good_failed=14, bad_passed=2, bad_failed=24))

    assert "passes fewer items" in found.sentence
    none = leniency(Confusion(good_passed=6, good_failed=1, bad_passed=1, bad_failed=2))
    assert not none.is_biased
    assert "about as many" in none.sentence


def test_two_tests_that_disagree_about_leniency() -> None:
    """5 of 60 fell and none rose: McNemar's p is 2 / 2**5, while Tango's interval excludes 0."""
    found = leniency(Confusion(good_passed=30, good_failed=5, bad_passed=0, bad_failed=25))
    assert found.p_value == pytest.approx(2 / 2**5)
    assert found.interval[1] < 0
    assert "may pass fewer items than people do" in found.sentence
    assert "takes it for chance (p 0.062)" in found.sentence


def test_length_by_hand() -> None:
    """The passed one is the longer in 5 of 6 pairs of good items and in 1.5 of 2 of bad ones."""
    items = [
        *judged(True, True, 5, 3, 9),
        *judged(True, False, 4, 1),
        *judged(False, True, 7),
        *judged(False, False, 7, 2),
    ]
    found = length_bias(items)

    assert found.value == pytest.approx((5 + 1.5) / 8)
    assert found.items == 8


def test_length_is_the_rank_sum_test_for_one_label() -> None:
    """Without ties and with one label the p-value is that of Mann and Whitney."""
    random = Random(3)
    passed = [random.gauss(110, 20) for _ in range(25)]
    failed = [random.gauss(95, 20) for _ in range(18)]
    found = length_bias([*judged(True, True, *passed), *judged(True, False, *failed)])
    wanted = cast("Any", stats.mannwhitneyu)(
        passed, failed, method="asymptotic", use_continuity=False
    )

    assert found.value == pytest.approx(wanted.statistic / (25 * 18))
    assert found.p_value == pytest.approx(wanted.pvalue)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 50)), max_size=60))
def test_length_laws(rows: list[tuple[bool, bool, int]]) -> None:
    """Counted pair by pair; mirrored where long becomes short; the interval agrees with p."""
    items = [SizedItem(is_good=good, passed=passed, length=size) for good, passed, size in rows]
    found = length_bias(items)
    pairs = [
        1.0 if a.length > b.length else 0.5 if a.length == b.length else 0.0
        for a in items
        for b in items
        if a.is_good == b.is_good and a.passed and not b.passed
    ]
    mirror = length_bias(
        [SizedItem(is_good=each.is_good, passed=each.passed, length=-each.length) for each in items]
    )
    if not pairs:
        assert found.value is None
        return
    assert found.value is not None
    assert found.value == pytest.approx(sum(pairs) / len(pairs))
    assert mirror.value == pytest.approx(1 - found.value)
    assert mirror.interval == pytest.approx((1 - found.interval[1], 1 - found.interval[0]))
    assert found.p_value is not None
    if abs(found.p_value - 0.05) > 1e-6:
        assert found.is_biased == (not found.interval[0] <= 0.5 <= found.interval[1])


def test_length_of_a_judge_that_likes_long_answers() -> None:
    """Its chance to pass grows with length; without that, 5 % of judges are called biased."""
    random = Random(11)

    def once(slope: float) -> Finding:
        lengths = [random.uniform(0, 1) for _ in range(120)]
        return length_bias(
            SizedItem(
                is_good=at % 3 > 0,
                passed=random.random() < (0.7 if at % 3 else 0.3) + slope * (size - 0.5),
                length=size,
            )
            for at, size in enumerate(lengths)
        )

    assert sum(once(0.0).is_biased for _ in range(400)) / 400 == pytest.approx(0.05, abs=0.03)
    assert sum(once(0.6).is_biased for _ in range(100)) > 70
    assert "prefers longer answers" in once(0.6).sentence


def test_position_by_hand() -> None:
    """Nine times the first place wins both ways, once the second, ten times the same answer."""
    pairs = [(True, True)] * 9 + [(False, False)] + [(True, False)] * 6 + [(False, True)] * 4
    found = position_bias(pairs)

    assert found.value == pytest.approx(8 / 20)
    assert found.p_value == pytest.approx(2 * (1 + 10) / 2**10)
    assert "prefers the first place" in found.sentence
    assert "10 of 20" in found.sentence
    second = position_bias([(not a, not b) for a, b in pairs])
    assert second.value == pytest.approx(-8 / 20)
    assert "prefers the second place" in second.sentence


def test_a_fair_judge_has_no_place() -> None:
    found = position_bias([(True, False), (False, True)] * 10)

    assert (found.value, found.p_value) == (0.0, 1.0)
    assert "no preference for a place" in found.sentence


def test_consistency_by_hand() -> None:
    """Three of four items are decided the same way each time; one is judged once and left out."""
    rows = [[True] * 3, [False] * 3, [True, True], [True, False, True], [True]]
    found = consistency(rows)

    assert found.value == 0.75
    assert found.interval == wilson(3, 4)
    assert found.p_value is None
    assert "3 of 4 items" in found.sentence
    assert "Fleiss' kappa" in found.sentence


def test_consistency_with_one_verdict_only_has_no_kappa() -> None:
    assert "kappa" not in consistency([[True, True], [True, True]]).sentence


@pytest.mark.parametrize(
    "found",
    [
        leniency(Confusion(good_passed=0, good_failed=0, bad_passed=0, bad_failed=0)),
        length_bias(judged(True, True, 3, 4)),
        position_bias([]),
        consistency([[True]]),
    ],
)
def test_nothing_to_look_at(found: Finding) -> None:
    assert (found.value, found.p_value, found.items, found.is_biased) == (None, None, 0, False)
    assert found.sentence
