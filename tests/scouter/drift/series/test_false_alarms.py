"""The promise, by simulation: a healthy series alarms with a chance of 1 % at most, ever.

At 1 % four alarms or more among 60 streams have a chance of 0.3 %. The long form, of 10,000
streams each, is `tests.bench.drift`.
"""

import pytest

from tests.bench.drift import delay_bound, median_delay, stays_bad
from tests.bench.drift_streams import Traffic, differing, healthy_alarms


@pytest.mark.parametrize(
    ("baseline", "turns", "correlation"),
    [(300, 1, 0.0), (1_000, 1, 0.0), (300, 5, 0.5), (300, 10, 0.5)],
)
def test_healthy_streams_seldom_alarm(baseline: int, turns: int, correlation: float) -> None:
    traffic = Traffic(0.9, turns, correlation)
    assert healthy_alarms(60, baseline, traffic, 10_000, seed=1) <= 3
    # Those streams are arrays; the product's own series alarm at the same units.
    assert differing(3, baseline, traffic, seed=1) == 0


def test_an_agent_that_stays_bad_stays_alarmed() -> None:
    """And one whose alarm a person has resolved alarms again."""
    assert stays_bad(20, 3_000, seed=1) == (0, 1)


@pytest.mark.parametrize("late", [0, 2_000])
def test_a_fall_is_seen_about_as_soon_as_it_can_be(late: int) -> None:
    """By the median of 40 streams, which is within 30 % of its mean; the bench allows 1.3 times."""
    assert median_delay(40, 0.9, 0.8, late, seed=2) <= 1.6 * delay_bound(0.9, 0.8, late)
