"""Conditions of profiles, from records that are sent to messages that come."""

from pathlib import Path
from typing import Any

import pytest

from scouter.alert.config import (
    AgentAlertConfig,
    AlertCondition,
    ConsoleDispatchConfig,
    Dispatch,
    OpsGenieDispatchConfig,
    SlackDispatchConfig,
)
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.collector.conftest import Service, Start
from tests.support.processes import wait_until
from tests.support.served import Say, Script, run_script

EACH_SECOND = "* * * * * *"


def save(
    folder: Path, dispatch: Dispatch | None = None, schedule: str | None = EACH_SECOND
) -> Path:
    alert = AgentAlertConfig(
        schedule, dispatch, AlertCondition(0.9, "Below", 0.1), window=20, min_samples=10
    )
    task = AssertionTask("right", "answer", 42, ComparisonOperator.Equals)
    profile = AgentEvalProfile([task], AgentEvalConfig(name="bot", alert_config=alert), alias="bot")
    return profile.save_to_json(folder / "bot.json")


def send(service: Service, answer: int, name: str = "") -> None:
    service.send(
        *(
            {"uid": f"{answer}{name}-{number}", "profile": "bot", "context": {"answer": answer}}
            for number in range(20)
        )
    )


def shown(service: Service) -> dict[str, Any]:
    """The state of the condition."""
    (found,) = service.get("/api/v1/alerts")["items"]
    return found


def act(service: Service, what: str, **body: Any) -> int:
    """Change the open alert about the condition; tells the status of the answer."""
    path = f"/api/v1/alerts/{shown(service)['alert_id']}/{what}"
    return service.http.post(path, json=body).status_code


GAUGE = 'scouter_alert_firing{alias="bot",profile="bot",space="default"}'


def begin(start: Start, monkeypatch: pytest.MonkeyPatch, script: Script, profile: Path) -> Service:
    monkeypatch.setenv("SCOUTER_COLLECTOR_ALERTS_WEBHOOK_URL", f"{script.url}/hook")
    script.answers = [Say(200, "ok")] * 10
    return start(profile=[str(profile)], drift="shadow")  # the detectors tell nobody


def test_people_are_notified_that_it_holds_and_that_it_is_over(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_script() as script:
        service = begin(start, monkeypatch, script, save(tmp_path))
        send(service, 41)
        wait_until(lambda: len(script.asked) == 1, what="the message")
        body = script.asked[0].body
        assert body["event"] == "firing"
        words = "bot: pass rate below 80.0%, the condition of its profile, since "
        assert body["title"].startswith(words)
        assert len({each["name"] for each in body["examples"]}) == 3
        assert {each["name"].partition("-")[0] for each in body["examples"]} == {"41"}
        assert shown(service)["state"] == "firing"
        # The same alert after a restart: it is not sent again, and its end is.
        service = begin(start, monkeypatch, script, save(tmp_path))
        send(service, 42)
        wait_until(lambda: len(script.asked) == 2, what="the end")
        ended = script.asked[1].body
        assert (ended["event"], ended["dedup_key"]) == ("resolved", body["dedup_key"])
        listed = service.get("/api/v1/alerts")["drift"]
        assert [each["title"] for each in listed if each["state"] == "resolved"] == [body["title"]]


@pytest.mark.parametrize(
    ("dispatch", "is_sent"),
    [
        (ConsoleDispatchConfig(), False),
        (SlackDispatchConfig("#c"), True),
        (OpsGenieDispatchConfig("on-call", "P1"), True),
    ],
)
def test_a_profile_chooses_among_the_channels_that_there_are(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dispatch: Dispatch, is_sent: bool
) -> None:
    """The log alone; for a channel that is not set up, or is none, all others get it."""
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
        if is_sent:
            wait_until(lambda: sent() == {"log", "webhook"}, what="the webhook has it")
        service.collector.watch.delivery.stop()
        assert len(script.asked) == is_sent


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


def test_somebody_looks_after_it_or_wants_to_hear_nothing_of_it(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The webhook follows, and neither pages by the gauge, through a restart."""

    def events_sent() -> list[str]:
        """Events so far; a state that soon was another one is left out."""
        return [each.body["event"] for each in script.asked]

    with run_script() as script:
        service = begin(start, monkeypatch, script, save(tmp_path))
        send(service, 41)
        wait_until(lambda: len(script.asked) == 1, what="the message")
        assert service.sample(GAUGE) == 1
        assert act(service, "acknowledge", note="looking at it") == 200
        wait_until(lambda: events_sent() == ["firing", "acknowledged"], what="it is acknowledged")
        service = begin(start, monkeypatch, script, save(tmp_path))
        assert (shown(service)["state"], service.sample(GAUGE)) == ("acknowledged", 0)
        assert act(service, "silence", seconds=3600) == 200
        assert (shown(service)["state"], service.sample(GAUGE)) == ("silenced", 0)
        assert act(service, "silence", seconds=0.1) == 200
        wait_until(lambda: events_sent().count("firing") == 2, what="the silence is over")
        assert set(events_sent()[2:-1]) <= {"silenced"}
        assert (shown(service)["state"], service.sample(GAUGE)) == ("firing", 1)
        look = service.get(f"/api/v1/alerts/{shown(service)['alert_id']}")
        states = [each["state"] for each in look["history"]]
        assert states == ["firing", "acknowledged", "silenced", "silenced", "firing"]
        send(service, 42)
        wait_until(lambda: events_sent()[-1] == "resolved", what="the end")
        assert (shown(service)["state"], shown(service)["alert_id"]) == ("resolved", "")


def test_what_a_person_ended_alarms_again_with_new_records(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_script() as script:
        service = begin(start, monkeypatch, script, save(tmp_path))
        send(service, 41)
        wait_until(lambda: len(script.asked) == 1, what="the message")
        assert act(service, "promote") == 409
        assert act(service, "resolve", accept=True) == 409
        assert act(service, "resolve", note="mended") == 200
        wait_until(lambda: len(script.asked) == 2, what="its end")
        assert (shown(service)["state"], shown(service)["n"]) == ("resolved", 0)
        send(service, 41, "again")
        wait_until(lambda: len(script.asked) == 3, what="another alert")
        first, end, second = (each.body for each in script.asked)
        assert [each["event"] for each in (first, end, second)] == ["firing", "resolved", "firing"]
        assert first["dedup_key"] == end["dedup_key"] != second["dedup_key"]


@pytest.mark.parametrize(
    ("dispatch", "is_sent"), [(None, False), (SlackDispatchConfig("#c"), True)]
)
def test_one_without_a_schedule_is_sent_if_its_profile_names_a_channel(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dispatch: Dispatch, is_sent: bool
) -> None:
    with run_script() as script:
        service = begin(start, monkeypatch, script, save(tmp_path, dispatch, schedule=None))
        send(service, 41)
        wait_until(lambda: shown(service)["alert_id"], what="an alert")
        listed = service.get("/api/v1/alerts")["drift"]
        assert "firing" in [each["state"] for each in listed if each["condition"]]
        if is_sent:
            wait_until(lambda: len(script.asked) == 1, what="the message")
        assert act(service, "acknowledge") == 200
        send(service, 42)
        wait_until(lambda: shown(service)["state"] == "resolved", what="the end")
        if is_sent:
            wait_until(
                lambda: script.asked[-1].body["event"] == "resolved", what="the last message"
            )
        service.collector.watch.delivery.stop()
        events = [each.body["event"] for each in script.asked]
        events = [each for each in events if each != "acknowledged"]  # the end may come before it
        assert events == (["firing", "resolved"] if is_sent else [])


def test_another_condition_is_another_alert(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks, and so the version of the profile, are the same."""
    with run_script() as script:
        service = begin(start, monkeypatch, script, save(tmp_path))
        send(service, 41)
        wait_until(lambda: len(script.asked) == 1, what="the message")
        profile = AgentEvalProfile.from_file(tmp_path / "bot.json").model_dump(mode="json")
        profile["config"]["alert_config"]["alert_condition"]["baseline_value"] = 0.7
        other = AgentEvalProfile.model_validate(profile).save_to_json(tmp_path / "other.json")
        begin(start, monkeypatch, script, other)
        wait_until(lambda: len(script.asked) == 3, what="an end and another alert")
        events = {
            each.body["title"].partition("below ")[2][:5]: each.body["event"]
            for each in script.asked
        }
        assert events == {"80.0%": "resolved", "60.0%": "firing"}
