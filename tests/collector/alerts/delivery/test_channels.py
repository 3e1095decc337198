"""Each channel against a real HTTP server: the body it sends, and the answers it understands."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from collector.alerts.alert import DriftAlertState
from collector.alerts.delivery.alertmanager import AlertmanagerChannel
from collector.alerts.delivery.channel import Channel
from collector.alerts.delivery.log import LogChannel
from collector.alerts.delivery.notice import Notice
from collector.alerts.delivery.pagerduty import PagerDutyChannel
from collector.alerts.delivery.post import Poster
from collector.alerts.delivery.slack import SlackChannel
from collector.alerts.delivery.webhook import WebhookChannel
from scouter.errors import DataError, TransientError
from tests.contracts.store_data import SPACE
from tests.support.alert_notices import (
    START_NS,
    drift_alert,
    notice,
    resolved_notice,
    trouble_alert,
)
from tests.support.far_side import ENDLESS, far_side
from tests.support.processes import free_ports
from tests.support.served import Asked, Say, Script, run_script
from tests.support.vectors import load_vectors

KEY = "0123456789abcdef0123456789abcdef"
SECRET = "T0/B0/verysecret"
HEADERS = {"authorization": SecretStr("Bearer hush-hush")}
EVIDENCE = (
    "118 of 400 failed since 2027-01-15 08:00 UTC; a healthy agent fails at most 40 of 400; "
    "chance of this while nothing is wrong: 1 in 10,000"
)
TITLE = "answers: task 'right' fails more in version 2 of bot since 2027-01-15 08:00 UTC"
HUGE = "<!channel> & words " * 2_000

Open = Callable[[str], Channel]
CHANNELS: dict[str, Open] = {
    "webhook": lambda url: WebhookChannel(SecretStr(f"{url}/{SECRET}"), HEADERS),
    "slack": lambda url: SlackChannel(SecretStr(f"{url}/services/{SECRET}")),
    "pagerduty": lambda url: PagerDutyChannel(SecretStr(KEY), url),
    "alertmanager": lambda url: AlertmanagerChannel(url, HEADERS, 60, lambda: START_NS),
}
SECRETS = (SECRET, KEY, "hush-hush")


@pytest.fixture
def script() -> Iterator[Script]:
    with run_script() as running:
        yield running


@pytest.fixture
def limits() -> Any:
    return load_vectors("drift/vectors_alert_delivery.json")


@pytest.fixture(params=list(CHANNELS))
def opened(request: pytest.FixtureRequest, script: Script) -> Iterator[Channel]:
    channel = CHANNELS[request.param](script.url)
    assert channel.name == request.param
    yield channel
    channel.close()


def sent(script: Script, name: str, *notices: Any, status: int = 200) -> list[Asked]:
    channel = CHANNELS[name](script.url)
    script.answers = [Say(status, "ok") for _ in notices]
    for each in notices:
        channel.send(each)
    channel.close()
    return script.asked


def huge() -> Any:
    """All names that others give are long, and call everybody in Slack."""
    names = dict.fromkeys(("alias", "task", "service", "environment", "version", "space"), HUGE)
    return notice(**names, explained_by=(HUGE,) * 3)


def test_the_log_has_a_line_for_each(caplog: pytest.LogCaptureFixture) -> None:
    assert LogChannel().send(notice()) == "written"
    LogChannel().send(resolved_notice())
    assert caplog.messages == [
        f"alert 5f0c firing: {TITLE}; {EVIDENCE}",
        f"alert 5f0c resolved: {TITLE}; recovered; it was: {EVIDENCE}",
    ]


def test_webhook(script: Script) -> None:
    first, again, over = sent(script, "webhook", notice(), notice(), resolved_notice())
    assert (first.method, first.path) == ("POST", f"/{SECRET}")
    assert first.headers["authorization"] == "Bearer hush-hush"
    assert first.headers["content-type"] == "application/json"
    assert (first.body["event"], first.body["title"], first.body["message"]) == (
        "firing", TITLE, EVIDENCE,
    )  # fmt: skip
    assert (first.body["records"], first.body["failed"], first.body["task"]) == (400, 118, "right")
    assert first.body["since"] == "2027-01-15T08:00:00Z"
    assert first.body["examples"] == [
        {"name": "r1", "url": "https://scouter.example/traces/aa",
         "command": "scouter results trace aa", "reason": ""}
    ]  # fmt: skip
    assert over.body["event"] == "resolved"
    assert {each.body["dedup_key"] for each in script.asked} == {"scouter-5f0c"}
    keys = [each.headers["idempotency-key"] for each in (first, again, over)]
    assert keys[0] == keys[1] != keys[2]


def test_slack_within_its_limits(script: Script, limits: Any) -> None:
    most = limits["slack_webhook"]["limits"]
    small, large, over = sent(script, "slack", notice(), huge(), resolved_notice())
    assert small.path == f"/services/{SECRET}"
    for each in script.asked:
        header, section = each.body["blocks"]
        assert (header["type"], section["type"]) == ("header", "section")
        assert 0 < len(header["text"]["text"]) <= most["header_text_chars"]
        assert 0 < len(section["text"]["text"]) <= most["section_text_chars"]
    assert small.body["blocks"][0]["text"]["text"] == TITLE
    assert small.body["blocks"][1]["text"]["text"].splitlines() == [
        EVIDENCE,
        "changed just before: fingerprint fp_2 since 2027-01-15 07:56 UTC: 2% of the records "
        "before, 95% since",
        "explained by tool search: 90.0% before, 30.0% of 100 since",
        "failed: <https://scouter.example/traces/aa|r1>",
        "compared with version 1 before it",
        "<https://scouter.example/alerts|this alert>",
        "scouter alerts show 5f0c",
        "scouter alerts ack 5f0c  (you look after it)",
    ]
    assert "<!" not in json.dumps(large.body)
    assert "&lt;!channel&gt; &amp; words" in large.body["text"]
    assert over.body["text"] == f"resolved: {TITLE}"
    assert CHANNELS["slack"](script.url).pause_s >= 1 / most["messages_per_second"]


def test_names_in_slack_are_escaped_inside_of_links(script: Script) -> None:
    example = notice().examples[0]
    evil = type(example)(name="<!here>|x", url=example.url, order="")
    (requests,) = sent(script, "slack", notice(examples=(evil,)))
    text = requests.body["blocks"][1]["text"]["text"]
    assert "<https://scouter.example/traces/aa|&lt;!here&gt;|x>" in text


def test_pagerduty_within_its_limits(script: Script, limits: Any) -> None:
    vector = limits["pagerduty_events_v2"]
    most = vector["limits"]
    details = notice(explained_by=("x" * most["event_bytes"],))
    first, large, dropped, over = sent(
        script, "pagerduty", notice(), huge(), details, resolved_notice(),
        status=vector["ok"]["status"],
    )  # fmt: skip
    for each in script.asked:
        assert each.path == "/v2/enqueue"
        assert each.body["routing_key"] == KEY
        assert len(each.body["payload"]["summary"]) <= most["summary_chars"]
        assert len(each.body["dedup_key"]) <= most["dedup_key_chars"]
        assert int(each.headers["content-length"]) <= most["event_bytes"]
    assert first.body["event_action"] == "trigger"
    assert first.body["payload"]["summary"] == f"{TITLE}; {EVIDENCE}"
    assert first.body["payload"]["severity"] == "critical"
    assert first.body["payload"]["source"] == "bot"
    assert first.body["payload"]["custom_details"]["failed"] == 118
    assert first.body["links"] == [{"href": "https://scouter.example/traces/aa", "text": "r1"}]
    assert large.body["payload"]["summary"].endswith("…")
    assert dropped.body["payload"]["custom_details"] == {}
    assert (over.body["event_action"], over.body["dedup_key"]) == ("resolve", "scouter-5f0c")


def test_alertmanager_gets_an_identity_without_numbers(script: Script) -> None:
    first, later, over = sent(
        script, "alertmanager", notice(),
        notice(opened=drift_alert().opened.model_copy(update={"failed": 300, "evidence": 1e8})),
        resolved_notice(),
    )  # fmt: skip
    assert first.path == "/api/v2/alerts"
    assert first.headers["authorization"] == "Bearer hush-hush"
    ((one,), (two,), (ended,)) = (each.body for each in (first, later, over))
    assert one["labels"] == two["labels"] == ended["labels"] == {
        "alertname": "ScouterResultsFell", "severity": "critical", "space": SPACE,
        "profile": "answers", "alias": "answers", "profile_uid": "p1", "task": "right",
        "service": "bot", "version": "2",
    }  # fmt: skip
    assert one["annotations"]["summary"] == TITLE
    assert EVIDENCE in one["annotations"]["description"]
    assert (one["startsAt"], one["endsAt"]) == ("2027-01-15T08:01:00Z", "2027-01-15T08:05:00Z")
    # The clock of the channel stands at 08:00, so the alert may not end before it began.
    assert ended["endsAt"] == "2027-01-15T08:01:00Z"


UNTIL_NS = START_NS + 8 * 3_600 * 10**9
ACKNOWLEDGED = {"state": DriftAlertState.ACKNOWLEDGED, "by": "ada", "note": "on it"}
SILENCED = {"state": DriftAlertState.SILENCED, "silenced_until_ns": UNTIL_NS}


def test_acts_in_pagerduty(script: Script) -> None:
    """A silence ends the incident, so that its end pages again; it has no event of its own."""
    requests = sent(script, "pagerduty", notice(**ACKNOWLEDGED), notice(**SILENCED), notice())
    found = [(each.body["event_action"], each.body["dedup_key"]) for each in requests]
    assert found == [
        ("acknowledge", "scouter-5f0c"), ("resolve", "scouter-5f0c"), ("trigger", "scouter-5f0c"),
    ]  # fmt: skip
    assert requests[0].body["payload"]["summary"] == f"acknowledged: {TITLE}; on it; {EVIDENCE}"


def test_acts_in_a_webhook(script: Script) -> None:
    acknowledged, silenced = sent(script, "webhook", notice(**ACKNOWLEDGED), notice(**SILENCED))
    assert (acknowledged.body["event"], acknowledged.body["by"]) == ("acknowledged", "ada")
    assert (silenced.body["event"], silenced.body["silenced_until"]) == (
        "silenced", "2027-01-15T16:00:00Z",
    )  # fmt: skip


def test_channels_that_take_no_acts() -> None:
    """Alertmanager has silences of its own; in Slack and a log they would be lines for nothing."""
    taken = {name: bool(make("http://127.0.0.1:1").acts) for name, make in CHANNELS.items()}
    assert taken == {
        "webhook": True, "pagerduty": True, "slack": False, "alertmanager": False,
    }  # fmt: skip
    assert not LogChannel().acts


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_work_later(opened: Channel, script: Script, status: int) -> None:
    script.answers = [Say(status, "busy", {"Retry-After": "7"})]
    with pytest.raises(TransientError, match=f"{opened.name}: status {status}: .*busy") as caught:
        opened.send(notice())
    assert caught.value.retry_after_s == 7


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 410])
def test_what_is_refused(opened: Channel, script: Script, status: int) -> None:
    script.answers = [Say(status, "no_service", {"Location": "http://127.0.0.1:1/"})]
    with pytest.raises(DataError, match=f"status {status}: .*no_service"):
        opened.send(notice())


def test_no_secret_is_shown(
    opened: Channel, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    """Not by a far side that repeats the request, either."""
    caplog.set_level(logging.INFO, "collector")
    echo = f"POST /services/{SECRET} /{SECRET} {KEY} Bearer hush-hush"
    script.answers = [Say(400, echo), Say(503, echo), Say(200, echo), Say(is_cut_off=True)]
    said: list[str] = []
    for _ in range(2):
        with pytest.raises((DataError, TransientError)) as caught:
            opened.send(notice())
        said.append(str(caught.value))
    said.append(opened.send(notice()))
    for each in said:
        own = {"webhook": "verysecret", "slack": "verysecret", "alertmanager": "hush-hush"}
        assert own.get(opened.name, KEY) not in each


def test_no_part_of_a_secret_is_shown(script: Script) -> None:
    """A query's value, a password, a header's token and the end of a path, each repeated alone."""
    address = f"{script.url.replace('://', '://ada:opensesame@')}/hook/T00/Bsecret?key=querykey"
    headers = {"Authorization": SecretStr("Bearer hush-hush")}
    poster = Poster("webhook", secrets=[SecretStr(address)], headers=headers)
    script.answers = [Say(200, "querykey opensesame hush-hush T00/Bsecret Bsecret")]
    said = poster.post(address, {})
    poster.close()
    for part in ("querykey", "opensesame", "hush-hush", "Bsecret"):
        assert part not in said


@pytest.mark.parametrize("name", CHANNELS)
def test_nobody_listens(name: str) -> None:
    (port,) = free_ports(1)
    channel = CHANNELS[name](f"http://127.0.0.1:{port}")
    with pytest.raises(TransientError, match=f"{name}: ConnectError") as caught:
        channel.send(notice())
    channel.close()
    assert not any(secret in str(caught.value) for secret in SECRETS)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("packing", ENDLESS)
@pytest.mark.parametrize("name", CHANNELS)
def test_an_answer_without_an_end_is_no_failure(name: str, packing: str) -> None:
    """The far side took the message: a repeat would be a second page to somebody."""
    with far_side(ENDLESS[packing]) as far:
        channel = CHANNELS[name](far.url)
        assert channel.send(notice()).startswith("status 200")
        assert far.wait_until_hung_up()
        channel.close()


# --- trouble ---


def test_trouble_in_every_channel(script: Script, caplog: pytest.LogCaptureFixture) -> None:
    """It has no counts and no task; its labels are its cause."""
    about_trouble = Notice(alert=trouble_alert(), url="https://scouter.example/alerts")
    title = "answers: results have stopped since 2027-01-15 08:00 UTC"
    LogChannel().send(about_trouble)
    assert caplog.messages == [f"alert 7a1b firing: {title}; no result in the last hour"]
    channels = ("webhook", "slack", "pagerduty", "alertmanager")
    bodies = {name: sent(script, name, about_trouble)[-1].body for name in channels}
    body = bodies["webhook"]
    assert (body["title"], body["kind"], body["trouble"]) == (title, "trouble", "silent")
    assert (body["records"], body["evidence"], body["since"]) == (
        None,
        None,
        "2027-01-15T08:00:00Z",
    )
    section = bodies["slack"]["blocks"][1]["text"]["text"]
    assert section.splitlines()[0] == "no result in the last hour"
    assert "compared with" not in section
    payload = bodies["pagerduty"]["payload"]
    assert (payload["severity"], payload["component"], payload["class"]) == (
        "warning", "silent", "trouble",
    )  # fmt: skip
    assert bodies["alertmanager"][0]["labels"] == {
        "alertname": "ScouterTrouble", "severity": "warning", "space": SPACE, "alias": "answers",
        "trouble": "silent",
    }  # fmt: skip


def test_the_end_of_trouble_in_every_channel(script: Script) -> None:
    over = Notice(alert=trouble_alert(state=DriftAlertState.RESOLVED, note="its cause is over"))
    for name in CHANNELS:
        sent(script, name, over)
    assert script.asked[0].body["message"] == (
        "its cause is over; it was: no result in the last hour"
    )
