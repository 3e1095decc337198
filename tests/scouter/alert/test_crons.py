"""CommonCrons: expressions and due moments as the original gives them."""

import datetime

import pytest

from scouter.alert.crons import CommonCrons

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
