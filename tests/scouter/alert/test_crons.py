"""CommonCrons: expressions and due moments as the original gives them."""

import datetime

import pytest

from scouter.alert.config import AgentAlertConfig
from scouter.alert.crons import CommonCrons, next_due

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
