"""Alerts of a collector that is a program: read from a real Alertmanager; after `kill -9`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until
from tests.support.prometheus_server import run_alertmanager
from tests.support.served import Say, run_script

GOOD = [42] * 9 + [41]
NOBODY = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"
BATCH = 250


def collector_with(folder: Path, *flags: str, **settings: Any) -> CollectorProcess:
    """A collector with a profile, and settings in a file, as secrets have no flag."""
    task = AssertionTask("right", "answer", 42, ComparisonOperator.Equals)
    profile = AgentEvalProfile([task], alias="answers").save_to_json(folder / "p.json")
    config = folder / "collector.yaml"
    config.write_text(yaml.safe_dump(settings))
    return CollectorProcess(folder, "--config", config, "--profile", profile, *flags)


def send(collector: CollectorProcess, answers: Sequence[int], first: int = 0) -> None:
    """Send records, one for each answer, numbered from `first` on."""
    for begin in range(0, len(answers), BATCH):
        records = [
            {"uid": f"u{first + begin + at}", "profile": "answers", "context": {"answer": answer}}
            for at, answer in enumerate(answers[begin : begin + BATCH])
        ]
        answer = httpx.post(f"{collector.url}/v1/records", json={"records": records}, timeout=120)
        assert answer.is_success, answer.text


def test_a_fall_is_read_from_a_real_alertmanager(tmp_path: Path) -> None:
    with run_alertmanager(NOBODY) as address:
        flags = ("--alerts-alertmanager", f"http://{address}", "--alerts-heartbeat-s", "200ms")
        collector = collector_with(tmp_path, *flags, public_url="https://scouter.example")

        def alerts() -> dict[str, Any]:
            found = httpx.get(f"http://{address}/api/v2/alerts", timeout=120).json()
            return {each["labels"]["task"]: each for each in found}

        collector.start()
        try:
            send(collector, [*GOOD * 100, *[42, 41] * 75])
            wait_until(lambda: set(alerts()) == {"right"}, what="it is there")
            first = alerts()["right"]
            labels = first["labels"]
            assert (labels["alertname"], labels["alias"]) == ("ScouterResultsFell", "answers")
            alert_id = first["annotations"]["alert_id"]
            assert first["generatorURL"] == f"https://scouter.example/alerts/{alert_id}"
            assert "a healthy agent fails at most" in first["annotations"]["description"]
            wait_until(
                lambda: alerts()["right"]["endsAt"] > first["endsAt"], what="it is told again"
            )
            assert alerts()["right"]["fingerprint"] == first["fingerprint"]
            name = first["annotations"]["alert_id"]
            httpx.post(f"{collector.url}/api/v1/alerts/{name}/resolve", json={}, timeout=120)
            wait_until(lambda: alerts() == {}, what="it is over")
            tested = httpx.post(
                f"{collector.url}/api/v1/alerts/test", json={"channel": "alertmanager"}, timeout=120
            )
            assert tested.json()["items"][0]["sent"], tested.text
            assert "test" in alerts()
            look = collector.get(f"/api/v1/alerts/{name}")
            told = [(e["told"], e["state"]) for e in look["deliveries"] if e["channel"] != "log"]
            assert told == [("firing", "sent"), ("resolved", "sent")]
        finally:
            collector.close()


def test_what_a_person_does_reaches_the_people_on_call(tmp_path: Path) -> None:
    """PagerDuty and a webhook follow an acknowledgement, a silence and an end by hand."""
    key = "0123456789abcdef0123456789abcdef"
    with run_script() as script:
        script.answers = [Say(202) for _ in range(20)]
        collector = collector_with(
            tmp_path, alerts_pagerduty_key=key, alerts_pagerduty_base=script.url,
            alerts_webhook_url=f"{script.url}/hook",
        )  # fmt: skip
        collector.start()

        def told(alert_id: str) -> set[str]:
            """Acts on an alert at both far sides."""
            bodies = [each.body for each in script.asked if alert_id in json.dumps(each.body)]
            return {body.get("event_action") or body["event"] for body in bodies}

        def opened() -> str:
            drift = collector.get("/api/v1/alerts")["drift"]
            return next((each["alert_id"] for each in drift if each["state"] == "firing"), "")

        def act(alert_id: str, verb: str, **said: Any) -> None:
            url = f"{collector.url}/api/v1/alerts/{alert_id}/{verb}"
            answer = httpx.post(url, json=said, timeout=120)
            assert answer.is_success, answer.text

        try:
            send(collector, [*GOOD * 100, *[42, 41] * 75])
            wait_until(lambda: len(script.asked) == 2, what="both are told of the alert")
            (first,) = (each["alert_id"] for each in collector.get("/api/v1/alerts")["drift"])
            act(first, "acknowledge", note="on it")
            acts = {"trigger", "acknowledge", "firing", "acknowledged"}
            wait_until(lambda: told(first) == acts, what="it is acknowledged there")
            act(first, "resolve")
            acts |= {"resolve", "resolved"}
            wait_until(lambda: told(first) == acts, what="it is over there")
            send(collector, [42, 41] * 75, first=1_150)  # it goes on, and alarms again
            second = wait_until(lambda: opened(), what="the next alert")
            wait_until(lambda: told(second) == {"trigger", "firing"}, what="it is told")
            act(second, "silence", seconds=3_600)
            acts = {"trigger", "resolve", "firing", "silenced"}
            wait_until(lambda: told(second) == acts, what="it is silent there")

            def kept() -> set[tuple[str, str, str]]:
                look = collector.get(f"/api/v1/alerts/{first}")["deliveries"]
                return {(each["channel"], each["told"], each["state"]) for each in look}

            wait_until(
                lambda: kept() == {
                    *((channel, state, "sent") for channel in ("pagerduty", "webhook")
                      for state in ("firing", "acknowledged", "resolved")),
                    ("log", "firing", "sent"), ("log", "resolved", "sent"),
                },
                what="each delivery is kept",
            )  # fmt: skip
        finally:
            collector.close()


@pytest.mark.parametrize("answer", [Say(503), Say(200, delay_s=1)], ids=["busy", "under way"])
def test_a_killed_collector_tells_what_it_had_to_tell(tmp_path: Path, answer: Say) -> None:
    """Killed while the far side is busy, or before its answer: told again, with the same key."""
    with run_script() as script:
        script.answers = [answer]
        collector = collector_with(tmp_path, alerts_webhook_url=f"{script.url}/s3cret")
        collector.start()
        try:
            send(collector, [*GOOD * 100, *[42, 41] * 75])
            wait_until(lambda: len(script.asked) == 1, what="the first message comes")
            collector.kill()
            script.answers = [Say(200)]
            collector.start()
            wait_until(lambda: len(script.asked) == 2, what="it is told")
            keys = [each.headers["idempotency-key"] for each in script.asked]
            assert keys[0] == keys[1]
            assert script.asked[1].body["task"] == "right"
            assert script.asked[1].body["fell_with"] == "more records fail"

            def states() -> list[str]:
                listed = collector.get("/api/v1/alerts")["drift"]
                looks = [collector.get(f"/api/v1/alerts/{e['alert_id']}") for e in listed]
                return [e["state"] for look in looks for e in look["deliveries"]]

            wait_until(lambda: states() == ["sent"] * 2, what="log and webhook have it")
        finally:
            collector.close()
        assert "s3cret" not in (tmp_path / "collector.log").read_text()
