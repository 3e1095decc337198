"""Alerts of the detectors over HTTP, from records that are sent."""

from pathlib import Path

import pytest

from collector.alerts.watcher import HEALTH
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.collector.conftest import Service, Start
from tests.support.processes import wait_until
from tests.support.served import Say, run_script

GOOD = [42] * 9 + [41]


@pytest.fixture
def service(start: Start, tmp_path: Path) -> Service:
    """A collector with open alerts."""
    return fallen(start, tmp_path)


def fallen(start: Start, tmp_path: Path) -> Service:
    """A healthy rate of 90 % is learnt from 1,000 records, then half of 150 fail."""
    task = AssertionTask("right", "answer", 42, ComparisonOperator.Equals)
    profile = AgentEvalProfile([task], alias="answers").save_to_json(tmp_path / "p.json")
    found = start(profile=[str(profile)])
    good, mixed = GOOD * 100, [42, 41] * 75
    for first, answers in ((0, good), (len(good), mixed)):
        for begin in range(0, len(answers), 250):
            found.send(
                *(
                    {
                        "uid": f"u{at}",
                        "profile": "answers",
                        "context": {"answer": answer},
                        "tags": {"half": "a" if at % 4 < 2 else "b", "all": "x"},
                    }
                    for at, answer in enumerate(answers[begin : begin + 250], first + begin)
                )
            )
        # Records that are evaluated together have one time, and slices are cut by time.
        found.wait_for(first + len(answers))
    wait_until(lambda: len(found.get("/api/v1/alerts")["drift"]) == 1, what="the alert")
    return found


def test_an_alert_from_its_opening_to_its_end(service: Service) -> None:
    listed = {each["task"]: each for each in service.get("/api/v1/alerts")["drift"]}
    alert = listed["right"]
    assert (alert["state"], alert["stands"], alert["profile"]) == ("firing", True, "answers")
    assert "a healthy agent fails at most" in alert["opened"]["message"]
    assert [each["title"] for each in alert["together"]] == [
        "task 'right' fails more", "more records fail",
    ]  # fmt: skip
    assert "its own first records, healthy or not (90.0%)" in alert["opened"]["against"]
    path = f"/api/v1/alerts/{alert['alert_id']}"
    look = service.get(path)
    assert len(look["examples"]) == 3
    for each in look["examples"]:
        assert service.get(each["link"])["evaluations"][0]["outcome"] == "failed"
    # Every second answer is wrong, in both halves alike: the agent, and no half of the traffic.
    why = look["explanation"]
    assert "because the agent behaves otherwise with the same traffic" in why["sentence"]
    assert [each["fell"] for each in why["parts"]] == [False, False, True]
    assert not any(each["is_named"] for each in why["traits"])
    erased = service.http.post("/api/v1/erase", json={"record_uid": look["examples"][0]["uid"]})
    assert erased.status_code == 200
    assert service.get(path)["examples"] == look["examples"][1:]

    promoted = service.http.post(f"{path}/promote", json={})
    assert (promoted.status_code, promoted.json()["detail"]) == (
        409, f"alert {alert['alert_id']} is not on trial: there is nothing to promote",
    )  # fmt: skip
    silenced = service.http.post(f"{path}/silence", json={"seconds": 60, "note": "later"})
    assert (silenced.json()["state"], silenced.json()["note"]) == ("silenced", "later")
    assert service.http.post(f"{path}/silence", json={}).status_code == 400
    resolved = service.http.post(f"{path}/resolve", json={"accept": True})
    assert resolved.json()["state"] == "resolved"
    assert service.http.post(f"{path}/acknowledge", json={}).status_code == 404
    states = [each["state"] for each in service.get(path)["history"]]
    assert states == ["firing", "silenced", "resolved"]


def test_whom_an_alert_was_sent_to(service: Service) -> None:
    (alert,) = service.get("/api/v1/alerts")["drift"]
    path = f"/api/v1/alerts/{alert['alert_id']}"

    def sent() -> list[tuple[str, str, str]]:
        look = service.get(path)
        return [(each["channel"], each["told"], each["state"]) for each in look["deliveries"]]

    wait_until(lambda: sent() == [("log", "firing", "sent")], what="the log has it")
    service.http.post(f"{path}/resolve", json={})
    wait_until(lambda: ("log", "resolved", "sent") in sent(), what="its end is sent")


def test_channels_are_tested(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with run_script() as script:
        monkeypatch.setenv("SCOUTER_COLLECTOR_ALERTS_WEBHOOK_URL", f"{script.url}/s3cret-path")
        service = start(public_url="https://scouter.example/")
        script.answers = [Say(200, "thanks"), Say(403, "no /s3cret-path here"), Say(200)]
        path = "/api/v1/alerts/test"
        assert service.http.post(path, json={"channel": None}).json()["items"] == [
            {"channel": "log", "sent": True, "answer": "written"},
            {"channel": "webhook", "sent": True, "answer": 'status 200: "thanks"'},
        ]
        again = service.http.post(path, json={"channel": "webhook"}).json()["items"]
        assert again == [
            {"channel": "webhook", "sent": False,
             "answer": 'webhook: status 403: "no *** here"'}
        ]  # fmt: skip
        service.http.post(path, json={"channel": "webhook", "resolved": True})
        assert [each.body["event"] for each in script.asked] == ["firing", "firing", "resolved"]
        assert {each.body["dedup_key"] for each in script.asked} == {"scouter-test"}
        assert script.asked[0].body["title"].startswith("[test] ")
        assert script.asked[0].body["url"] == "https://scouter.example/alerts"
        unknown = service.http.post(path, json={"channel": "slack"})
        assert (unknown.status_code, unknown.json()["detail"]) == (
            404, "no channel 'slack' is set up; there are: log, webhook",
        )  # fmt: skip
    sent = [each.getMessage() for each in caplog.records if each.name.startswith("collector")]
    assert any(line.startswith("alert test firing: ") for line in sent)
    assert not any("s3cret" in line for line in sent)


def test_series_and_gauges_say_where_each_task_stands(service: Service) -> None:
    labels = (
        'alias="answers",environment="",kind="pass",profile="answers",service="",space="default",'
        'task="right"'
    )
    evaluated = 'alias="answers",outcome="{}",profile="answers",space="default",task="right"'
    wait_until(
        lambda: (
            max(each["records"] for each in service.get("/api/v1/drift/series")["items"]) == 1150
        ),
        what="all are taken",
    )
    items = service.get("/api/v1/drift/series")["items"]
    found = {(each["task"], each["kind"]): each for each in items if not each["slice"]}
    assert len(found) == 4
    # 1,150 records, 75 + 100 of them failed; the last 500 to 1,000 are records 501 to 1,150.
    assert (found["right", "pass"]["failed"], found["right", "error"]["failed"]) == (175, 0)
    assert found["right", "pass"]["rate"] == pytest.approx((450 + 75) / 650)
    assert service.sample(f"scouter_task_rate{{{labels}}}") == pytest.approx(525 / 650)
    assert service.sample(f"scouter_task_baseline{{{labels}}}") == pytest.approx(0.9)
    for each in found.values():  # alone, and among the four
        assert (each["state"] == "fallen", each["stands"]) == ((each["kind"] == "pass",) * 2)
    assert service.sample(f"scouter_task_fallen{{{labels}}}") == 1
    assert (service.sample(f"scouter_task_evidence{{{labels}}}") or 0) >= 100
    for outcome, count in (("passed", 975), ("failed", 175)):
        line = f"scouter_task_results_total{{{evaluated.format(outcome)}}}"
        assert service.sample(line) == count
    assert service.sample('scouter_alerts_open{space="default",state="firing"}') == 1


def test_trouble_is_an_alert_that_people_see_and_act_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten records that name no profile; the first look of the next process finds their letters."""
    with run_script() as script:
        monkeypatch.setenv("SCOUTER_COLLECTOR_ALERTS_WEBHOOK_URL", script.url)
        service = start(deadline_s="1s")
        store = service.collector.store
        wait_until(lambda: any(e.name == HEALTH for e in store.drift_states()), what="a look")
        service.send(*({"uid": f"u{n}", "profile": "nobody"} for n in range(10)))
        service.wait_for(10, "dead_lettered")
        script.answers = [Say(200)]
        service = start()
        wait_until(
            lambda: [e["state"] for e in service.get("/api/v1/alerts")["trouble"]] == ["firing"],
            what="an alert",
        )
        (listed,) = service.get("/api/v1/alerts")["trouble"]
        assert listed["trouble"] == "unknown_profile"
        assert service.get("/api/v1/alerts")["drift"] == []
        path = f"/api/v1/alerts/{listed['alert_id']}"
        wait_until(lambda: len(service.get(path)["deliveries"]) == 2, what="deliveries")
        look = service.get(path)
        assert (look["kind"], look["trouble"]) == ("trouble", "unknown_profile")
        assert look["title"].startswith("space default: records name no profile that can")
        assert look["opened"]["message"].startswith(
            "10 records became dead letters in the last hour"
        )
        assert (look["opened"]["healthy"], look["examples"], look["now"]) == (None, [], None)
        wait_until(lambda: len(script.asked) == 1, what="the webhook has it")
        assert script.asked[0].body["trouble"] == "unknown_profile"
        shown = service.http.get(f"/alerts/{listed['alert_id']}")
        assert (shown.status_code, "Compared with" in shown.text) == (200, False)
        acknowledged = service.http.post(f"{path}/acknowledge", json={"note": "on it"})
        assert acknowledged.json()["state"] == "acknowledged"
        (listed,) = service.get("/api/v1/alerts")["trouble"]
        assert listed["state"] == "acknowledged"
