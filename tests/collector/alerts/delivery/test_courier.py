"""Deliveries from a real store to a real HTTP server: each state at least once, seldom twice."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from collector.alerts.alert import DriftAlert, DriftAlertState
from collector.alerts.delivery import post
from collector.alerts.delivery.alertmanager import AlertmanagerChannel
from collector.alerts.delivery.channel import Channel
from collector.alerts.delivery.courier import GIVE_UP_S, Courier
from collector.alerts.delivery.delivery import Delivery
from collector.alerts.delivery.measures import DeliveryMeasures
from collector.alerts.delivery.notice import notice_of
from collector.alerts.delivery.slack import SlackChannel
from collector.alerts.delivery.webhook import WebhookChannel
from collector.store.alerts import DeliveryState
from collector.store.rows import TaskRow
from scouter.drift.series.series import Kind
from scouter.errors import TransientError
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import SPACE, TRACE, evaluation
from tests.support.alert_notices import START_NS, drift_alert, trouble_alert
from tests.support.far_side import dripping, far_side, head
from tests.support.processes import wait_until
from tests.support.served import Say, Script, run_script
from tests.support.store_appends import AppendingStore

State = DriftAlertState


class Round:
    """A store, a far side, and couriers that come one after the other, stepped by hand."""

    def __init__(self, folder: Path, script: Script) -> None:
        self.store = AppendingStore(folder)
        self.script = script
        self.ticks_s = 1_000.0
        self.alerts: dict[str, DriftAlert] = {}
        self.registry = CollectorRegistry()
        self.open_channel("webhook")

    def open_channel(self, name: str) -> None:
        url = self.script.url
        channels: dict[str, Channel] = {
            "webhook": WebhookChannel(SecretStr(f"{url}/hook")),
            "slack": SlackChannel(SecretStr(f"{url}/hook")),
            "alertmanager": AlertmanagerChannel(url, None, 60, self.now_ns),
        }
        self.channel = channels[name]
        self.restart()

    def now_ns(self) -> int:
        return START_NS + int(self.ticks_s * 1e9)

    def restart(self) -> None:
        """A new process: nothing but the store is left."""
        self.registry = CollectorRegistry()
        self.courier = Courier(
            self.channel, self.store, lambda alert: notice_of(self.store, alert, "https://s"),
            DeliveryMeasures(self.registry), now_ns=self.now_ns, ticks_s=lambda: self.ticks_s,
        )  # fmt: skip
        self.courier.load()

    def change(self, alert_id: str, state: State, **fields: Any) -> None:
        """Keep a state of an alert, as the watcher does, and tell the courier."""
        self.ticks_s += 1
        before = self.alerts.get(alert_id) or drift_alert(alert_id, **fields)
        now = {"state": state, "changed_ns": self.now_ns()}
        self.alerts[alert_id] = before.model_copy(update=now | fields)
        self.store.save_drift([], [self.alerts[alert_id].event()])
        self.courier.wake()

    def run(self, *answers: int) -> list[tuple[str, str]]:
        """Answer so many requests, and see that there is no further one; what was sent."""
        before = len(self.script.asked)
        self.script.answers = [Say(status, "said") for status in answers]
        while self.courier.step() == 0:
            pass
        assert self.script.answers == []
        return [(each.body["alert_id"], each.body["event"]) for each in self.script.asked[before:]]

    def log(self, alert_id: str = "a") -> list[tuple[str, str, int]]:
        """The deliveries of an alert, as the store has them."""
        found = self.store.deliveries_of(SPACE, alert_id)
        return [(each.alert_state, each.state.value, each.attempts) for each in found]


@pytest.fixture
def script() -> Iterator[Script]:
    with run_script() as running:
        yield running


@pytest.fixture
def round_(tmp_path: Path, script: Script) -> Iterator[Round]:
    found = Round(tmp_path, script)
    yield found
    found.channel.close()
    found.store.close()


def test_an_alert_and_its_end_are_sent_once(round_: Round) -> None:
    round_.change("a", State.FIRING)
    assert round_.run(200) == [("a", "firing")]
    assert round_.run() == []
    round_.change("a", State.RESOLVED, note="recovered")
    assert round_.run(200) == [("a", "resolved")]
    round_.restart()
    assert round_.run() == []
    assert round_.log() == [("firing", "sent", 1), ("resolved", "sent", 1)]
    assert round_.store.deliveries_of(SPACE, "a")[0].answer == 'status 200: "said"'
    sample = {"channel": "webhook", "outcome": "sent"}
    assert round_.registry.get_sample_value("scouter_alert_deliveries_total", sample) is None


@pytest.mark.parametrize("state", [State.SHADOW, State.SILENCED, State.ACKNOWLEDGED])
def test_these_are_sent_to_nobody(round_: Round, state: State) -> None:
    round_.change("a", state)
    assert round_.run() == []
    round_.change("a", State.RESOLVED)
    assert (round_.run(), round_.log()) == ([], [])


def test_what_a_person_does_is_sent_to_those_who_take_it(round_: Round, script: Script) -> None:
    """Once, sent again while the far side is busy, and stored."""
    round_.change("a", State.FIRING)
    assert round_.run(200) == [("a", "firing")]
    round_.change("a", State.ACKNOWLEDGED, by="ada", note="on it")
    script.answers = [Say(503)]
    assert round_.courier.step() == 1.0
    round_.restart()
    assert round_.run(200) == [("a", "acknowledged")]
    assert (script.asked[-1].body["by"], script.asked[-1].body["note"]) == ("ada", "on it")
    round_.change("a", State.SILENCED, silenced_until_ns=START_NS + 3_600 * 10**9)
    assert round_.run(200) == [("a", "silenced")]
    assert script.asked[-1].body["silenced_until"] == "2027-01-15T09:00:00Z"
    round_.change("a", State.FIRING, silenced_until_ns=None)
    assert round_.run(200) == [("a", "firing")]
    round_.restart()
    assert round_.run() == []
    assert round_.log() == [
        ("firing", "sent", 1), ("acknowledged", "sent", 2), ("silenced", "sent", 1),
        ("firing", "sent", 1),
    ]  # fmt: skip


def test_an_act_on_what_the_far_side_may_have_is_sent(round_: Round, script: Script) -> None:
    """The message that it fires failed, perhaps behind the far side; only the latest is sent."""
    round_.change("a", State.FIRING)
    script.answers = [Say(503)]
    round_.courier.step()
    round_.change("a", State.ACKNOWLEDGED)
    round_.ticks_s += 60
    assert round_.run(200) == [("a", "acknowledged")]
    round_.change("a", State.RESOLVED)
    assert round_.run(200) == [("a", "resolved")]


def test_a_silence_that_is_over_is_sent_to_slack_and_an_acknowledgement_is_not(
    round_: Round, script: Script
) -> None:
    round_.open_channel("slack")

    def sent(count: int) -> int:
        """Messages that come, each a second behind the other."""
        before, script.answers = len(script.asked), [Say(200)] * count
        round_.ticks_s += 1
        while round_.courier.step() == 0:
            pass
        return len(script.asked) - before

    round_.change("a", State.FIRING)
    assert sent(1) == 1
    round_.change("a", State.SILENCED)
    assert sent(0) == 0
    round_.change("a", State.FIRING)
    assert sent(1) == 1
    round_.change("a", State.ACKNOWLEDGED)
    assert sent(0) == 0
    round_.change("a", State.RESOLVED)
    assert sent(1) == 1


def test_a_far_side_that_is_busy_gets_it_again(round_: Round, script: Script) -> None:
    round_.change("a", State.FIRING)
    script.answers = [Say(503, "busy")]
    assert round_.courier.step() == 1
    assert round_.log() == [("firing", "waiting", 1)]
    assert round_.courier.step() == 1
    assert len(script.asked) == 1
    round_.ticks_s += 1
    script.answers = [Say(429, "slow", {"Retry-After": "30"})]
    assert round_.courier.step() == 30
    round_.ticks_s += 29
    assert round_.courier.step() == 1
    round_.ticks_s += 1
    assert round_.run(200) == [("a", "firing")]
    assert round_.log() == [("firing", "sent", 3)]
    failures = "scouter_alert_delivery_failures_total"
    assert round_.registry.get_sample_value(failures, {"channel": "webhook"}) == 2


def test_waits_double_to_a_bound_and_end_in_giving_up(round_: Round, script: Script) -> None:
    round_.change("a", State.FIRING)
    waits: list[float] = []
    started_s = round_.ticks_s
    while round_.log() != [("firing", "given_up", len(waits))]:
        assert round_.ticks_s - started_s < GIVE_UP_S + 600
        script.answers = [Say(500, "no")]
        waits.append(round_.courier.step())
        # It comes late after the eighth, as on a busy machine: the six hours are 40 steps, not 360.
        round_.ticks_s += waits[-1] if len(waits) < 8 else 600
    assert waits[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert round_.ticks_s - started_s >= GIVE_UP_S
    assert round_.run() == []
    round_.change("a", State.RESOLVED)
    assert round_.run(200) == [("a", "resolved")]  # it may have opened an incident after all


def test_a_refused_message_holds_up_no_other(round_: Round) -> None:
    round_.change("a", State.FIRING)
    round_.change("b", State.FIRING)
    assert round_.run(400, 200) == [("a", "firing"), ("b", "firing")]
    assert (round_.log("a"), round_.log("b")) == (
        [("firing", "given_up", 1)], [("firing", "sent", 1)],
    )  # fmt: skip
    round_.restart()  # with a better key, maybe
    assert round_.run(200) == [("a", "firing")]


def test_one_that_always_fails_lets_others_pass(round_: Round, script: Script) -> None:
    round_.change("a", State.FIRING)
    round_.change("b", State.FIRING)
    script.answers = [Say(500)]
    assert round_.courier.step() == 1
    round_.ticks_s += 1
    script.answers = [Say(200), Say(500)]
    assert round_.courier.step() == 0
    assert script.asked[-1].body["alert_id"] == "b"
    round_.courier.step()
    assert script.asked[-1].body["alert_id"] == "a"


@pytest.mark.parametrize("has_come", [True, False])
def test_a_crash_before_the_answer_is_survived(
    round_: Round, script: Script, monkeypatch: pytest.MonkeyPatch, has_come: bool
) -> None:
    """The alert is sent again with the same key, or, if it is over by then, its end is."""
    round_.change("a", State.FIRING)
    with monkeypatch.context() as patch:
        patch.setattr(round_.channel, "send", _killed(round_.channel if has_come else None))
        script.answers = [Say(200)] if has_come else []
        with pytest.raises(_KilledError):
            round_.courier.step()
    assert round_.log() == [("firing", "begun", 0)]
    round_.restart()
    assert round_.run(200) == [("a", "firing")]
    keys = [each.headers["idempotency-key"] for each in script.asked]
    assert len(set(keys)) == 1
    assert len(keys) == 1 + has_come

    round_.change("b", State.FIRING)
    with monkeypatch.context() as patch:
        patch.setattr(round_.channel, "send", _killed(None))
        with pytest.raises(_KilledError):
            round_.courier.step()
    round_.change("b", State.RESOLVED)
    round_.restart()
    assert round_.run(200) == [("b", "resolved")]


class _KilledError(BaseException):
    """Ends a courier as `kill -9` does: nothing behind it runs."""


def _killed(channel: Channel | None) -> Any:
    send = None if channel is None else channel.send

    def killed(notice: Any) -> str:
        if send is not None:
            send(notice)
        raise _KilledError

    return killed


def test_nothing_is_sent_while_the_store_cannot_keep_that_it_begins(
    round_: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_.change("a", State.FIRING)

    def full(rows: object) -> None:
        raise TransientError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(round_.store, "append_deliveries", full)
        with pytest.raises(TransientError):
            round_.courier.step()
    assert round_.run(200) == [("a", "firing")]


def test_slack_gets_one_message_a_second(round_: Round, script: Script) -> None:
    round_.open_channel("slack")
    round_.change("a", State.FIRING)
    round_.change("b", State.FIRING)
    script.answers = [Say(200)]
    assert round_.courier.step() == 1
    round_.ticks_s += 0.5
    assert round_.courier.step() == 0.5


def test_alertmanager_is_notified_again_while_an_alert_stands(
    round_: Round, script: Script
) -> None:
    round_.open_channel("alertmanager")

    def sent(count: int) -> list[str]:
        """Ends of the alerts in the next requests, in seconds from now."""
        before = len(script.asked)
        script.answers = [Say(200)] * count
        while round_.courier.step() == 0:
            pass
        assert script.answers == []
        return [each.body[0]["endsAt"] for each in script.asked[before:]]

    round_.change("a", State.FIRING)
    assert len(sent(2)) == 2  # the alert, and the first heartbeat
    assert sent(0) == []
    round_.ticks_s += 60
    assert len(sent(1)) == 1
    round_.change("a", State.ACKNOWLEDGED)
    round_.ticks_s += 60
    assert len(sent(1)) == 1
    round_.restart()
    assert len(sent(1)) == 1  # at once, as nobody knows how long it was down
    labels = [each.body[0]["labels"] for each in script.asked]
    assert all(each == labels[0] for each in labels)
    round_.change("a", State.SILENCED)
    round_.ticks_s += 60
    assert sent(0) == []
    round_.change("a", State.RESOLVED)
    (end,) = sent(1)
    assert end == "2027-01-15T08:19:44Z"  # 1,000 s, four changes of 1 s and three minutes
    round_.ticks_s += 60
    assert sent(0) == []
    assert round_.log() == [("firing", "sent", 1), ("resolved", "sent", 1)]


def test_a_heartbeat_that_fails_comes_again_soon(round_: Round, script: Script) -> None:
    round_.open_channel("alertmanager")
    round_.change("a", State.FIRING)
    script.answers = [Say(200)]
    assert round_.courier.step() == 0
    script.answers = [Say(503)]
    assert round_.courier.step() == 1
    round_.ticks_s += 1
    assert round_.courier.step() == 1
    round_.ticks_s += 1
    script.answers = [Say(200)]
    assert round_.courier.step() == 60


def test_one_that_always_fails_does_not_let_others_end(
    round_: Round, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_.open_channel("alertmanager")
    round_.change("a", State.FIRING)
    script.answers = [Say(200)] * 2
    while round_.courier.step() == 0:
        pass
    round_.change("b", State.FIRING)
    send, beats = round_.channel.send, list[float]()

    def only_a(notice: Any) -> str:
        if notice.alert.alert_id == "b":
            raise TransientError("b is too much for it")
        beats.append(round_.ticks_s)
        return send(notice)

    monkeypatch.setattr(round_.channel, "send", only_a)
    until_s = round_.ticks_s + 600
    while round_.ticks_s < until_s:
        script.answers = [Say(200)]
        round_.ticks_s += round_.courier.step()
    gaps = [later - earlier for earlier, later in itertools.pairwise(beats)]
    assert len(gaps) >= 5
    assert max(gaps) <= 120  # it would end after 300 s


def test_a_fault_of_ours_holds_up_no_other(round_: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    send = round_.channel.send

    def faulty(notice: Any) -> str:
        if notice.alert.alert_id == "a":
            raise ZeroDivisionError
        return send(notice)

    monkeypatch.setattr(round_.channel, "send", faulty)
    round_.change("a", State.FIRING)
    round_.change("b", State.FIRING)
    assert round_.run(200) == [("b", "firing")]
    assert round_.log() == [("firing", "given_up", 1)]


def test_examples_are_linked(round_: Round, script: Script) -> None:
    rows = [
        evaluation("u 1", Outcome.FAILED, trace_id=None),
        evaluation("u2", Outcome.FAILED, trace_id=TRACE),
    ]
    rows = [replace(row, evaluation_id=f"e{n}") for n, row in enumerate(rows)]
    round_.store.append_evaluations(rows).result()
    round_.change("a", State.FIRING, examples=("e0", "e1", "erased"))
    round_.run(200)
    found = script.asked[0].body["examples"]
    assert [each["url"] for each in found] == [
        "https://s/records/u%201", f"https://s/traces/{TRACE}",
    ]  # fmt: skip


def test_an_example_says_why_its_task_erred(round_: Round) -> None:
    """Of the task that the alert is about; the record's other one has another reason."""
    tasks = [
        TaskRow(task_id=name, task_type="Assertion", outcome=Outcome.ERRORED, reason=reason)
        for name, reason in (("a", "type"), ("right", "missing_path"))
    ]
    row = replace(evaluation("u1", Outcome.ERRORED, tuple(tasks)), evaluation_id="e0")
    round_.store.append_evaluations([row]).result()

    def said(**fields: Any) -> str:
        figures = drift_alert().opened.model_copy(update={"mean": 0.5})
        alert = drift_alert(examples=("e0",), opened=figures, **fields)
        (line,) = [each for each in notice_of(round_.store, alert).lines() if "record u1" in each]
        return line.partition(":")[0]

    assert said(kind=Kind.ERROR) == "errored (missing_path)"
    assert said(kind=Kind.ERROR, task="") == "errored (type)"
    assert said(kind=Kind.SCORE, task="other") == "low score"
    assert said(kind=Kind.PASS, task="other") == "failed"


def test_threads_tell_and_end(round_: Round, script: Script) -> None:
    """A channel whose far side hangs holds up neither the other nor the one who tells of alerts."""
    with run_script() as hanging:
        hanging.answers = [Say(200, delay_s=2)]
        script.answers = [Say(200)]
        channels = [
            SlackChannel(SecretStr(f"{hanging.url}/hook")),
            WebhookChannel(SecretStr(f"{script.url}/hook")),
        ]
        delivery = Delivery(channels, round_.store, CollectorRegistry())
        delivery.start()
        round_.change("a", State.FIRING)
        delivery.changed([round_.alerts["a"]])

        def states() -> dict[str, DeliveryState]:
            return {e.channel: e.state for e in round_.store.deliveries_of(SPACE, "a")}

        wait_until(lambda: len(states()) == 2, what="both began")
        wait_until(lambda: states()["webhook"] is DeliveryState.SENT, what="one is done")
        delivery.stop()
        assert states() == {"slack": DeliveryState.SENT, "webhook": DeliveryState.SENT}


def test_a_far_side_that_drips_does_not_keep_a_stop(
    round_: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then, for ever: the message was taken, and each channel ends by itself."""
    monkeypatch.setattr(post, "TIMEOUT_S", 1.0)
    start = head("Content-Length: 1000000")
    with far_side(dripping(start)) as one, far_side(dripping(start)) as other:
        secrets = [SecretStr(f"{each.url}/hook") for each in (one, other)]
        channels = [SlackChannel(secrets[0]), WebhookChannel(secrets[1])]
        delivery = Delivery(channels, round_.store, CollectorRegistry())
        delivery.start()
        round_.change("a", State.FIRING)
        delivery.changed([round_.alerts["a"]])
        wait_until(lambda: one.sent > len(start) < other.sent, what="both drip")
        delivery.stop()

    sent = {e.channel: e.state for e in round_.store.deliveries_of(SPACE, "a")}
    assert sent == {"slack": DeliveryState.SENT, "webhook": DeliveryState.SENT}


def test_trouble_and_its_end_are_sent_as_alerts_are(round_: Round) -> None:
    sent = trouble_alert("t")
    round_.store.save_drift([], [sent.event()])
    round_.courier.wake()
    assert round_.run(200) == [("t", "firing")]
    round_.restart()
    over = sent.model_copy(update={"state": State.RESOLVED, "changed_ns": START_NS + 1})
    round_.store.save_drift([], [over.event()])
    round_.courier.wake()
    assert round_.run(200) == [("t", "resolved")]
    assert round_.log("t") == [("firing", "sent", 1), ("resolved", "sent", 1)]
