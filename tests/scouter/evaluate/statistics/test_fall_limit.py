"""The largest fall that is not ruled out: by hand, against scipy, and how often it covers."""

from random import Random

import pytest
import scipy.stats as reference
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.statistics.fall_limit import fall_limit, highest_rate


@pytest.mark.parametrize(
    ("scenarios", "limit"),
    [(20, 0.139108), (30, 0.095034), (1, 0.95), (59, 0.049508)],
)
def test_nothing_fell(scenarios: int, limit: float) -> None:
    """(1 - limit) ** n = 0.05: so rarely would a fall of this size hit none of n."""
    assert fall_limit(0, 0, scenarios) == pytest.approx(limit, abs=1e-6)
    assert (1 - limit) ** scenarios == pytest.approx(0.05, abs=1e-4)


@given(st.floats(0, 40), st.integers(1, 40))
def test_clopper_pearson_against_scipy(count: float, total: int) -> None:
    if count >= total:
        assert highest_rate(count, total) == 1
        return
    expected = float(reference.beta.ppf(0.95, count + 1, total - count))
    assert highest_rate(count, total) == pytest.approx(expected, abs=1e-9)


@given(st.integers(1, 60), st.data())
def test_above_what_was_seen_and_monotone(scenarios: int, data: st.DataObject) -> None:
    fell = data.draw(st.floats(0, scenarios))
    rose = data.draw(st.floats(0, scenarios - fell))
    limit = fall_limit(fell, rose, scenarios)
    assert max(0, (fell - rose) / scenarios) - 1e-9 <= limit <= 1
    less = data.draw(st.floats(0, fell))
    assert fall_limit(less, rose, scenarios) <= limit + 1e-9


def test_without_scenarios() -> None:
    assert fall_limit(0, 0, 0) == 1


def test_level_is_checked() -> None:
    with pytest.raises(ValueError, match=r"confidence is 1\.5"):
        fall_limit(0, 0, 20, 1.5)


@pytest.mark.parametrize(("tries", "broken"), [(1, 0), (1, 2), (3, 0), (3, 2), (3, 4)])
def test_coverage(tries: int, broken: int) -> None:
    """The true fall of a flaky agent's rate lies below the limit in 95 % of cases, nearly."""
    random = Random(100 * tries + broken)
    rates = [0.99] * 14 + [0.85] * 4 + [0.5] * 2
    true_fall = sum(rates[:broken]) / len(rates)
    covered = 0
    for _ in range(400):
        fell = rose = 0.0
        for at, rate in enumerate(rates):
            was = sum(random.random() < rate for _ in range(tries)) / tries
            now = sum(random.random() < (0 if at < broken else rate) for _ in range(tries)) / tries
            fell, rose = fell + max(was - now, 0), rose + max(now - was, 0)
        covered += true_fall <= fall_limit(fell, rose, len(rates))
    assert covered >= 400 * 0.94 - 2 * (400 * 0.94 * 0.06) ** 0.5
