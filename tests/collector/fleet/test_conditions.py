"""The conditions of profiles in a fleet: each result counts once, whoever stored it."""

from collections.abc import Iterator
from typing import Final

import pytest

from collector.alerts.conditions import AlertMonitor
from collector.fleet.api import FleetConditions
from collector.fleet.share import Share
from collector.fleet.store import FleetStore
from collector.store.commit import Commit
from collector.store.rows import AlertState
from scouter.alert.config import AgentAlertConfig, AlertCondition, AlertThreshold
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.contracts.store_data import SPACE, evaluation

CONDITION: Final = AlertCondition(0.8, AlertThreshold.Below, 0.05)
ALERT: Final = AgentAlertConfig(alert_condition=CONDITION, window=1_000, min_samples=20)
PROFILE: Final = AgentEvalProfile(
    [AssertionTask("t", "x", 1, "Equals")], AgentEvalConfig(alert_config=ALERT), alias="bot"
)


@pytest.fixture
def share(fleet: FleetStore) -> Iterator[Share]:
    share = fleet.take(0, "worker")
    yield share
    share.close()


def made(share: Share, prefix: str, outcome: Outcome, number: int = 15) -> None:
    rows = [evaluation(f"{prefix}{n}", outcome, profile_uid=PROFILE.uid) for n in range(number)]
    share.commit(Commit(evaluations=rows))


def shown(monitor: AlertMonitor) -> tuple[int, int, AlertState]:
    (status,) = monitor.statuses()
    return status.passed, status.n, status.state


def test_what_was_stored_before_a_profile_is_watched_counts_once(
    fleet: FleetStore, share: Share
) -> None:
    """As records that waited for it are evaluated before the api has heard of the profile."""
    monitor = AlertMonitor(fleet)
    conditions = FleetConditions(fleet, monitor)
    conditions.follow([])
    made(share, "early", Outcome.FAILED)
    conditions.follow([(SPACE, PROFILE)])
    conditions.look()
    assert shown(monitor) == (0, 15, AlertState.INACTIVE)
    made(share, "later", Outcome.PASSED)
    conditions.follow([(SPACE, PROFILE)])
    assert shown(monitor) == (15, 30, AlertState.FIRING)
    conditions.look()
    assert shown(monitor) == (15, 30, AlertState.FIRING)


def test_who_takes_the_duties_over_goes_on_with_what_became_of_an_alert(
    fleet: FleetStore, share: Share
) -> None:
    """Also with what became of it after its own start: a person has ended it."""
    first, second = AlertMonitor(fleet), AlertMonitor(fleet)
    one = FleetConditions(fleet, first)
    one.follow([(SPACE, PROFILE)])
    made(share, "bad", Outcome.FAILED, 20)
    one.look()
    assert shown(first) == (0, 20, AlertState.FIRING)
    first.resolve(SPACE, PROFILE.uid)
    FleetConditions(fleet, second).follow([(SPACE, PROFILE)])
    assert shown(second) == (0, 0, AlertState.RESOLVED)


def test_who_stands_by_shows_what_holds_and_changes_nothing(
    fleet: FleetStore, share: Share
) -> None:
    """Once it has the duties, it counts each result once."""
    first, second = AlertMonitor(fleet), AlertMonitor(fleet)
    one = FleetConditions(fleet, first)
    one.follow([(SPACE, PROFILE)])
    made(share, "bad", Outcome.FAILED, 20)
    second.show([(SPACE, PROFILE)])
    assert shown(second) == (0, 20, AlertState.INACTIVE), "the first one has not looked yet"
    assert fleet.last_alert_events() == []
    one.look()
    second.show([(SPACE, PROFILE)])
    assert shown(second) == shown(first) == (0, 20, AlertState.FIRING)
    made(share, "good", Outcome.PASSED, 5)
    two = FleetConditions(fleet, second)
    two.follow([(SPACE, PROFILE)])
    assert shown(second) == (5, 25, AlertState.FIRING)
    two.look()
    assert shown(second) == (5, 25, AlertState.FIRING)
    second.show([])
    assert second.statuses() == []
