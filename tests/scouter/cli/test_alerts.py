"""`scouter alerts …` against a scripted collector."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from scouter.client.models.alerts import (
    Alerts,
    DriftAlert,
    DriftAlertLook,
    DriftFigures,
    DriftSeries,
    DriftSeriesList,
    Trouble,
)
from scouter.client.models.comparison import ComparedTrait, Explanation
from tests.scouter.cli.conftest import Scouter
from tests.support.answers import whole
from tests.support.served import Say, Script, run_script

FIGURES = whole(DriftFigures, **{
    "since": "2026-01-02T14:02:00Z", "records": 400, "failed": 118, "evidence": 1e4,
    "healthy": 0.91, "healthy_lower": 0.9, "against": "version 1 before it",
    "message": "118 of 400 failed",
})  # fmt: skip
ALERT = whole(DriftAlert, **{
    "alert_id": "5f0c", "space": "default", "profile": "answers", "profile_name": "answers",
    "profile_version": "d" * 64, "task": "right", "kind": "pass", "service": "bot",
    "environment": "", "version": "2", "state": "firing", "opened_at": "2026-01-02T15:00:00Z",
    "changed_at": "2026-01-02T15:00:00Z", "silenced_until": None, "by": "", "note": "",
    "title": "answers: task 'right' fails more", "opened": FIGURES, "now": None, "stands": True,
})  # fmt: skip


SERIES = whole(DriftSeriesList)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with run_script() as running:
        monkeypatch.setenv("SCOUTER_URL", running.url)
        monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
        yield running


def body(*alerts: Any) -> dict[str, Any]:
    return whole(Alerts, drift=list(alerts))


def test_no_alert_is_one_line_and_no_heading(script: Script, scouter: Scouter) -> None:
    script.answers = [Say(body=body()), Say(body=SERIES)]
    done = scouter("alerts", "list")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "scouter: there is none. Nothing has alarmed; --all lists also alerts that are over\n"
    )


def test_a_firing_alert_ends_the_list_with_1(script: Script, scouter: Scouter) -> None:
    over = {**ALERT, "alert_id": "0ld", "state": "resolved"}
    script.answers = [
        Say(body=each)
        for found in ([ALERT, over], [over], [over])
        for each in (body(*found), SERIES)
    ]
    done = scouter("alerts", "list")
    assert done.returncode == 1
    assert "118 of 400 failed" in done.stdout
    assert "0ld" not in done.stdout
    assert scouter("alerts", "list").returncode == 0
    assert "0ld" in scouter("alerts", "list", "--all").stdout


def test_tasks_that_are_not_watched_are_listed_with_the_reason(
    script: Script, scouter: Scouter
) -> None:
    """No alert about them says nothing."""
    series = [
        whole(DriftSeries, profile="answers", task=task, kind="pass", version="2", state=state,
              against=f"still learning: {records} of its first 1,000 records",
              summary="a fall below 95 % would be seen")
        for task, state, records in (("fast", "watched", 5), ("bad", "fallen", 5),
                                     ("", "learning", 9), ("right", "learning", 9),
                                     ("kind", "never_passed", 7))
    ]  # fmt: skip
    series.append(
        whole(
            DriftSeries, profile="answers", task="", slice="tool x", kind="pass", state="learning"
        )
    )
    known = whole(
        DriftSeriesList, items=series, left_out=["answers: tag user=7"],
        promise="4 series of tasks and records",
    )  # fmt: skip
    script.answers = [Say(body=body()), Say(body=known)]
    done = scouter("alerts", "list")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-5:] == [
        "not watched yet: answers in version 2 (kind): still learning: 7 of its first 1,000 "
        "records",
        "not watched yet: answers in version 2 (the whole record, right): still learning: 9 of its "
        "first 1,000 records",
        "watched: answers in version 2 (fast): a fall below 95 % would be seen",
        "no series of its own: answers: tag user=7",
        "in all: 4 series of tasks and records",
    ]


def test_alerts_for_programs(script: Script, scouter: Scouter) -> None:
    over = {**ALERT, "alert_id": "0ld", "state": "resolved"}
    look = whole(DriftAlertLook, **ALERT)
    script.answers = [Say(body=body(ALERT, over)), Say(body=look)]
    done = scouter("alerts", "list", "--json")
    assert done.returncode == 1
    assert [each["alert_id"] for each in json.loads(done.stdout)["drift"]] == ["5f0c"]
    assert json.loads(scouter("alerts", "show", "5f0c", "--json").stdout)["alert_id"] == "5f0c"


def test_alerts_on_trial_stand_apart(script: Script, scouter: Scouter) -> None:
    trial = {**ALERT, "alert_id": "7r1a1", "state": "shadow"}
    answers = [body(trial, ALERT), SERIES, body(trial), SERIES]
    script.answers = [Say(body=each) for each in answers]
    lines = scouter("alerts", "list").stdout.splitlines()
    places = [next(n for n, line in enumerate(lines) if each in line)
              for each in ("5f0c", "on trial, sent to nobody", "7r1a1")]  # fmt: skip
    assert places == sorted(places)
    assert scouter("alerts", "list").returncode == 0


def test_trouble_is_reported_first_and_ends_with_1(script: Script, scouter: Scouter) -> None:
    trouble = whole(
        Trouble, trouble="not_evaluated", message="9 records wait", since="2026-01-02T14:02:00Z"
    )
    script.answers = [Say(body={**body(), "trouble": [trouble]}), Say(body=SERIES)]
    done = scouter("alerts", "list")
    assert done.returncode == 1
    first = done.stdout.splitlines()[0]
    assert first == "not_evaluated since 2026-01-02 14:02:00Z: 9 records wait"


def test_one_is_shown_with_examples_and_history(script: Script, scouter: Scouter) -> None:
    examples = [
        {"evaluation_id": "e", "record_id": "r1", "uid": "u1", "trace_id": "a" * 32, "link": ""},
        {"evaluation_id": "f", "record_id": "", "uid": "u2", "trace_id": None, "link": ""},
    ]
    acknowledged = {**ALERT, "state": "acknowledged", "by": "t1", "note": "on it"}
    why = whole(
        Explanation, sentence="Records passed fell by 22.5 points, because other traffic came.",
        traits=[
            whole(ComparedTrait, name=name, before_passed=90, before_count=100, after_passed=30,
                  after_count=100, is_named=is_named)
            for name, is_named in (("tool search", True), ("tool book", False))
        ],
    )  # fmt: skip
    history = [ALERT, acknowledged]
    delivery = {
        "channel": "slack", "told": "firing", "state": "sent", "at": "2026-01-02T15:00:01Z",
        "attempts": 1, "answer": "status 200: ok",
    }  # fmt: skip
    look = whole(
        DriftAlertLook,
        **{name: value for name, value in ALERT.items() if name != "changed"},
        deliveries=[delivery],
        examples=examples,
        explanation=why,
        changed=[
            {
                "kind": "fingerprint",
                "name": "fp_2",
                "before": 0.02,
                "share": 0.95,
                "first_at": "2026-01-02T13:58:00Z",
            }
        ],
        history=history,
    )
    script.answers = [Say(body=look)]
    lines = scouter("alerts", "show", "5f0c").stdout.splitlines()
    assert lines == [
        "answers: task 'right' fails more (firing)",
        "when it was proven: 118 of 400 failed",
        "changed just before: fingerprint fp_2 since 2026-01-02 13:58:00Z: 2% of the records "
        "before, 95% since",
        "compared with version 1 before it",
        "Records passed fell by 22.5 points, because other traffic came.",
        "explained by tool search: 90.0% before, 30.0% of 100 since",
        f"failed: r1  scouter results trace {'a' * 32}",
        "failed: u2  scouter results record u2",
        "slack: firing sent 2026-01-02 15:00:01Z status 200: ok",
        "2026-01-02 15:00:00Z firing",
        "2026-01-02 15:00:00Z acknowledged t1 on it",
    ]


@pytest.mark.parametrize(
    ("order", "path", "sent"),
    [
        (("promote", "5f0c"), "promote", {"note": ""}),
        (("ack", "5f0c", "--note", "n"), "acknowledge", {"note": "n"}),
        (("silence", "5f0c", "--for", "8h"), "silence", {"note": "", "seconds": 28_800}),
        (("resolve", "5f0c"), "resolve", {"note": "", "accept": False}),
        (("resolve", "5f0c", "--accept"), "resolve", {"note": "", "accept": True}),
    ],
)
def test_orders(
    script: Script, scouter: Scouter, order: tuple[str, ...], path: str, sent: Any
) -> None:
    script.answers = [Say(body={**ALERT, "state": "acknowledged"})]
    done = scouter("alerts", *order)
    assert (done.returncode, done.stdout) == (
        0, "5f0c acknowledged: answers: task 'right' fails more\n",
    )  # fmt: skip
    (request,) = script.asked
    assert (request.method, request.path, request.body) == (
        "POST", f"/api/v1/alerts/5f0c/{path}", sent,
    )  # fmt: skip


def test_a_test_message_prints_the_answers(script: Script, scouter: Scouter) -> None:
    log = {"channel": "log", "sent": True, "answer": "written"}
    slack = {"channel": "slack", "sent": False, "answer": "slack: status 404: no_service"}
    script.answers = [Say(body={"items": [log, slack]}), Say(body={"items": [log]})]
    done = scouter("alerts", "test")
    assert (done.returncode, done.stdout.splitlines()) == (
        1, ["log: sent: written", "slack: not sent: slack: status 404: no_service"],
    )  # fmt: skip
    assert scouter("alerts", "test", "log", "--resolved").returncode == 0
    assert [each.body for each in script.asked] == [
        {"channel": None, "resolved": False}, {"channel": "log", "resolved": True},
    ]  # fmt: skip


def test_what_is_no_length_is_refused(script: Script, scouter: Scouter) -> None:
    done = scouter("alerts", "silence", "5f0c", "--for", "0h")
    assert (done.returncode, script.asked) == (2, [])
    assert "expected such as 30m" in done.stderr
