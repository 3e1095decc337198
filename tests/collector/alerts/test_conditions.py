"""Conditions of profiles at scheduled times, from records that are sent to messages that come."""

from pathlib import Path

import pytest

from scouter.alert.condition import AlertCondition
from scouter.alert.config import AgentAlertConfig
from scouter.alert.dispatch import ConsoleDispatchConfig, Dispatch, SlackDispatchConfig
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.collector.conftest import Service, Start
from tests.support.processes import wait_until
from tests.support.served import Say, Script, run_script

EACH_SECOND = "* * * * * *"


def save(folder: Path, dispatch: Dispatch | None = None) -> Path:
    alert = AgentAlertConfig(
        EACH_SECOND, dispatch, AlertCondition(0.9, "Below", 0.1), window=20, min_samples=10
    )
    task = AssertionTask("right", "answer", 42, ComparisonOperator.Equals)
    profile = AgentEvalProfile([task], AgentEvalConfig(name="bot", alert_config=alert), alias="bot")
    return profile.save_to_json(folder / "bot.json")


def send(service: Service, answer: int) -> None:
    service.send(
        *(
            {"uid": f"{answer}-{number}", "profile": "bot", "context": {"answer": answer}}
            for number in range(20)
        )
    )


def begin(start: Start, monkeypatch: pytest.MonkeyPatch, script: Script, profile: Path) -> Service:
    monkeypatch.setenv("SCOUTER_COLLECTOR_ALERTS_WEBHOOK_URL", f"{script.url}/hook")
    script.answers = [Say(200, "ok")] * 10
    return start(profile=[str(profile)], drift="shadow")  # the detectors tell nobody


def test_people_are_told_that_it_holds_and_that_it_is_over(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_script() as script:
        service = begin(start, monkeypatch, script, save(tmp_path))
        send(service, 41)
        wait_until(lambda: len(script.asked) == 1, what="the message")
        body = script.asked[0].body
        assert body["event"] == "firing"
        assert body["title"].startswith("bot: the condition of its profile holds at ")
        assert body["title"].endswith(": pass rate below 80.0%")
        (shown,) = service.get("/api/v1/alerts")["items"]
        assert shown["state"] == "firing"
        # The same alert after a restart: it is not told again, and its end is.
        service = begin(start, monkeypatch, script, save(tmp_path))
        send(service, 42)
        wait_until(lambda: len(script.asked) == 2, what="the end")
        ended = script.asked[1].body
        assert (ended["event"], ended["dedup_key"]) == ("resolved", body["dedup_key"])
        listed = service.get("/api/v1/alerts")["drift"]
        assert [each["title"] for each in listed if each["state"] == "resolved"] == [body["title"]]


@pytest.mark.parametrize(
    ("dispatch", "is_told"), [(ConsoleDispatchConfig(), False), (SlackDispatchConfig("#c"), True)]
)
def test_a_profile_chooses_among_the_channels_that_there_are(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dispatch: Dispatch, is_told: bool
) -> None:
    """The log alone; of a channel that is not set up, all others are told instead."""
    with run_script() as script:
        service = begin(start, monkeypatch, script, save(tmp_path, dispatch))
        send(service, 41)

        def sent() -> set[str]:
            text = service.http.get("/metrics").text.splitlines()
            return {
                channel
                for channel in ("log", "webhook")
                for line in text
                if line.startswith("scouter_alert_deliveries_total")
                and f'channel="{channel}"' in line
            }

        wait_until(lambda: "log" in sent(), what="the log has it")
        if is_told:
            wait_until(lambda: sent() == {"log", "webhook"}, what="the webhook has it")
        service.collector.delivery.stop()
        assert len(script.asked) == is_told


def test_a_changed_profile_ends_the_alert_of_the_version_before(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ordinary deployment: another profile file, and a restart."""
    with run_script() as script:
        service = begin(start, monkeypatch, script, save(tmp_path))
        send(service, 41)
        wait_until(lambda: len(script.asked) == 1, what="the message")
        task = AssertionTask("wrong", "answer", 43, ComparisonOperator.Equals)
        other = AgentEvalProfile([task], AgentEvalConfig(name="bot"), alias="bot")
        begin(start, monkeypatch, script, other.save_to_json(tmp_path / "bot.json"))
        wait_until(lambda: len(script.asked) == 2, what="its end")
        assert script.asked[1].body["event"] == "resolved"
