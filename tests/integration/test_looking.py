"""From an alert's log line to the guilty span: the commands that show one thing."""

import json
import logging
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from scouter.alert.config import AgentAlertConfig, AlertCondition, AlertThreshold
from scouter.client.client import ScouterClient
from scouter.client.errors import ApiError
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from scouter.model.otlp_json import spans_from_otlp_json, spans_to_otlp_json
from scouter.model.span import Span, StatusCode
from tests.collector.conftest import Service, Start, start  # noqa: F401  # pyright: ignore[reportUnusedImport] fixtures
from tests.scouter.cli.conftest import Scouter, project, scouter  # noqa: F401  # pyright: ignore[reportUnusedImport] fixtures
from tests.scouter.evaluate.spans_support import span
from tests.support.components import ROOT
from tests.support.processes import wait_until
from tests.support.served import serve

GOOD, BAD = f"{1:032x}", f"{2:032x}"
GUILTY = f"{3:016x}"
ARGUMENTS = '{"order": "A-17", "amount": 4200}'


def turn(trace: str, *, is_bad: bool) -> list[Span]:
    """A shop's agent: a model call, then a refund, which fails in a bad turn."""
    broken: dict[str, Any] = (
        {"status": StatusCode.ERROR, "message": "no such order"} if is_bad else {}
    )
    answer = '[{"role": "assistant", "parts": [{"type": "text", "content": "I pay it back."}]}]'
    model = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": 120, "gen_ai.usage.output_tokens": 8,
        "gen_ai.output.messages": answer,
    }  # fmt: skip
    tool = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund",
        "gen_ai.tool.call.arguments": ARGUMENTS, "shop.region": "eu",
        **({} if is_bad else {"gen_ai.tool.call.result": "paid"}),
    }  # fmt: skip
    return [
        span(1, "answer", None, (0, 900), trace=trace),
        span(2, "chat m-1", 1, (10, 400), model, trace=trace),
        span(3, "execute_tool refund", 1, (400, 850), tool, trace=trace, **broken),
    ]


def profile() -> AgentEvalProfile:
    condition = AlertCondition(0.9, AlertThreshold.Below, 0.1)
    return AgentEvalProfile(
        [
            AssertionTask("polite", "answer", "please", Op.Contains),
            TraceAssertionTask("no_errors", TraceAssertion.trace_error_count(), 0, Op.Equals),
            AgentAssertionTask(
                "paid", AgentAssertion.tool_result("refund"), "paid", Op.Equals, source="spans"
            ),
        ],
        AgentEvalConfig(
            name="shop",
            alert_config=AgentAlertConfig(alert_condition=condition, window=20, min_samples=5),
        ),
        alias="shop",
    )


@contextmanager
def shop(folder: Path) -> Generator[tuple[Service, str]]:
    """A collector with a right and a wrong turn, and its address."""
    path = profile().save_to_json(folder / "shop.json")
    service = Service(folder, profile=[str(path)], deadline_s="60s", quiet_s="60s")
    try:
        spans = [*turn(GOOD, is_bad=False), *turn(BAD, is_bad=True)]
        answer = service.http.post("/v1/traces", json=spans_to_otlp_json(spans))
        assert answer.status_code == 200, answer.text
        service.send(_record("good", GOOD, "Yes, please."), _record("bad", BAD, "Yes, please."))
        service.wait_for(2)
        with serve(service.collector.app) as address:
            yield service, address
    finally:
        service.stop()


def _record(name: str, trace: str | None, answer: str, profile: str = "shop") -> dict[str, Any]:
    return {
        "uid": f"u-{name}", "record_id": name, "session_id": "talk", "profile": profile,
        "trace_id": trace, "context": {"answer": answer, "long": "x" * 1_000},
        "tags": {"who": "me"},
    }  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one collector for all tests that leave nothing in it."""
    with shop(tmp_path_factory.mktemp("shop")) as (_, address):
        yield address


@pytest.fixture
def url(shared: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("SCOUTER_URL", shared)
    return shared


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A collector of the test's own, that commands ask."""
    monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
    with shop(tmp_path) as (service, address):
        monkeypatch.setenv("SCOUTER_URL", address)
        yield service


def test_from_an_alert_to_the_guilty_span(
    service: Service,
    scouter: Scouter,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log line names the profile, and each command what the next one needs."""
    with caplog.at_level(logging.WARNING):
        service.send(*(_record(f"b{n}", None, "No.") for n in range(5)))
        service.wait_for(7)
        wait_until(lambda: "firing" in caplog.text, what="the alert")
    (line,) = [each for each in caplog.messages if "firing" in each]
    alias = line.split("'")[1]

    listed = scouter("results", "evaluations", "--profile", alias, "--trace", BAD)
    header, row = listed.stdout.splitlines()
    assert header.split()[-3:] == ["first", "reason", "trace"]
    assert "no_errors (failed)" in row
    assert "TraceErrorCount() is 1, expected Equals 0" in row

    shown = scouter("results", "record", "bad").stdout
    assert f"trace: {BAD}" in shown
    assert f"spans: {GUILTY}" in shown

    lines = scouter("results", "trace", BAD).stdout.splitlines()
    at = next(n for n, each in enumerate(lines) if GUILTY in each)
    assert lines[at].split("  ")[1:] == [
        "execute_tool refund", "450 ms", "internal", "tool refund", "ERROR no such order",
        f"[{GUILTY}]",
    ]  # fmt: skip
    below = lines[at + 1 :]
    assert below[0].startswith("    ✗ no_errors: failed, shop, record bad: ")
    assert below[1].startswith("    ! paid: errored (missing_path), shop, record bad: ")
    assert f"      arguments: {json.dumps(json.loads(ARGUMENTS))}" in below


def test_a_trace(url: str, scouter: Scouter) -> None:  # noqa: F811
    """Its sums first, then the tree; attributes with `--full` only."""
    lines = scouter("results", "trace", GOOD).stdout.splitlines()
    assert lines[:6] == [
        f"trace {GOOD}, 900 ms, 3 spans, 120 → 8 tokens",
        "✓ passed  shop, record good (u-good)",
        "",
        f"answer  900 ms  internal  [{1:016x}]",
        f"  chat m-1  390 ms  internal  model m-1 · 120 → 8 tokens  [{2:016x}]",
        "      output assistant: I pay it back.",
    ]
    assert "      result: paid" in lines
    assert lines[-3:] == [
        "results that name none of these spans",
        "  ✓ polite: passed, shop, record good",
        "  ✓ no_errors: passed, shop, record good",
    ]
    assert not any("shop.region" in line for line in lines)
    assert "shop.region" in scouter("results", "trace", GOOD, "--full").stdout

    (text,) = scouter("results", "trace", BAD, "--json").stdout.splitlines()
    found = json.loads(text)
    assert [each["depth"] for each in found["view"]["spans"]] == [0, 1, 1]
    assert found["view"]["spans"][2]["arguments"] == json.loads(ARGUMENTS)
    results = found["view"]["spans"][2]["tasks"]
    assert [(each["task_id"], each["actual"]) for each in results] == [
        ("no_errors", 1), ("paid", None)
    ]  # fmt: skip
    with ScouterClient(url) as client:
        tree = client.trace_view(BAD, limit=2)
    assert (len(tree.view.spans), tree.view.left_out, tree.view.errors) == (2, 1, 1)


def test_ids_of_a_span_are_not_cut(url: str) -> None:
    with ScouterClient(url) as client, pytest.raises(ApiError, match="text_limit"):
        client.span(BAD, GUILTY, text_limit=31)


def test_parts_of_a_trace(url: str) -> None:
    """Each by the method of its route."""
    with ScouterClient(url) as client:
        rows, agents, turn = (
            client.trace_columns(BAD, limit=1), client.trace_agents(BAD), client.trace_turn(BAD)
        )  # fmt: skip
        errors = client.trace_matches(BAD, {"WithStatus": {"status": "Error"}})
        chats = client.trace_matches(BAD, "^chat")
        one = client.span(BAD, GUILTY, text_limit=32)
        value = b"".join(client.span_value(BAD, GUILTY, "/arguments"))
        file = b"".join(client.trace_export(BAD))
    assert (rows.columns.total, rows.columns.span_ids) == (3, f"{1:016x}")
    assert {each.record_id for each in rows.evaluations} == {"bad"}
    assert [(each.model_calls, each.tools[0].name) for each in agents.items] == [(1, "refund")]
    assert [(each.tool, each.span_id) for each in turn.turn.calls] == [("refund", GUILTY)]
    assert errors.span_ids == (GUILTY,)
    assert chats.span_ids == (f"{2:016x}",)
    message = "TraceErrorCount() is 1, expected Equals 0"
    assert (one.span.span_id, one.span.tasks[0].message) == (GUILTY, message[:32])
    assert ("/tasks/0/message", len(message)) in {(e.pointer, e.characters) for e in one.cut}
    assert json.loads(value) == json.loads(ARGUMENTS)
    assert len(spans_from_otlp_json(json.loads(file)).spans) == 3


def test_a_record(url: str, scouter: Scouter) -> None:  # noqa: F811
    """Context, tasks with what they compared and where, and how much of a value is left out."""
    lines = scouter("results", "record", "u-bad").stdout.splitlines()
    assert lines[0] == "record bad, evaluated"
    assert {"  uid: u-bad", "  session: talk", "  tags: who=me"} <= set(lines)
    assert "more characters)" in "\n".join(lines)
    assert "x" * 1_000 in scouter("results", "record", "bad", "--full").stdout
    at = lines.index("  ✗ no_errors: failed")
    assert [each.strip() for each in lines[at + 1 : at + 6]] == [
        "message: TraceErrorCount() is 1, expected Equals 0",
        'path: {"TraceErrorCount": {}}',
        "expected: Equals 0",
        "actual: 1",
        f"spans: {GUILTY}",
    ]
    at = lines.index("  ✓ polite: passed")
    assert lines[at + 2].strip() == "path: answer"

    (text,) = scouter("results", "record", "bad", "--json").stdout.splitlines()
    found = json.loads(text)
    assert found["record"]["context"]["answer"] == "Yes, please."
    assert found["paths"]["polite"] == "answer"


def test_why_a_record_is_not_evaluated_yet(
    service: Service,
    scouter: Scouter,  # noqa: F811
) -> None:
    """No profile, no span of its trace, a parent that has not come."""
    orphan = span(7, "chat", 6, (0, 1), trace=f"{4:032x}")
    assert service.http.post("/v1/traces", json=spans_to_otlp_json([orphan])).is_success
    service.send(
        _record("lost", None, "", profile="nobody"),
        _record("early", f"{3:032x}", ""),
        _record("part", f"{4:032x}", ""),
    )
    for name, says in (
        ("lost", "no profile 'nobody' is registered"),
        ("early", "no span of its trace has come"),
        ("part", "lacks 1 span that others name as parent"),
    ):
        shown = scouter("results", "record", name).stdout
        assert f"record {name}, waiting" in shown
        assert f"  not evaluated: {says}" in shown.replace("its trace has 1 span, and ", "")


def test_a_session(url: str, scouter: Scouter) -> None:  # noqa: F811
    """Its records by time; of each, what did not pass."""
    shown = scouter("results", "session", "talk").stdout
    assert shown.startswith("session talk, 2 records in 2 traces: 1 passed, 1 failed")
    assert f"uid u-bad, trace {BAD}" in shown
    assert "  ✗ no_errors: failed: TraceErrorCount() is 1" in shown
    (text,) = scouter("results", "session", "talk", "--json").stdout.splitlines()
    assert {each["uid"] for each in json.loads(text)["items"]} == {"u-good", "u-bad"}


def test_sessions_and_traces_by_what_they_have(url: str, scouter: Scouter) -> None:  # noqa: F811
    """Two turns of one session: one passed, one failed as the refund did."""
    for words, wanted in (
        (("sessions", "--outcome", "failed"), 1),
        (("sessions", "--outcome", "passed"), 0),
        (("sessions", "--task", "no_errors", "--task-outcome", "failed", "--tool", "refund"), 1),
        (("sessions", "--tag", "who=me"), 1),
        (("sessions", "--tag", "who=you"), 0),
        (("sessions", "--min-tokens", "256"), 1),
        (("sessions", "--min-tokens", "257"), 0),
        (("sessions", "--text", "i PAY it", "--outcome", "failed"), 1),
        (("sessions", "--text", "i pay them"), 0),
        (("traces", "--outcome", "failed"), 1),
        (("traces", "--outcome", "passed", "--tool", "refund"), 1),
        (("traces", "--text", "i PAY it", "--since", "0"), 2),
        (("traces", "--text", '"a-17"', "--since", "0"), 0),
        (("traces", "--text", "a-17", "--since", "0", "--status", "error"), 1),
        (("traces", "--tool", "refund", "--same-span"), 2),
        (("traces", "--without-tool", "refund"), 0),
    ):
        done = scouter("results", *words, "--json")
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == wanted, words
    (_, line) = scouter("results", "sessions").stdout.splitlines()
    assert line.split()[2:9] == ["talk", "2", "2", "1", "1", "0", "0"]
    assert line.split()[-2:] == ["240", "16"]
    (_, line) = scouter("results", "traces", "--outcome", "failed").stdout.splitlines()
    assert BAD in line
    refused = scouter("results", "traces", "--tag", "who")
    assert (refused.returncode, "KEY=VALUE" in refused.stderr) == (2, True)


def test_a_record_by_an_id_that_repeats(
    service: Service,
    scouter: Scouter,  # noqa: F811
) -> None:
    """Nobody can tell which is meant, so the uids are named."""
    service.send({**_record("bad", None, ""), "uid": "u-other"})
    done = scouter("results", "record", "bad")
    assert done.returncode == 2
    assert "'bad'" in done.stderr
    assert "u-bad" in done.stderr
    assert "u-other" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("trace", "f" * 32), "no span of the trace"),
        (("trace", "xyz"), "32 hex digits"),
        (("record", "nobody"), "no record 'nobody'"),
        (("session", "nobody"), "no record of a session 'nobody'"),
    ],
)
def test_what_is_not_there_is_one_line_and_2(
    url: str,
    scouter: Scouter,  # noqa: F811
    words: tuple[str, ...],
    says: str,
) -> None:
    done = scouter("results", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_evaluations_of_one_version_of_a_service(url: str, scouter: Scouter) -> None:  # noqa: F811
    """By the service's version; by the profile's, its digest is the profile's name."""
    (line, *_) = scouter("results", "evaluations", "--json").stdout.splitlines()
    version = json.loads(line)["profile_version"]
    assert len(scouter("results", "evaluations", "--profile", version).stdout.splitlines()) == 3
    none = scouter("results", "evaluations", "--service-version", "9.9")
    assert (none.returncode, none.stdout) == (0, "")
    assert none.stderr.startswith("scouter: there is none.")


def _answer(request: LLMRequest) -> JsonValue:
    return {"score": 1 if "Look at" in request.text else 2, "reason": "it is curt"}


def test_what_a_judge_was_asked_and_answered(
    start: Start,  # noqa: F811
    tmp_path: Path,
    scouter: Scouter,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The question is made anew, with what a task before it found; the answer is stored."""
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")
    monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
    prompt = Prompt("Rate ${answer}, known as ${was}.", "model-1", "house", output_type=Score)
    about_calls = Prompt("Look at ${agent_trajectory}.", "model-1", "house", output_type=Score)
    profile = AgentEvalProfile(
        [
            AssertionTask("was", "kind", "reply", Op.Equals),
            LLMJudgeTask(
                "tone", prompt, 3, "score", Op.GreaterThanOrEqual, depends_on=["was"]
            ),
            TrajectoryTask("calls", prompt_without_reference=about_calls),
        ],
        alias="judged",
    )  # fmt: skip
    file = profile.save_to_json(tmp_path / "judged.json")
    with LLMTestServer(_answer) as server:
        house = {"kind": "openai", "base_url": server.url, "key_variable": "HOUSE_KEY"}
        service = start(profile=[str(file)], providers={"house": house})
        spans = spans_to_otlp_json(turn(GOOD, is_bad=False))
        assert service.http.post("/v1/traces", json=spans).is_success
        context = {"answer": "No.", "kind": "reply"}
        service.send({"uid": "u1", "profile": "judged", "context": context, "trace_id": GOOD})
        service.wait_for(1)
        wait_until(
            lambda: service.collector.store.pending_count() == 0,
            what="the judge",
        )
        with serve(service.collector.app) as address:
            monkeypatch.setenv("SCOUTER_URL", address)
            lines = scouter("results", "record", "u1").stdout.splitlines()
            (text,) = scouter("results", "record", "u1", "--json").stdout.splitlines()
        by_text = {"Look at" in each.text: each for each in server.questions}
    assert len(server.questions) == 2
    at = lines.index("  ✗ tone: failed")
    shown = [each.strip() for each in lines[at:]]
    user, *_ = (each for each in shown if each.startswith("asked, as user: "))
    assert re.sub("</?data-[0-9a-f]+>|\\s", "", user) == "asked,asuser:RateNo.,knownasreply."
    assert 'the judge answered: {"score": 2, "reason": "it is curt"}' in shown
    assert "score: 2" in shown
    assert any("revision 1: pending" in each for each in shown)
    for task, is_about_calls in (("tone", False), ("calls", True)):
        asked, sent = json.loads(text)["prompts"][task], by_text[is_about_calls]
        assert [each["role"] for each in asked] == [each["role"] for each in sent.messages]
        assert all(each["content"] in sent.text for each in asked)
    assert '"order": "A-17"' in asked[-1]["content"]


_TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")


def test_the_page_shows_what_the_commands_print(
    start: Start,  # noqa: F811
    tmp_path: Path,
    scouter: Scouter,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The example of `docs/operate.md`, but for its times and the spaces at the end of lines."""
    monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
    page = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```console\n(\$ scouter results .*?)```", page, flags=re.DOTALL)
    errors = TraceAssertion.trace_error_count()
    profile = AgentEvalProfile(
        [TraceAssertionTask("no_errors", errors, 0, Op.Equals)],
        AgentEvalConfig(name="shop"),
        alias="shop",
    )
    service = start(profile=[str(profile.save_to_json(tmp_path / "shop.json"))])
    trace = "0af7651916cd43dd8448eb211c8031a4"
    spans = spans_to_otlp_json(turn(trace, is_bad=True))
    assert service.http.post("/v1/traces", json=spans).is_success
    service.send({
        "uid": "u-8", "record_id": "order-23", "session_id": "chat-17", "profile": "shop",
        "trace_id": trace, "context": {"answer": "Done."},
    })  # fmt: skip
    service.wait_for(1)
    with serve(service.collector.app) as address:
        monkeypatch.setenv("SCOUTER_URL", address)
        for example in block.removeprefix("$ ").split("\n\n$ "):
            command, _, printed = example.partition("\n")
            done = scouter(*command.split()[1:])
            assert _plain(done.stdout) == _plain(printed), command


def _plain(text: str) -> list[str]:
    return [_TIMES.sub("TIME", line).rstrip() for line in text.strip().splitlines()]
