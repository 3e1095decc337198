"""Alert settings: conditions, schedules and channels."""

import datetime

import pytest
from pydantic import ValidationError

from scouter.alert.config import (
    AgentAlertConfig,
    AlertCondition,
    AlertThreshold,
    CommonCrons,
    next_due,
)


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


NOW = datetime.datetime(2026, 11, 21, 18, 31, 59, 900_000, tzinfo=datetime.UTC)
"""A Saturday."""


@pytest.mark.parametrize(
    ("name", "cron", "due"),
    [
        ("Every1Minute", "0 * * * * * *", "2026-11-21 18:32:00 UTC"),
        (
            "Every5Minutes",
            "0 0,5,10,15,20,25,30,35,40,45,50,55 * * * * *",
            "2026-11-21 18:35:00 UTC",
        ),
        ("Every15Minutes", "0 0,15,30,45 * * * * *", "2026-11-21 18:45:00 UTC"),
        ("Every30Minutes", "0 0,30 * * * * *", "2026-11-21 19:00:00 UTC"),
        ("EveryHour", "0 0 * * * *", "2026-11-21 19:00:00 UTC"),
        ("Every6Hours", "0 0 */6 * * *", "2026-11-22 00:00:00 UTC"),
        ("Every12Hours", "0 0 */12 * * *", "2026-11-22 00:00:00 UTC"),
        ("EveryDay", "0 0 0 * * *", "2026-11-22 00:00:00 UTC"),
        ("EveryWeek", "0 0 0 * * SUN", "2026-11-22 00:00:00 UTC"),
    ],
)
def test_expression_and_next_moment(name: str, cron: str, due: str) -> None:
    schedule = CommonCrons[name]

    assert schedule.cron == cron
    assert str(schedule) == cron
    assert schedule.get_next(NOW) == due


def test_a_moment_that_is_due_is_not_the_next_one() -> None:
    sunday = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)

    assert CommonCrons.EveryWeek.get_next(sunday) == "2026-11-29 00:00:00 UTC"
    assert CommonCrons.EveryDay.get_next(sunday) == "2026-11-23 00:00:00 UTC"


def test_without_a_moment_it_is_the_present_one() -> None:
    before = datetime.datetime.now(datetime.UTC)
    due = CommonCrons.Every1Minute.get_next()
    after = datetime.datetime.now(datetime.UTC)

    assert due in {CommonCrons.Every1Minute.get_next(each) for each in (before, after)}


@pytest.mark.parametrize(
    ("cron", "due"),
    [
        ("0 */6 * * *", "2026-11-22T00:00:00+00:00"),
        ("45 18 * * *", "2026-11-21T18:45:00+00:00"),
        ("30 9 * * MON-FRI", "2026-11-23T09:30:00+00:00"),
        ("*/10 * * * * *", "2026-11-21T18:32:00+00:00"),
        ("0 0 12 1 1 * 2028", "2028-01-01T12:00:00+00:00"),
    ],
)
def test_five_fields_are_minutes_and_six_are_seconds(cron: str, due: str) -> None:
    assert next_due(cron, NOW).isoformat() == due


def test_a_time_of_another_zone_is_that_moment() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=5))
    assert next_due("0 * * * *", NOW.astimezone(zone)).isoformat() == "2026-11-21T19:00:00+00:00"


@pytest.mark.parametrize(
    ("cron", "what"),
    [
        ("daily", "is no cron expression; expected minute, hour, day"),
        ("* * * *", "is no cron expression; expected"),
        ("61 * * * *", "out of range; expected minute"),
        ("0 0 30 2 *", "failed to find next date"),  # the thirtieth of February
        ("H * * * *", "is no cron expression; expected"),
        ("R * * * *", "is no cron expression; expected"),
        ("", "is no cron expression; expected"),
    ],
)
def test_what_is_no_schedule_is_refused(cron: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        AgentAlertConfig(cron)
