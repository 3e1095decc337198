"""Everything at once against an open alert of a collector that is a program.

Its date goes back by hours, it is killed, its webhook is busy, records come twice, and its profile
is pushed again: the one alert about task and record is opened, told and ended, once.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from scouter.drift.config import AgentEvalConfig, Healthy
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.support.jumping_collector import JumpingCollector
from tests.support.processes import wait_until
from tests.support.served import Say, Script, run_script

GOOD = [42] * 9 + [41]
HOUR = 3_600


def profile(path: str = "answer", *, config: AgentEvalConfig | None = None) -> AgentEvalProfile:
    task = AssertionTask("right", path, 42, ComparisonOperator.Equals)
    return AgentEvalProfile([task], config, alias="answers")


def push(collector: JumpingCollector, folder: Path, pushed: AgentEvalProfile) -> None:
    body = json.loads(pushed.save_to_json(folder / "pushed.json").read_text())
    answer = httpx.post(f"{collector.url}/api/v1/profiles?activate=true", json=body, timeout=120)
    assert answer.is_success, answer.text


def send(collector: JumpingCollector, answers: Sequence[int], first: int = 0) -> dict[str, Any]:
    """Send records, numbered from `first` on; the sum of what became of them."""
    found = {"accepted": 0, "duplicates": 0}
    for start in range(0, len(answers), 250):
        records = [
            {"uid": f"u{first + start + at}", "profile": "answers", "context": {"answer": answer}}
            for at, answer in enumerate(answers[start : start + 250])
        ]
        answer = httpx.post(f"{collector.url}/v1/records", json={"records": records}, timeout=120)
        assert answer.is_success, answer.text
        for name in found:
            found[name] += answer.json()[name]
    return found


def events(script: Script, alert_id: str) -> list[str]:
    """Events about an alert that the far side took, each message once; the first two it refused."""
    taken = {
        each.headers["idempotency-key"]: each.body["event"]
        for each in script.asked[2:]
        if each.body["alert_id"] == alert_id
    }
    return list(taken.values())


def series(collector: JumpingCollector) -> dict[str, Any]:
    found = collector.get("/api/v1/drift/series")["items"]
    return next(each for each in found if (each["task"], each["kind"]) == ("right", "pass"))


def test_one_alert_is_opened_told_and_ended_once(tmp_path: Path) -> None:
    config = tmp_path / "collector.yaml"
    with run_script() as script:
        config.write_text(yaml.safe_dump({"alerts_webhook_url": f"{script.url}/w"}))
        file = profile().save_to_json(tmp_path / "p.json")
        collector = JumpingCollector(tmp_path, "--config", config, "--profile", file)
        collector.start()
        try:
            script.answers = [Say(500), Say(500)] + [Say(200) for _ in range(30)]
            bad = [42, 41] * 75
            send(collector, [*GOOD * 100, *bad])
            wait_until(lambda: collector.get("/api/v1/alerts")["drift"], what="one is open")
            collector.set_ahead(-12 * HOUR)
            assert send(collector, bad, 1_000) == {"accepted": 0, "duplicates": 150}
            push(collector, tmp_path, profile())
            push(collector, tmp_path, profile(config=AgentEvalConfig(healthy=Healthy())))
            collector.kill()
            collector.start()
            send(collector, bad, 1_150)
            collector.wait_evaluated(1_300)
            wait_until(lambda: series(collector)["records"] == 1_300, what="all are taken")
            drift = collector.get("/api/v1/alerts")["drift"]
            assert [(each["state"], each["task"]) for each in drift] == [("firing", "right")]
            name = drift[0]["alert_id"]
            wait_until(lambda: events(script, name) == ["firing"], what="it is told")
            url = f"{collector.url}/api/v1/alerts/{name}/acknowledge"
            assert httpx.post(url, json={"note": "on it"}, timeout=120).is_success
            states = ["firing", "acknowledged", "resolved"]
            wait_until(lambda: events(script, name) == states[:2], what="that somebody looks at it")
            send(collector, [42] * 500, 1_300)
            wait_until(lambda: events(script, name) == states, what="it is over")
            look = collector.get(f"/api/v1/alerts/{name}")
            assert [each["state"] for each in look["history"]] == states
            assert all(each["ended_at"] for each in look["together"])
        finally:
            collector.close()


def test_another_profile_ends_the_alert_of_the_one_before(tmp_path: Path) -> None:
    """An hour behind its last result; what comes by the new one is held against nothing yet."""
    collector = JumpingCollector(tmp_path, "--profile", profile().save_to_json(tmp_path / "p.json"))
    collector.start()
    try:
        send(collector, [*GOOD * 100, *[42, 41] * 75])
        wait_until(lambda: collector.get("/api/v1/alerts")["drift"], what="one is open")
        other = AgentEvalProfile(
            [AssertionTask("right", "answer", 41, ComparisonOperator.Equals)], alias="answers"
        )
        push(collector, tmp_path, other)
        send(collector, [42, 41] * 10, 2_000)
        collector.wait_evaluated(1_170)
        assert {e["state"] for e in collector.get("/api/v1/alerts")["drift"]} == {"firing"}
        collector.set_ahead(HOUR + 60)

        def states() -> list[tuple[str, str]]:
            drift = collector.get("/api/v1/alerts")["drift"]
            return [(each["state"], each["note"]) for each in drift]

        over = ("resolved", "its profile is not active any more")
        wait_until(lambda: states() == [over], what="it is over")
    finally:
        collector.close()
