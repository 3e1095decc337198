"""Judges in a running collector, against a provider on this machine that is slow or fails."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from collector.app import Collector
from collector.settings.load import load_settings
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.mock.llm_protocols import Fault, LLMRequest
from scouter.mock.llm_server import LLMTestServer
from scouter.model.otlp import encode_request
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span
from tests.support.openmetrics import ACCEPT, families_in
from tests.support.processes import wait_until

PRICE: Final = {"input_per_million": 2.0, "output_per_million": 8.0}


def profile(provider: str = "house", *, retries: int = 1, threshold: int = 3) -> AgentEvalProfile:
    prompt = Prompt("Rate ${answer}.", "model-1", provider, output_type=Score)
    return AgentEvalProfile(
        [
            AssertionTask("right", "answer", 42, "Equals"),
            LLMJudgeTask(
                "tone", prompt, threshold, "score", "GreaterThanOrEqual", max_retries=retries
            ),
            AssertionTask("why", "tone.reason", True, "IsString", depends_on=["tone"]),
        ],
        alias="judged",
    )


class Gate:
    """Answers only while it is open."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    async def __call__(self, request: LLMRequest) -> Any:
        while not self._open.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # it is opened in another thread
        return {"score": 4, "reason": request.text[-20:]}


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


def entries(server: LLMTestServer) -> dict[str, Any]:
    return {
        "house": {
            "kind": "openai", "base_url": server.url, "key_variable": "HOUSE_KEY",
            "prices": {"model-1": PRICE},
        }
    }  # fmt: skip


def begin(start: Start, folder: Path, server: LLMTestServer, **flags: Any) -> Service:
    file = profile().save_to_json(folder / "judged.json")
    given: dict[str, Any] = {"providers": entries(server), "drain_s": "1s", **flags}
    return start(profile=[str(file)], **given)


def send(service: Service, *numbers: int) -> None:
    service.send(
        *({"uid": f"u{n}", "profile": "judged", "context": {"answer": n}} for n in numbers)
    )


def items(service: Service, **wanted: str) -> dict[str, Any]:
    """Evaluations by uid."""
    found: list[Any] = service.get("/api/v1/evaluations", limit=1000, **wanted)["items"]
    return {each["uid"]: each for each in found}


def wait_decided(service: Service) -> None:
    wait_until(
        lambda: service.collector.store.pending_count() == 0,
        what="everything is decided",
    )


def post(service: Service, sent: AgentEvalProfile) -> Any:
    media = {"Content-Type": "application/json"}
    return service.http.post("/api/v1/profiles", content=sent.model_dump_json(), headers=media)


def tasks(item: Any) -> list[tuple[str, str | None]]:
    return [(task["outcome"], task["reason"]) for task in item["tasks"]]


@pytest.mark.usefixtures("key")
def test_other_tasks_are_seen_while_the_judge_hangs(
    start: Start, tmp_path: Path, gate: Gate
) -> None:
    """The evaluation is pending; rates, counters and sheet know of the rest, and then of all."""
    with LLMTestServer(gate) as server:
        service = begin(start, tmp_path, server)
        send(service, 42, 41)
        service.wait_for(2)
        wait_until(lambda: server.calls == 2, what="both are called")
        found = items(service)
        assert {uid: each["outcome"] for uid, each in found.items()} == {
            "u42": "pending", "u41": "pending",
        }  # fmt: skip
        assert tasks(found["u42"]) == [("passed", None), ("pending", None), ("pending", None)]
        rates = {each["task_id"]: each["total"] for each in service.get("/api/v1/tasks")["items"]}
        assert rates == {"right": 2}
        assert service.sample('scouter_judge_tasks_pending{space="default"}') == 4.0
        assert service.sample("scouter_judge_verdicts_in_flight") == 2.0
        assert service.get("/api/v1/sessions/u42")["undecided"] == 1

        gate.open()
        wait_decided(service)
        found = items(service)
        assert {uid: each["outcome"] for uid, each in found.items()} == {
            "u42": "passed", "u41": "failed",
        }  # fmt: skip
        assert server.calls == 2
        rates = {each["task_id"]: each["passed"] for each in service.get("/api/v1/tasks")["items"]}
        assert rates == {"right": 1, "tone": 2, "why": 2}
        labels = f'alias="judged",from="pending",profile="{profile().name}",space="default"'
        line = f'scouter_task_revisions_total{{{labels},task="tone",to="passed"}}'
        assert service.sample(line) == 2.0
        assert service.sample('scouter_judge_tasks_pending{space="default"}') == 0.0


@pytest.mark.usefixtures("key")
def test_what_the_answers_took_is_reported_everywhere(start: Start, tmp_path: Path) -> None:
    """The server says what each answer took; a price makes dollars of it."""
    with LLMTestServer({"score": 4, "reason": "r"}) as server:
        service = begin(start, tmp_path, server)
        send(service, 42)
        service.wait_for(1)
        wait_decided(service)
        (item,) = items(service).values()
        usage = item["tasks"][1]["usage"]
        assert usage["calls"] == 1
        read, written = usage["input_tokens"], usage["output_tokens"]
        assert min(read, written) > 0
        cost = (2 * read + 8 * written) / 1e6
        assert usage["cost_usd"] == pytest.approx(cost)
        assert item["tasks"][0]["usage"] is None

        text = service.http.get("/api/v1/export/task_results").text
        rows = [json.loads(line) for line in text.splitlines()]
        assert [row["usage"] for row in rows] == [None, usage, None]
        of = 'entry="house",model="model-1"'
        assert service.sample(f'scouter_judge_calls_total{{{of},outcome="answered"}}') == 1.0
        for direction, tokens in (("input", read), ("output", written)):
            line = f'scouter_judge_tokens_total{{direction="{direction}",{of}}}'
            assert service.sample(line) == float(tokens)
        assert service.sample(f"scouter_judge_cost_usd_total{{{of}}}") == pytest.approx(cost)
        assert service.sample('scouter_judge_call_seconds_count{entry="house"}') == 1.0
        assert "of-a-test" not in json.dumps(item) + service.http.get("/metrics").text


@pytest.mark.usefixtures("key")
def test_an_attempt_that_failed_is_reported_and_counted_once(start: Start, tmp_path: Path) -> None:
    """The cost of a broken connection is not known; the answer behind it has its price."""
    script: list[Any] = [Fault(kind="cut"), {"score": 4, "reason": "r"}]
    with LLMTestServer({"score": 4, "reason": "r"}, script=script) as server:
        service = begin(start, tmp_path, server)
        send(service, 42)
        service.wait_for(1)
        wait_decided(service)
        (item,) = items(service).values()
        assert server.calls == 2
        usage = item["tasks"][1]["usage"]
        assert (usage["calls"], usage["unpriced_calls"]) == (2, 1)
        cost = (2 * usage["input_tokens"] + 8 * usage["output_tokens"]) / 1e6
        assert usage["cost_usd"] == pytest.approx(cost)
        of = 'entry="house",model="model-1"'
        for outcome in ("answered", "provider"):
            line = f'scouter_judge_calls_total{{{of},outcome="{outcome}"}}'
            assert service.sample(line) == 1.0
        assert service.sample(f"scouter_judge_cost_usd_total{{{of}}}") == pytest.approx(cost)
        text = service.http.get("/api/v1/export/task_results").text
        rows = [json.loads(line) for line in text.splitlines()]
        assert [row["usage"] for row in rows] == [None, usage, None]


FAULTS: Final = {
    "too_many": ("passed", None), "server_error": ("errored", "provider"),
    "refusal": ("errored", "refusal"), "malformed": ("errored", "provider"),
    "wrong_schema": ("errored", "parse"), "truncated": ("errored", "parse"),
}  # fmt: skip


@pytest.mark.usefixtures("key")
def test_faults_of_the_provider_end_decided(start: Start, tmp_path: Path) -> None:
    """Each record meets one; 429 goes away when it is called again, 500 does not."""
    names = list(FAULTS)
    seen: list[str] = []

    def fault(request: LLMRequest) -> Fault | None:
        name = names[int(request.text.split("Rate ")[1].split(">")[1].split("<")[0])]
        seen.append(name)
        if name == "too_many" and seen.count(name) > 1:
            return None
        retry = {"retry_after": "0.1"} if name == "too_many" else {}
        return Fault(kind=name, **retry)  # type: ignore[arg-type]

    with LLMTestServer({"score": 4, "reason": "r"}, faults=fault) as server:
        service = begin(start, tmp_path, server)
        send(service, *range(len(names)))
        service.wait_for(len(names))
        wait_decided(service)
        found = items(service)
    for number, name in enumerate(names):
        assert tasks(found[f"u{number}"])[1] == FAULTS[name], name
    sheet = service.get("/api/v1/conservation")["records"]
    assert sheet["accepted"] == sheet["evaluated"] == len(names)
    # A re-evaluation with the same profile asks the questions without an answer again.
    with LLMTestServer({"score": 4, "reason": "r"}) as server:
        again = begin(start, tmp_path, server)
        (registered,) = again.get("/api/v1/profiles")["items"]
        answer = again.http.post(
            "/api/v1/reevaluations", json={"profile": registered["uid"], "dry_run": False}
        )
        assert (answer.status_code, answer.json()["stored"]) == (200, 2)
        wait_decided(again)
        assert server.calls == 2
        assert {tasks(each)[1] for each in items(again).values()} == {
            ("passed", None), ("errored", "refusal"), ("errored", "parse"),
        }  # fmt: skip


@pytest.mark.usefixtures("key")
def test_a_judge_that_hangs_holds_up_no_record(start: Start, tmp_path: Path, gate: Gate) -> None:
    """Any number of records gets a first evaluation; as many questions wait as may."""
    with LLMTestServer(gate) as server:
        service = begin(start, tmp_path, server, judge_concurrency=8)
        for first in range(0, 2000, 500):
            send(service, *range(first, first + 500))
        service.wait_for(2000)
        assert service.collector.store.pending_count() == 4000
        wait_until(lambda: server.calls >= 8, what="as many are called as may")
        assert server.calls == 8


@pytest.mark.usefixtures("key")
def test_a_restart_takes_up_what_is_pending(start: Start, tmp_path: Path, gate: Gate) -> None:
    """In pages: four evaluations are in flight at a time; each is called for once more at most."""
    with LLMTestServer(gate) as server:
        service = begin(start, tmp_path, server, judge_concurrency=4, drain_s="50ms")
        send(service, *range(30))
        service.wait_for(30)
        wait_until(lambda: server.calls == 4, what="some are called")
        again = begin(start, tmp_path, server, judge_concurrency=4)
        assert again.collector.store.pending_count() == 60
        gate.open()
        wait_decided(again)
        assert server.calls == 34
        assert server.most_at_once <= 8
        assert {each["revision"] for each in items(again).values()} == {2}


@pytest.mark.usefixtures("key")
def test_an_erased_record_is_not_decided(start: Start, tmp_path: Path, gate: Gate) -> None:
    """Its answer is dropped; that of the other is not requested again."""
    with LLMTestServer(gate) as server:
        service = begin(start, tmp_path, server)
        send(service, 1, 2)
        service.wait_for(2)
        wait_until(lambda: server.calls == 2, what="both are called")
        answer = service.http.post("/api/v1/erase", json={"record_uid": "u1"})
        assert (answer.status_code, answer.json()["records"]) == (200, 1)
        gate.open()
        wait_decided(service)
        assert {uid: tasks(each)[1] for uid, each in items(service).items()} == {
            "u2": ("passed", None)
        }
        assert server.calls == 2
        sheet = service.get("/api/v1/conservation")["records"]
        assert (sheet["accepted"], sheet["evaluated"], sheet["erased"]) == (2, 1, 1)


@pytest.mark.usefixtures("key")
def test_a_span_that_comes_while_a_judge_is_called(
    start: Start, tmp_path: Path, gate: Gate
) -> None:
    """The evaluation is another one when the answer comes: the same question is not put again."""
    steps = TraceAssertionTask(
        "steps", TraceAssertion.span_count(SpanFilter.by_name("step")), 2, "Equals"
    )
    traced = AgentEvalProfile([*profile().tasks, steps], alias="judged")
    file = traced.save_to_json(tmp_path / "traced.json")
    with LLMTestServer(gate) as server:
        service = start(profile=[str(file)], providers=entries(server))
        ingest = service.collector.store

        def post_span(number: int) -> None:
            body = encode_request([span(number, name="step")]).SerializeToString()
            media = {"Content-Type": "application/x-protobuf"}
            assert service.http.post("/v1/traces", content=body, headers=media).status_code == 200

        post_span(1)
        record = {"uid": "u42", "profile": "judged", "trace_id": TRACE, "context": {"answer": 42}}
        service.send(record)
        wait_until(lambda: server.calls == 1, what="the judge is called")
        post_span(2)
        wait_until(lambda: items(service)["u42"]["revision"] == 2, what="it is judged again")
        assert ingest.pending_count() == 2
        gate.open()
        wait_decided(service)
        (item,) = items(service).values()
        assert (item["revision"], item["outcome"], server.calls) == (3, "passed", 1)
        shown = service.http.get("/metrics", headers={"Accept": ACCEPT}).text
        (counted,) = (
            each
            for family in families_in(shown)
            for each in family.samples
            if each.name == "scouter_task_results_total" and each.value
            if each.labels["task"] == "tone"
        )
        assert counted.exemplar is not None, "the judge's result is about a trace, too"
        assert counted.exemplar.labels == {"trace_id": TRACE}
        assert service.get("/api/v1/conservation")["spans"]["late"] == 0


@pytest.mark.usefixtures("key")
def test_another_version_asks_only_what_is_new(start: Start, tmp_path: Path) -> None:
    """The same task of another version keeps its evaluation; another threshold is another task."""
    with LLMTestServer({"score": 4, "reason": "r"}) as server:
        service = begin(start, tmp_path, server, judge_cache_bytes="off")
        send(service, 42)
        service.wait_for(1)
        wait_decided(service)
        more = [*profile().tasks, AssertionTask("small", "answer", 9, "LessThan")]
        for changed, calls in ((more, 1), ([*profile(threshold=5).tasks], 2)):
            version = AgentEvalProfile(changed, alias="judged")
            request = {"profile_body": json.loads(version.model_dump_json())}
            answer = service.http.post("/api/v1/reevaluations", json=request)
            assert (answer.status_code, answer.json()["checked"]) == (200, 1), answer.text
            posted = post(service, version)
            assert posted.status_code == 201, posted.text
            body = {"profile": posted.json()["uid"], "dry_run": False}
            assert service.http.post("/api/v1/reevaluations", json=body).json()["stored"] == 1
            wait_decided(service)
            assert server.calls == calls
        (item,) = items(service).values()
        assert tasks(item)[1] == ("failed", None)


@pytest.mark.parametrize(
    ("provider", "environ", "message"),
    [
        (
            "house",
            {},
            "task 'tone': provider entry 'house' has no key: set the environment "
            "variable HOUSE_KEY in the collector's environment, and start the collector again",
        ),
        ("garage", {"HOUSE_KEY": "x"}, "no provider entry 'garage'.*`providers`"),
        ("anthropic", {"ANTHROPIC_API_KEY": ""}, "ANTHROPIC_API_KEY"),
    ],
)
def test_a_profile_that_cannot_be_judged_is_refused(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    provider: str, environ: dict[str, str], message: str,
) -> None:  # fmt: skip
    """At the start and over the network; the store knows nothing of it."""
    for name in ("HOUSE_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    providers = {
        "house": {
            "kind": "openai",
            "base_url": "http://127.0.0.1:1/v1",
            "key_variable": "HOUSE_KEY",
        }
    }
    service = start(providers=providers)
    answer = post(service, profile(provider))
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert re.search(message, answer.json()["detail"])
    request = {"profile_body": json.loads(profile(provider).model_dump_json())}
    reported = service.http.post("/api/v1/reevaluations", json=request)
    assert (reported.status_code, reported.json()) == (422, answer.json())
    assert service.get("/api/v1/profiles")["items"] == []
    file = profile(provider).save_to_json(tmp_path / "other.json")
    settings = load_settings(
        {"data": tmp_path / "x", "grpc": "off", "profile": [str(file)], "providers": providers}
    )
    with pytest.raises(ConfigError, match=message):
        Collector(settings)


def test_the_settings_of_the_page(tmp_path: Path) -> None:
    """The example in docs/judges.md."""
    page = (Path(__file__).parents[3] / "docs/judges.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(# collector\.yaml.*?)```", page, re.DOTALL)
    (tmp_path / "collector.yaml").write_text(block)
    settings = load_settings({}, tmp_path / "collector.yaml")
    found = settings.provider_entries()
    assert (settings.judge_concurrency, found.find("openai").requests_per_minute) == (32, 500)
    assert found.find("local").keyless


def test_entries_stand_in_the_settings_or_in_a_file(tmp_path: Path) -> None:
    """A fault names the entry and the field, and shows no value."""
    config = tmp_path / "collector.yaml"
    config.write_text("providers:\n  house: {kind: openai, keyless: true, concurrency: 3}\n")
    (entry,) = load_settings({}, config).provider_entries().providers.values()
    assert (entry.name, entry.concurrency) == ("house", 3)
    config.write_text("providers:\n  house: {kind: openai, api_key: sk-secret}\n")
    with pytest.raises(ConfigError, match=r"providers.*house\.api_key") as caught:
        load_settings({}, config)
    assert "sk-secret" not in str(caught.value)
    file = tmp_path / "providers.yaml"
    file.write_text("providers:\n  house: {kind: google, keyless: true}\n")
    found = load_settings({"providers_file": str(file)}).provider_entries()
    assert found.find("house").kind == "google"
    with pytest.raises(ConfigError, match="one of them"):
        load_settings({"providers_file": str(file), "providers": {}})
