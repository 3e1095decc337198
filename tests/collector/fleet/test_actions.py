"""Actions on alerts in a fleet: sent by any api, carried out by the one with the duties."""

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import pytest

from collector.alerts.alert import Alert, AlertAction, DriftAlertState, Trouble, TroubleAlert
from collector.fleet.actions import FleetActions
from collector.fleet.database import open_beside
from scouter.errors import ConfigError, TransientError

ACTION: Final = AlertAction(
    space="default", alert_id="a1", state=DriftAlertState.SILENCED, by="t1", name="Ann",
    note="a \u00e4 \"quote\"", until_ns=2**60, accept=False,
)  # fmt: skip
ALERT: Final = TroubleAlert(
    alert_id="a1", space="default", alias="bot",
    state=DriftAlertState.SILENCED, opened_ns=1, changed_ns=2,
    trouble=Trouble.BEHIND, message="m", silenced_until_ns=2**60,
)  # fmt: skip
Act = Callable[[AlertAction], Alert | None]


@pytest.fixture
def sender(url: str) -> Iterator[FleetActions]:
    """Sends from an api without the duties."""
    actions = FleetActions(open_beside(url))
    yield actions
    actions.close()


@pytest.fixture
def leader(url: str) -> Iterator[FleetActions]:
    """Belongs to the api with the duties."""
    actions = FleetActions(open_beside(url))
    yield actions
    actions.close()


@contextmanager
def carried_out(leader: FleetActions, act: Act) -> Generator[None]:
    """Carry out whatever is sent, in a thread."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(0.02):
            leader.carry_out(act)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run)
        try:
            yield
        finally:
            is_over.set()
        done.result()


def test_an_action_is_carried_out_with_all_that_was_said(
    sender: FleetActions, leader: FleetActions
) -> None:
    """Once, and in the order in which it was sent; the answer is the alert."""
    seen: list[AlertAction] = []

    def act(action: AlertAction) -> Alert | None:
        seen.append(action)
        return ALERT if action.alert_id == "a1" else None

    other = ACTION.model_copy(update={"alert_id": "gone"})
    with carried_out(leader, act):
        assert sender.send(ACTION) == ALERT
        assert sender.send(other) is None
        assert sender.send(ACTION) == ALERT
    assert seen == [ACTION, other, ACTION]


def test_what_an_alert_does_not_take_is_refused_where_it_was_sent(
    sender: FleetActions, leader: FleetActions
) -> None:
    """The reason reaches the person, and the next action is carried out."""

    def act(action: AlertAction) -> Alert | None:
        if action.accept:
            raise ConfigError("alert a1 is compared with nothing")
        return ALERT

    with carried_out(leader, act):
        with pytest.raises(ConfigError, match="alert a1 is compared with nothing"):
            sender.send(ACTION.model_copy(update={"accept": True}))
        assert sender.send(ACTION) == ALERT


def test_without_the_duties_anywhere_nothing_is_changed_later(
    url: str, leader: FleetActions
) -> None:
    """A person was answered that nothing was changed: that stays so."""
    sender = FleetActions(open_beside(url), wait_s=0)
    with pytest.raises(TransientError, match="nothing was changed; send it again"):
        sender.send(ACTION)
    seen: list[AlertAction] = []
    leader.carry_out(seen.append)
    assert seen == []
    sender.close()


def test_an_action_of_an_api_that_has_ended_is_carried_out_by_nobody_later(url: str) -> None:
    """It was answered to nobody, and what was meant then may be wrong now."""

    def die(_: float) -> None:
        raise KeyboardInterrupt

    sender = FleetActions(open_beside(url), sleep=die)
    with pytest.raises(KeyboardInterrupt):
        sender.send(ACTION)
    session = open_beside(url)
    session.read("UPDATE alert_actions SET sent = sent - interval '16 s'")
    leader = FleetActions(session)
    seen: list[AlertAction] = []
    leader.carry_out(seen.append)
    assert seen == []
    session.read("UPDATE alert_actions SET sent = sent - interval '60 s'")
    leader.carry_out(seen.append)
    assert session.read("SELECT count(*) FROM alert_actions") == [(0,)]
    leader.close()
    sender.close()


def test_an_action_that_was_started_is_waited_for(url: str, leader: FleetActions) -> None:
    """A person is not answered that nothing was changed while it is changed."""
    now_s, looks = [0.0], threading.Semaphore(0)

    def look(_: float) -> None:
        looks.release()

    sender = FleetActions(open_beside(url), wait_s=10.0, clock=lambda: now_s[0], sleep=look)

    def act(action: AlertAction) -> Alert | None:
        del action
        now_s[0] = 11.0
        for _ in range(1_000):
            looks.acquire()
        return ALERT

    with carried_out(leader, act):
        assert sender.send(ACTION) == ALERT
    sender.close()


def test_an_action_that_was_given_up_behind_another_is_not_carried_out(
    url: str, leader: FleetActions
) -> None:
    """It was due when the first one began."""
    session = open_beside(url)
    leader.carry_out(lambda action: None)  # makes the table
    for name in ("first", "second"):
        said = ACTION.model_copy(update={"note": name}).model_dump_json()
        session.read("INSERT INTO alert_actions (action_id, action) VALUES ($1, $2)", (name, said))
    seen: list[str] = []

    def act(action: AlertAction) -> Alert | None:
        seen.append(action.note)
        session.read("DELETE FROM alert_actions WHERE action_id = 'second'")
        return ALERT

    leader.carry_out(act)
    assert seen == ["first"]
    session.close()


def test_an_action_is_tried_again_where_the_store_took_nothing(url: str) -> None:
    session = open_beside(url)
    leader = FleetActions(session)
    leader.carry_out(lambda action: None)  # makes the table
    said = ACTION.model_dump_json()
    session.read("INSERT INTO alert_actions (action_id, action) VALUES ('a', $1)", (said,))

    def fail(action: AlertAction) -> Alert | None:
        raise TransientError(action.note)

    with pytest.raises(TransientError):
        leader.carry_out(fail)
    seen: list[AlertAction] = []
    leader.carry_out(seen.append)
    assert seen == [ACTION]
    leader.close()


def test_an_action_that_is_lost_ends_the_wait(url: str) -> None:
    """Its answer may have gone with a connection, or its row with the table."""
    now_s, session = [0.0], open_beside(url)

    def lose(_: float) -> None:
        session.read("DELETE FROM alert_actions")
        now_s[0] += 10.0

    sender = FleetActions(open_beside(url), wait_s=10.0, clock=lambda: now_s[0], sleep=lose)
    with pytest.raises(TransientError, match="see what the alert is now"):
        sender.send(ACTION)
    sender.close()
    session.close()
