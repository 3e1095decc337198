"""AlertCondition and AgentAlertConfig; the bounds are sums and differences done by hand."""

import pytest
from pydantic import ValidationError

from scouter.alert.condition import AlertCondition, AlertThreshold
from scouter.alert.config import AgentAlertConfig


@pytest.mark.parametrize(
    ("threshold", "value", "alert"),
    [
        ("Below", 0.84, True),
        ("Below", 0.86, False),
        ("Below", 0.99, False),
        ("Above", 0.96, True),
        ("Above", 0.94, False),
        ("Outside", 0.84, True),
        ("Outside", 0.96, True),
        ("Outside", 0.90, False),
    ],
)
def test_should_alert(threshold: str, value: float, alert: bool) -> None:
    """Healthy is 0.90 ± 0.05, so from 0.85 to 0.95."""
    condition = AlertCondition(0.90, threshold, 0.05)

    assert condition.should_alert(value) is alert


def test_the_bound_itself_is_healthy() -> None:
    """Strictly below: 0.75 - 0.25 is exactly 0.5 in binary, and 0.5 does not alert."""
    assert not AlertCondition(0.75, AlertThreshold.Below, 0.25).should_alert(0.5)
    assert not AlertCondition(0.75, AlertThreshold.Above, 0.25).should_alert(1.0)


def test_without_delta_the_baseline_is_the_bound() -> None:
    condition = AlertCondition(baseline_value=0.9, alert_threshold=AlertThreshold.Below)

    assert (condition.lower_bound(), condition.upper_bound()) == (0.9, 0.9)


@pytest.mark.parametrize(
    ("lower", "upper", "alert"), [(0.5, 0.8, True), (0.5, 0.9, False), (0.86, 0.99, False)]
)
def test_an_interval_alerts_only_as_a_whole(lower: float, upper: float, alert: bool) -> None:
    """Below 0.85: an interval that reaches 0.9 has not shown it yet."""
    condition = AlertCondition(0.90, "Below", 0.05)

    assert condition.should_alert_between(lower, upper) is alert


def test_the_condition_in_words() -> None:
    assert str(AlertCondition(0.9, "Below", 0.05)) == "pass rate below 85.0%"
    assert str(AlertCondition(0.9, "Outside", 0.05)) == "pass rate outside 85.0% to 95.0%"


@pytest.mark.parametrize("baseline", [-0.1, 1.1, float("nan")])
def test_a_rate_is_between_0_and_1(baseline: float) -> None:
    with pytest.raises(ValidationError, match="baseline_value"):
        AlertCondition(baseline, "Below")


def test_a_window_smaller_than_the_samples_is_refused() -> None:
    with pytest.raises(ValidationError, match="min_samples 20 is more than window 10"):
        AgentAlertConfig(window=10)


@pytest.mark.parametrize(
    ("value", "member"),
    [
        ("below", AlertThreshold.Below),
        ("Above", AlertThreshold.Above),
        ("OUTSIDE", AlertThreshold.Outside),
        ("x", None),
    ],
)
def test_a_side_by_its_name(value: str, member: AlertThreshold | None) -> None:
    assert AlertThreshold.from_value(value) is member
