"""Alerts before two days are known: each may be the time of day, and the second day says so."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.alerts.alert import DriftAlertState, evidence
from scouter.evaluate.outcome import Outcome
from tests.collector.alerts.test_watcher import START, Watch

HOUR_NS = 3_600 * 10**9

AN_HOUR = 60
SURE = "it may be the time of day, as two days are not known yet"


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    found = Watch(tmp_path)
    yield found
    found.store.close()


def hours(watch: Watch, begin: int, end: int, failed: Callable[[int], int]) -> None:
    """Store the results of hours, of 60 records each, and take them.

    Args:
        watch: Takes them.
        begin: First hour, from that of the first record on.
        end: The hour behind the last one.
        failed: Records of an hour that fail, one of which is every so often.
    """
    for hour in range(begin, end):
        watch.now_ns = START + hour * HOUR_NS
        every = AN_HOUR // failed(hour)
        outcomes = [Outcome.PASSED if at % every else Outcome.FAILED for at in range(AN_HOUR)]
        watch.store_results(outcomes, created_ns=watch.now_ns)
        watch.take()


def night(hour: int) -> int:
    """3 of 60 fail by day, from 8 to 20 o'clock, and 12 at night."""
    return 12 if hour % 24 >= 12 else 3


def test_a_night_may_be_the_time_of_day_and_ends_with_the_second_day(watch: Watch) -> None:
    hours(watch, 0, 24, night)
    (alert,) = watch.alerts
    assert alert.opened.first_days
    assert SURE in evidence(alert.opened, alert.kind)
    assert "its first days are not over" in alert.opened.against
    hours(watch, 24, 48, night)
    assert [each.state for each in watch.alerts] == [DriftAlertState.FIRING]
    watch.crash()
    hours(watch, 48, 49, night)
    assert watch.alerts == []
    last = watch.reported[-1]
    assert (last.state, last.by) == (DriftAlertState.RESOLVED, "")
    assert last.note == (
        "two days show that this is usual: 95.0% from 08:00 to 20:00 UTC, 80.0% at other times"
    )
    before = len(watch.reported)
    hours(watch, 49, 120, night)
    assert len(watch.reported) == before, "no night is a fall any more"
    hours(watch, 120, 126, lambda hour: 12)
    (alert,) = watch.alerts
    assert not alert.opened.first_days, "a day as bad as a night is one"


def test_a_fall_that_stays_is_no_time_of_day(watch: Watch) -> None:
    def failed(hour: int) -> int:
        return 3 if hour < 20 else 12

    hours(watch, 0, 48, failed)
    (first,) = watch.alerts
    assert first.opened.first_days
    hours(watch, 48, 49, failed)
    (alert,) = watch.alerts
    assert alert.alert_id == first.alert_id
    assert (alert.state, alert.opened.first_days) == (DriftAlertState.FIRING, False)
    assert alert.note == "two days are known: it is not the time of day"
    assert SURE not in evidence(alert.opened, alert.kind)
    changes = dict.fromkeys((each.state, each.note, each.changed_ns) for each in watch.reported)
    assert [change[:2] for change in changes] == [
        (DriftAlertState.FIRING, ""), (DriftAlertState.FIRING, alert.note),
    ]  # fmt: skip
    watch.crash()
    hours(watch, 49, 60, failed)
    assert [each.alert_id for each in watch.alerts] == [first.alert_id]


def test_who_looks_after_an_alert_of_the_first_days_goes_on_to(watch: Watch) -> None:
    def failed(hour: int) -> int:
        return 3 if hour < 20 else 12

    hours(watch, 0, 30, failed)
    (first,) = watch.alerts
    watch.act(first.alert_id, DriftAlertState.ACKNOWLEDGED, by="ann", note="the search")
    before = len(watch.reported)
    hours(watch, 30, 50, failed)
    (alert,) = watch.alerts
    assert (alert.state, alert.by, alert.note) == (
        DriftAlertState.ACKNOWLEDGED, "ann", "the search",
    )  # fmt: skip
    assert not alert.opened.first_days
    assert all(each.state is alert.state for each in watch.reported[before:])
