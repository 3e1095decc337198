"""The four counts, and what is made of them."""

import pytest

from scouter.evaluate.intervals import wilson
from scouter.evaluate.statistics.confusion import Confusion


def test_rates_by_hand() -> None:
    found = Confusion(good_passed=45, good_failed=5, bad_passed=4, bad_failed=16)

    assert (found.good, found.bad, found.total, found.passed) == (50, 20, 70, 49)
    assert (found.sensitivity, found.specificity) == (0.9, 0.8)
    assert found.youden == pytest.approx(0.7)
    assert found.accuracy == pytest.approx(61 / 70)
    assert found.table == ((45, 5), (4, 16))
    assert found.sensitivity_interval() == wilson(45, 50)
    assert found.specificity_interval() == wilson(16, 20)
    assert found.accuracy_interval(0.9) == wilson(61, 70, 0.9)


def test_youden_interval_as_published() -> None:
    """A difference of two rates: 56/70 - 48/80, Newcombe 1998, table II, method 10."""
    found = Confusion(good_passed=56, good_failed=14, bad_passed=48, bad_failed=32)

    assert found.youden == pytest.approx(0.2)
    assert found.youden_interval() == pytest.approx((0.0524, 0.3339), abs=1.5e-4)


def test_nothing_labelled() -> None:
    found = Confusion(good_passed=0, good_failed=0, bad_passed=0, bad_failed=0)

    assert found.sensitivity is found.specificity is found.accuracy is found.youden is None
    assert found.sensitivity_interval() == (0.0, 1.0)


def test_negative_counts() -> None:
    with pytest.raises(ValueError, match="no counts"):
        Confusion(good_passed=1, good_failed=-1, bad_passed=0, bad_failed=0)
