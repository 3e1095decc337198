"""The watcher is watched: each trouble is caused in a collector that is a program, and is told.

It is told by the API, the page, `/metrics` and a webhook. The collector's date is set by hand, as
minutes, hours and weeks pass until some are found.
"""

import json
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_server import LLMTestServer
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.otlp import encode_request
from scouter.model.span import Resource, Span
from tests.support.jumping_collector import JumpingCollector
from tests.support.load import load_profile
from tests.support.processes import free_ports, wait_until
from tests.support.served import Say, Script, run_script

MINUTE, HOUR = 60, 3_600
PRICE = {"input_per_million": 1.0, "output_per_million": 1.0}


class Watched:
    """A collector with a webhook, whose clock a test sets.

    Args:
        collector: The program.
        script: The far side of the webhook.
    """

    def __init__(self, collector: JumpingCollector, script: Script) -> None:
        self.collector, self.script = collector, script
        self._ahead_s = 0.0

    def pass_time(self, seconds: float = MINUTE + 1) -> None:
        """Let time pass at once, a minute or more; the collector has looked behind it."""
        self._ahead_s += seconds
        self.collector.set_ahead(self._ahead_s)
        self.wait_look(time.time() + self._ahead_s)

    def wait_look(self, since_s: float) -> None:
        """Wait for a look that was made since a time."""
        name = "scouter_watch_last_look_timestamp_seconds"
        wait_until(
            lambda: self.collector.metrics().get(name, 0.0) >= since_s, what="the collector looks"
        )

    def send(self, records: Sequence[Mapping[str, Any]], **headers: str) -> None:
        """Send records that are accepted."""
        answer = self.post(records, **headers)
        assert answer.json()["accepted"] == len(records), answer.text

    def post(self, records: Sequence[Mapping[str, Any]], **headers: str) -> httpx.Response:
        """Send records."""
        body = {"records": list(records)}
        return httpx.post(
            f"{self.collector.url}/v1/records", json=body, headers=headers, timeout=120
        )

    def found(self) -> list[str]:
        """The troubles that the API tells of."""
        return [each["trouble"] for each in self.collector.get("/api/v1/alerts")["trouble"]]

    def told(self) -> list[tuple[str, str]]:
        """The troubles and events that the webhook got."""
        return [(each.body["trouble"], each.body["event"]) for each in self.script.asked]

    def wait_told(self, trouble: str, *, says: Sequence[str]) -> dict[str, Any]:
        """Wait until the trouble is told, once, and compare all that tell of it."""
        wait_until(lambda: (trouble, "firing") in self.told(), what=f"{trouble}: the webhook")
        items = self.collector.get("/api/v1/alerts")["trouble"]
        (item,) = [each for each in items if each["trouble"] == trouble]
        assert item["state"] == "firing"
        for text in says:
            assert text in item["message"]
        (sent,) = [each for each in self.script.asked if each.body["trouble"] == trouble]
        assert (sent.body["message"], sent.body["alert_id"]) == (item["message"], item["alert_id"])
        page = unescape(httpx.get(f"{self.collector.url}/alerts", timeout=120).text)
        assert item["message"] in page
        look = unescape(
            httpx.get(f"{self.collector.url}/alerts/{item['alert_id']}", timeout=120).text
        )
        assert item["message"] in look
        assert self.gauges(trouble) == (1.0, 1.0)
        return item

    def gauges(self, trouble: str) -> tuple[float | None, float | None]:
        """Gauges of a trouble, and of its alert while that fires."""
        labels = f'{{space="default",trouble="{trouble}"}}'
        metrics = self.collector.metrics()
        return metrics.get(f"scouter_trouble{labels}"), metrics.get(
            f"scouter_trouble_firing{labels}"
        )

    def wait_over(self, trouble: str) -> None:
        """Wait until the webhook is told that it is over; nothing tells of it then."""
        wait_until(lambda: (trouble, "resolved") in self.told(), what=f"{trouble} is over")
        assert self.found() == []
        assert self.gauges(trouble) == (None, None)
        assert self.told() == [(trouble, "firing"), (trouble, "resolved")]


WAITS: Final = {"deadline_s", "quiet_s"}
"""Settings that a collector of the tests has flags for, which win over a file."""


@contextmanager
def watched(folder: Path, profile: AgentEvalProfile, **settings: Any) -> Generator[Watched]:
    """Run a collector with a profile and a webhook; its first look is over."""
    with run_script() as script:
        script.answers = [Say() for _ in range(100)]
        config = folder / "collector.yaml"
        file = profile.save_to_json(folder / "profile.json")
        waits = [f"--{name.replace('_', '-')}={settings.pop(name)}" for name in WAITS & {*settings}]
        collector = JumpingCollector(folder, "--config", config, "--profile", file, *waits)
        config.write_text(yaml.safe_dump({"alerts_webhook_url": f"{script.url}/w", **settings}))
        collector.start()
        try:
            found = Watched(collector, script)
            found.wait_look(0.1)  # counts what later ones are held against
            yield found
        finally:
            collector.close()


def asserting() -> AgentEvalProfile:
    return AgentEvalProfile([AssertionTask("right", "answer", 42, "Equals")], alias="answers")


def judging() -> AgentEvalProfile:
    prompt = Prompt("Rate ${answer}", "model-1", "house", output_type=Score)
    task = LLMJudgeTask("rate", prompt, 3, "score", "GreaterThanOrEqual")
    return AgentEvalProfile([task], alias="answers")


def records(count: int, first: int = 0, alias: str = "answers") -> list[dict[str, Any]]:
    return [
        {"uid": f"u{number}", "profile": alias, "context": {"answer": 42}}
        for number in range(first, first + count)
    ]


@pytest.fixture
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")


def providers(folder: Path, address: str) -> dict[str, Any]:
    """Settings by which judges ask a server."""
    entry = {"kind": "openai", "base_url": address, "key_variable": "HOUSE_KEY",
             "prices": {"model-1": PRICE}}  # fmt: skip
    file = folder / "providers.yaml"
    file.write_text(yaml.safe_dump({"providers": {"house": entry}}))
    return {"providers_file": str(file)}


def test_records_that_wait_for_an_evaluation(tmp_path: Path) -> None:
    """Their profile comes two hours later; then they are evaluated, and it is over."""
    with watched(tmp_path, asserting(), deadline_s="1h") as run:
        run.send(records(3, alias="late"))
        run.pass_time(2 * HOUR + 2 * MINUTE)
        run.wait_told("not_evaluated", says=["3 records wait", "scouter results record u0"])
        late = AgentEvalProfile([AssertionTask("right", "answer", 42, "Equals")], alias="late")
        body = json.loads(late.save_to_json(tmp_path / "late.json").read_text())
        pushed = httpx.post(
            f"{run.collector.url}/api/v1/profiles?activate=true", json=body, timeout=120
        )
        assert pushed.is_success, pushed.text
        run.collector.wait_evaluated(3)
        run.pass_time(6 * MINUTE)
        run.wait_over("not_evaluated")


@pytest.mark.usefixtures("_key")
def test_a_judge_that_was_never_reachable(tmp_path: Path) -> None:
    """The detectors have nothing to compare with; all results are errors."""
    (port,) = free_ports(1)
    with watched(tmp_path, judging(), **providers(tmp_path, f"http://127.0.0.1:{port}")) as run:
        run.send(records(10))
        name = 'scouter_task_results_total{alias="answers",outcome="errored",profile="answers"'
        name += ',space="default",task="rate"}'
        wait_until(lambda: run.collector.metrics().get(name) == 10, what="all have erred")
        run.pass_time()
        item = run.wait_told("errored", says=["10 of 10 results of task 'rate'", "(provider)"])
        assert item["profile"] == "answers"


@pytest.mark.usefixtures("_key")
def test_a_judge_that_does_not_answer(tmp_path: Path) -> None:
    with LLMTestServer({"score": 5, "reason": "x"}, latency_s=300.0, key="of-a-test") as server:
        settings = providers(tmp_path, server.url)
        with watched(tmp_path, judging(), **settings, drain_s="0s") as run:
            run.send(records(2))
            wait_until(lambda: server.calls > 0, what="the judge is asked")
            run.pass_time(HOUR + 2 * MINUTE)
            run.wait_told("judge_waits", says=["2 tasks wait for a judge"])


@pytest.mark.usefixtures("_key")
def test_a_judge_whose_budget_is_spent(tmp_path: Path) -> None:
    """It is over an hour and five minutes behind the last question that was not put."""
    settings = providers(tmp_path, "http://127.0.0.1:9") | {"judge_daily_budget_usd": 0}
    with watched(tmp_path, judging(), **settings) as run:
        run.send(records(3))
        wait_until(lambda: run.collector.records()["skipped"] == 3, what="they are skipped")
        run.pass_time()
        run.wait_told("judge_budget", says=["3 judge tasks were skipped"])
        for _ in range(15):
            run.pass_time(5 * MINUTE + 1)
        run.wait_over("judge_budget")


def test_a_profile_that_falls_silent(tmp_path: Path) -> None:
    """A day around the clock, an hour without, and results again."""
    with watched(tmp_path, asserting()) as run:
        for hour in range(26):
            run.send(records(25, first=25 * hour))
            run.collector.wait_evaluated(25 * (hour + 1))
            run.pass_time(HOUR)
        run.pass_time(HOUR)
        run.wait_told("silent", says=["profile 'answers' had no result", "which mostly has 25"])
        run.send(records(25, first=1_000))
        run.collector.wait_evaluated(25 * 27)
        run.pass_time(HOUR)
        run.pass_time(6 * MINUTE)
        run.wait_over("silent")


def test_what_senders_did_within_the_hour(tmp_path: Path) -> None:
    """Four causes at once, each of which is an alert of its own.

    Records are of a profile that is not active, or cannot be used at all; a sender gave up items;
    a process said that it made three spans of each trace, and one came.
    """
    with watched(tmp_path, load_profile(), deadline_s="1s", quiet_s="200ms") as run:
        body = json.loads(asserting().save_to_json(tmp_path / "other.json").read_text())
        url = f"{run.collector.url}/api/v1/profiles"
        assert httpx.post(url, json=body, timeout=120).is_success
        run.send(records(2), **{"scouter-dropped": "sender=9f31c04e5ad2b7e6, full=0/40"})
        wait_until(lambda: run.collector.records()["dead_lettered"] == 2, what="they are given up")
        bad = [{**each, "created_at": "yesterday"} for each in records(10, first=100)]
        assert run.post(bad).json()["rejected"] == 10
        for number in range(10):
            trace = f"{number + 1:032x}"
            root = Span(
                trace_id=trace, span_id=f"{1:016x}", name="root", start_ns=1, end_ns=9,
                attributes={PROCESS_SPAN_COUNT: 3},
                resource=Resource(attributes={PROCESS_ID: "agent-1"}),
            )  # fmt: skip
            sent = encode_request([root]).SerializeToString()
            headers = {"content-type": "application/x-protobuf"}
            url = f"{run.collector.url}/v1/traces"
            assert httpx.post(url, content=sent, headers=headers, timeout=120).is_success
            record = {"uid": f"t{number}", "profile": load_profile().alias, "trace_id": trace}
            run.send([{**record, "context": {"text": "record-1"}}])
        run.collector.wait_evaluated(10)
        assert {each["completeness"] for each in run.collector.evaluations()} == {"deadline"}
        run.pass_time()
        for trouble, says in (
            ("unknown_profile", ["2 records became dead letters", "letters list"]),
            ("dead_letters", ["10 things could not be used", "letters list"]),
            ("dropped", ["40 records and spans were given up by senders"]),
            ("incomplete", ["the traces of 10 of 10 records of the last hour lacked spans"]),
        ):
            run.wait_told(trouble, says=says)
