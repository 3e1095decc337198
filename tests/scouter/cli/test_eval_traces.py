"""`scouter eval --traces`: recorded traces judged offline, with reports and gates."""

import json
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from scouter.cli.app import make_app
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate import EvalDataset, ScenarioEvalResults
from scouter.evaluate.engine.checks import use_checks
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.spans.derived import derive_record, derived_uid
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.otlp_json import spans_to_otlp_json
from scouter.model.span import Resource, Span
from tests.conftest import StartCollector
from tests.support.processes import wait_until

RIGHT, WRONG = "1" * 32, "2" * 32
SHOP = Resource(attributes={"service.name": "shop"})


def trace(
    trace_id: str, question: str, answer: str, *, session: str = "", at_ns: int = 10
) -> list[Span]:
    """An agent that calls a tool, then answers, as OpenTelemetry's conventions have it."""

    def message(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": message("user", question),
        "gen_ai.output.messages": message("assistant", answer),
        **({"gen_ai.conversation.id": session} if session else {}),
    }
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "atlas"}
    return [
        Span(trace_id=trace_id, span_id="a" * 16, name="agent", start_ns=at_ns, end_ns=at_ns + 9),
        Span(trace_id=trace_id, span_id="b" * 16, parent_span_id="a" * 16, name="tool",
             start_ns=at_ns + 1, end_ns=at_ns + 2, attributes=tool),
        Span(trace_id=trace_id, span_id="c" * 16, parent_span_id="a" * 16, name="chat",
             start_ns=at_ns + 3, end_ns=at_ns + 4, attributes=chat),
    ]  # fmt: skip


OTHER = Span(trace_id="3" * 32, span_id="d" * 16, name="GET /healthz", start_ns=1, end_ns=2)


def line(spans: list[Span]) -> str:
    return json.dumps(spans_to_otlp_json(spans)) + "\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Traces with one right and one wrong answer, and the profile that says so."""
    traces = tmp_path / "traces.jsonl"
    traces.write_text(
        line(trace(RIGHT, "Capital of Australia?", "Canberra"))
        + line(trace(WRONG, "Capital of Brazil?", "Rio", at_ns=50))
        + line([OTHER])
    )
    tasks = [
        AssertionTask("known", "answer", "^(Canberra|Brasilia)$", ComparisonOperator.MatchesRegex),
        AgentAssertionTask("looked", AgentAssertion.tool_called("atlas"), True,
                           ComparisonOperator.Equals, source="spans"),
    ]  # fmt: skip
    profile = AgentEvalProfile(tasks, alias="atlas").save_to_json(tmp_path / "profile.json")
    return traces, profile


def run(traces: object, *arguments: object) -> tuple[int, str]:
    words = ["eval", "--traces", str(traces), *map(str, arguments)]
    result = CliRunner().invoke(make_app(), words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 2, f"{result.output}{result.exception}"
    return result.exit_code, result.output


def test_traces_are_judged_as_the_engine_judges_them(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    """Counted by hand: of four checks three pass; the same as `EvalDataset` gives."""
    traces, profile = files
    save = tmp_path / "results.json"
    code, text = run(traces, "--profile", profile, "--save", save)
    assert code == 0, text
    assert "left out 1 traces" in text
    assert "1 of 2 scenarios passed" in text

    results = ScenarioEvalResults.load(save)
    rows = list(results.dataset_results["atlas"].aligned_results)
    assert [row.record_id for row in rows] == ["Capital of Australia?", "Capital of Brazil?"]
    assert [row.record_uid for row in rows] == [
        derived_uid(RIGHT, "atlas"), derived_uid(WRONG, "atlas"),
    ]  # fmt: skip
    spans = trace(RIGHT, "Capital of Australia?", "Canberra")
    spans += trace(WRONG, "Capital of Brazil?", "Rio", at_ns=50)
    records = [derive_record(spans[:3]), derive_record(spans[3:])]
    direct = EvalDataset(records, AgentEvalProfile.from_file(profile).tasks, spans).evaluate()
    assert [row.outcome for row in direct.aligned_results] == [row.outcome for row in rows]


def test_gates_baselines_and_exit_codes(files: tuple[Path, Path], tmp_path: Path) -> None:
    """0 go, 1 stop, 2 wrong input, 3 open; other recordings of the questions are comparable."""
    traces, profile = files
    save = tmp_path / "results.json"
    assert run(traces, "--profile", profile, "--min-pass-rate", 0.75, "--save", save)[0] == 0
    assert run(traces, "--profile", profile, "--min-pass-rate", 0.8)[0] == 1
    assert run(traces, "--profile", profile, "--min-scenario-pass-rate", 0.5)[0] == 0
    code, text = run(traces, "--profile", profile, "--min-scenario-pass-rate", 0.6)
    assert code == 1
    assert "scenarios passed: 50.0% (1 of 2), wanted at least 60.0%" in " ".join(text.split())
    again, worse = tmp_path / "again.jsonl", tmp_path / "worse.jsonl"
    again.write_text(
        line(trace("8" * 32, "Capital of Australia?", "Canberra"))
        + line(trace("9" * 32, "Capital of Brazil?", "Rio", at_ns=50))
    )
    worse.write_text(again.read_text().replace("Canberra", "Sydney"))
    assert run(again, "--profile", profile, "--baseline", save)[0] == 0
    code, text = run(worse, "--profile", profile, "--baseline", save)
    assert (code, "Inconclusive" in text) == (3, True)  # one of two fell, which may be chance
    assert run(traces)[0] == 2  # nothing judges
    assert run(tmp_path / "none", "--profile", profile)[0] == 2
    assert run(traces, "--profile", profile, "--since", "1d")[0] == 2  # they began in 1970
    assert run(traces, "--profile", profile, "--agent", "a:b")[0] == 2
    assert run(traces, "--profile", profile, "--require-ruled-out", 10)[0] == 2


def test_reports_are_those_of_a_release_check(files: tuple[Path, Path], tmp_path: Path) -> None:
    traces, profile = files
    paths = {name: tmp_path / f"report.{name}" for name in ("junit", "markdown", "html", "json")}
    flags = [part for name, path in paths.items() for part in (f"--{name}", path)]
    assert run(traces, "--profile", profile, *flags)[0] == 0
    for path in paths.values():
        assert "Capital of Brazil?" in path.read_text()


def test_a_bad_line_is_named_and_stops_only_the_verdict(
    files: tuple[Path, Path],
) -> None:
    """Everything else is judged; --allow-lost lets it pass."""
    traces, profile = files
    traces.write_text(traces.read_text() + "{broken\n")
    code, text = run(traces, "--profile", profile)
    assert code == 1
    assert "line 4" in text
    assert "1 of 2 scenarios passed" in text
    assert run(traces, "--profile", profile, "--allow-lost")[0] == 0


def test_traces_of_one_conversation_are_one_session(tmp_path: Path) -> None:
    """A task of that scope is judged once, over the records of both traces."""
    traces = tmp_path / "traces.json"
    first = trace(RIGHT, "Hi", "Hello", session="s")
    traces.write_text(line([*trace(WRONG, "Hi", "Bye", session="s", at_ns=50), *first]))
    task = AssertionTask(
        "two", "records", 2, ComparisonOperator.HasLengthEqual, scope="session"
    )  # fmt: skip
    profile = AgentEvalProfile([task], alias="talk").save_to_json(tmp_path / "profile.json")
    save = tmp_path / "results.json"
    code, text = run(traces, "--profile", profile, "--save", save)
    assert code == 0, text
    results = ScenarioEvalResults.load(save)
    (conversation,) = results.conversations
    assert [turn["agent"] for turn in conversation.turns] == ["Hello", "Bye"]
    (session,) = results.dataset_results["talk"].sessions
    assert [(task.task_id, task.outcome) for task in session.tasks] == [("two", "passed")]


def test_traces_of_no_agent_are_judged_if_requested(files: tuple[Path, Path]) -> None:
    """Such a record has no answer: its task is errored, and nothing passes by it."""
    traces, profile = files
    code, text = run(traces, "--profile", profile, "--every-trace")
    assert code == 1
    assert "1 of 3 records errored" in text
    traces.write_text(line([OTHER]))
    code, text = run(traces, "--profile", profile)
    assert code == 2
    assert "--every-trace" in text


def test_checks_of_a_module_are_found(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their names are known when the profile is read; without the option they are refused."""
    monkeypatch.chdir(tmp_path)
    traces, save = files[0], tmp_path / "run.json"
    own = tmp_path / "own.yaml"
    own.write_text("alias: atlas\ntasks: [{task_type: Code, id: short, check: short}]\n")
    (tmp_path / "own_checks.py").write_text(
        'def short(context, spans):\n    return len(context["answer"]) < 5\n'
    )
    code, text = run(traces, "--profile", own)
    assert (code, "no check is called 'short'" in text) == (2, True)
    try:
        code, text = run(traces, "--profile", own, "--checks", "own_checks", "--save", save)
    finally:
        use_checks("")

    assert code == 0, text
    rows = ScenarioEvalResults.load(save).dataset_results["atlas"].aligned_results
    assert [row.outcome for row in rows] == ["failed", "passed"]
    code, text = run(traces, "--profile", own, "--checks", "nowhere")
    assert (code, "--checks nowhere: ModuleNotFoundError" in text) == (2, True)


def test_a_watch_selects_what_its_profile_judges(files: tuple[Path, Path], tmp_path: Path) -> None:
    """As in a collector, but for its shares; the other profile judges both traces."""
    traces, profile = files
    marked = [replace(each, resource=SHOP) for each in trace("7" * 32, "Open?", "Yes")]
    (tmp_path / "more.jsonl").write_text(traces.read_text() + line(marked))
    watching = tmp_path / "shop.yaml"
    watching.write_text(
        "alias: shop\nwatch: {match: {service: shop}, sample: 0}\ntasks: [{task_type: Assertion,"
        " id: said, context_path: answer, operator: Contains, expected_value: es}]\n"
    )
    save = tmp_path / "results.json"
    pattern = tmp_path / "mor*.jsonl"
    code, text = run(pattern, "--profile", profile, "--profile", watching, "--save", save)
    assert code == 0, text
    found = ScenarioEvalResults.load(save).dataset_results
    names = {
        alias: [row.record_id for row in each.aligned_results] for alias, each in found.items()
    }
    assert names == {
        "atlas": ["Capital of Australia?", "Open?", "Capital of Brazil?"], "shop": ["Open?"],
    }  # fmt: skip
    code, text = run(traces, "--profile", watching)
    assert (code, "the watch of the profile selects none" in text) == (2, True)


def test_the_traces_of_a_collector_are_those_of_a_file(
    files: tuple[Path, Path], start_collector: StartCollector, tmp_path: Path
) -> None:
    """Whole, by address and time; nothing is stored there."""
    _, profile = files
    now_ns = time.time_ns()
    sent = tmp_path / "sent.jsonl"
    old, new = now_ns - 3 * 86_400 * 10**9, now_ns - 60 * 10**9
    parts = [trace(RIGHT, "Capital of Australia?", "Canberra", at_ns=new),
             trace(WRONG, "Capital of Brazil?", "Rio", at_ns=old)]  # fmt: skip
    sent.write_text("".join(map(line, parts)))
    collector = start_collector()
    for part in parts:
        body = spans_to_otlp_json(part)
        httpx.post(f"{collector.url}/v1/traces", json=body, timeout=120).raise_for_status()
    wait_until(
        lambda: len(collector.get("/api/v1/traces", {"since": "0"})["items"]) == 2, what="two"
    )
    saves = [tmp_path / f"{name}.json" for name in ("file", "url")]
    for source, save in zip((sent, collector.url), saves, strict=True):
        code, text = run(source, "--profile", profile, "--save", save)
        assert code == 0, text
        assert "1 of 2 scenarios passed" in text
    from_file, from_url = (
        [(row.record_uid, row.record_id, row.outcome) for row in
         ScenarioEvalResults.load(save).dataset_results["atlas"].aligned_results]
        for save in saves
    )  # fmt: skip
    assert from_file == from_url
    code, text = run(collector.url, "--profile", profile, "--since", "1d")
    assert (code, "1 of 1 scenario" in text) == (0, True), text
    assert collector.records()["accepted"] == 0
    code, text = run("http://127.0.0.1:9", "--profile", profile)
    assert (code, "does a collector listen there?" in text) == (2, True)
