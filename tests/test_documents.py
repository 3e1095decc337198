"""Every example of the main document runs as written; the outcomes are worked out by hand.

The examples lie word for word in `tests/documents`. Where one leaves something open (the user's
own agent, a name that an earlier example defined), the test supplies it.
"""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import scouter.drift
import scouter.evaluate
from scouter.errors import FileFormatError
from scouter.model.record import EvalRecord
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.tracer import shutdown_tracer

DOCUMENTS = Path(__file__).parent / "documents"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] pytest calls it
    """Examples write into the working folder, and set tracing up for the whole process."""
    monkeypatch.chdir(tmp_path)
    yield
    if ScouterInstrumentor().is_instrumented:
        ScouterInstrumentor().uninstrument()
    shutdown_tracer()


def run(name: str, **given: object) -> dict[str, Any]:
    """Execute an example with the names that it leaves open; give back its namespace."""
    path = DOCUMENTS / name
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    names: dict[str, Any] = {"__name__": path.stem, **given}
    exec(code, names)  # noqa: S102 the documents' own text
    return names


def run_fragment(name: str, **given: object) -> dict[str, Any]:
    """Execute an example that takes its imports from the ones before it."""
    public = {word: getattr(scouter.evaluate, word) for word in scouter.evaluate.__all__}
    profile = scouter.drift.AgentEvalProfile
    return run(name, **{**public, "AgentEvalProfile": profile, "Any": Any, **given})


def printed(action: Callable[[], object]) -> str:
    """The text that an action writes to standard output."""
    with redirect_stdout(io.StringIO()) as out:
        action()
    return out.getvalue()


@dataclass
class Service:
    """A stand-in for an agent, a session service or a user model, that remembers its calls."""

    answers: list[str]
    calls: list[Any] = field(default_factory=list[Any])

    def _next(self, *call: object) -> str:
        self.calls.append(call)
        return self.answers[min(len(self.calls), len(self.answers)) - 1]

    def create(self) -> str:
        return self._next()

    def chat(self, message: str, session_id: str = "") -> str:
        return self._next(message, session_id)

    def run(self, message: str, history: list[Any] | None = None, session_id: str = "") -> str:
        return self._next(message, list(history or ()), session_id)

    def respond(self, initial_query: str, response: str, history: list[Any]) -> str:
        return self._next(initial_query, response, list(history))


def test_quick_start(capsys: pytest.CaptureFixture[str]) -> None:
    """One record of quality 9 >= 7: everything passed, and the table says so."""
    results = run("quick_start.py")["results"]

    assert results.metrics.overall_pass_rate == 1.0
    assert results.metrics.workflow_pass_rate == 1.0
    assert results.metrics.dataset_pass_rates == {"my_agent": 1.0}
    assert (results.metrics.total_scenarios, results.metrics.passed_scenarios) == (1, 1)
    [row] = results.dataset_results["my_agent"].aligned_results
    assert (row.scenario_id, row.eval_set.records[0].actual) == ("capital_question", 9)
    table = capsys.readouterr().out
    assert "Aggregate Metrics" in table
    assert "my_agent" in table
    assert "100.0%" in table


def test_quick_start_can_be_run_again() -> None:
    """The second run of one orchestrator starts from nothing (defect 6)."""
    names = run("quick_start.py")
    again = scouter.evaluate.EvalOrchestrator(
        queue=names["queue"], scenarios=names["scenarios"], agent_fn=names["my_agent"]
    )
    assert [len(again.run().dataset_results["my_agent"]) for _ in range(2)] == [1, 1]


def test_multi_agent_sees_only_the_spans_of_its_own_scenario() -> None:
    """Two scenarios, one `retriever_call` each: every record counts exactly one (defect 5)."""
    names = run("multi_agent.py")
    results = names["results"]

    retriever = results.dataset_results["retriever"].aligned_results
    assert [row.scenario_id for row in retriever] == ["rag_basics", "attention"]
    assert [{task.task_id: task.actual for task in row.eval_set.records} for row in retriever] == [
        {"has_results": 5, "retriever_span_emitted": 1}
    ] * 2
    assert results.metrics.dataset_pass_rates == {"retriever": 1.0, "synthesizer": 1.0}
    assert results.metrics.overall_pass_rate == 1.0
    assert not ScouterInstrumentor().is_instrumented
    assert not names["queue"].is_capturing


def test_results_reference(capsys: pytest.CaptureFixture[str]) -> None:
    """`rag_basics` has no tasks of its own: its 3 record tasks of two sub-agents all passed."""
    results = run("multi_agent.py")["results"]
    capsys.readouterr()
    detail = run("results_reference.py", results=results)["detail"]

    out = capsys.readouterr().out
    assert out.endswith("1.0\nTrue\n")
    assert "Dataset: retriever" in out
    assert [task.task_id for task in detail.task_results] == [
        "has_results",
        "retriever_span_emitted",
        "quality_score",
    ]
    with pytest.raises(KeyError, match="Missing key: nope; the scenarios are 'rag_basics'"):
        results.get_scenario_detail("nope")


def _made_by(name: str, cls: Callable[..., object]) -> Any:
    """The object that an example makes and gives no name."""
    made: list[object] = []

    def catch(**fields: object) -> None:
        made.append(cls(**fields))

    run_fragment(name, **{cls.__name__: catch})
    return made[0]


def test_eval_scenario() -> None:
    """The scenario's own task reads the agent's response."""
    names = run("quick_start.py")
    scenario = _made_by("eval_scenario.py", scouter.evaluate.EvalScenario)
    results = scouter.evaluate.EvalOrchestrator(
        names["queue"], scouter.evaluate.EvalScenarios(scenarios=[scenario]), names["my_agent"]
    ).run()
    assert results.metrics.scenario_task_pass_rates == {"scenario_id": {"response_not_empty": 1.0}}


def test_agent_eval_profile() -> None:
    """Its one task passes for one result and fails for none."""
    profile = _made_by("agent_eval_profile.py", scouter.drift.AgentEvalProfile)
    records = [EvalRecord(context={"results": {"count": count}}) for count in (1, 0)]
    results = scouter.evaluate.EvalDataset(records, profile.tasks).evaluate()
    assert [row.eval_set.records[0].passed for row in results] == [True, False]


def test_eval_record() -> None:
    """The record gets the active span's trace id."""
    names = run("multi_agent.py")
    queue, tracer = names["queue"], names["tracer"]
    queue.enable_capture()
    with tracer.start_as_current_span("agent") as span:
        run_fragment("eval_record.py", span=span)
        trace_id = f"{span.get_span_context().trace_id:032x}"
    [record] = queue.drain_records("retriever")
    queue.disable_capture()
    assert record.trace_id == trace_id
    assert record.context == {"results": {"count": 5, "source": "arxiv"}}


def test_multi_turn() -> None:
    """The agent gets the first query and both turns, in order; tasks read the last answer."""
    names = run("quick_start.py")
    heard: list[str] = []

    def agent(message: str) -> str:
        heard.append(message)
        return f"answer {len(heard)}"

    scenario = _made_by("multi_turn.py", scouter.evaluate.EvalScenario).model_copy(
        update={"tasks": (_contains("answer 3"),)}
    )
    results = scouter.evaluate.EvalOrchestrator(
        names["queue"], scouter.evaluate.EvalScenarios(scenarios=[scenario]), agent
    ).run()
    assert heard == ["Plan a dinner for 4 people.", "Make it vegetarian.", "Add a dessert."]
    assert results.metrics.passed_scenarios == 1


def _contains(text: str) -> Any:
    return scouter.evaluate.AssertionTask(
        id="says",
        context_path="response",
        operator=scouter.evaluate.ComparisonOperator.Contains,
        expected_value=text,
    )


def test_interactive_as_written() -> None:
    """The document's simulated user has no body yet: it says nothing, so one turn it is."""
    names = run("quick_start.py")
    results = run_fragment("interactive.py", queue=names["queue"], my_agent=names["my_agent"])[
        "results"
    ]
    assert len(results.dataset_results["my_agent"]) == 1


def test_interactive_with_a_user() -> None:
    """Two follow-ups, then DONE: three agent turns, all records in one scenario."""
    names = run("quick_start.py")
    fragment = run_fragment("interactive.py", queue=names["queue"], my_agent=names["my_agent"])
    histories: list[list[dict[str, Any]]] = []

    def simulate_user(initial_query: str, agent_response: str, history: list[Any]) -> str:
        histories.append(list(history))
        return ["vegan?", "with dessert?", "thanks, DONE."][len(histories) - 1]

    results = scouter.evaluate.EvalOrchestrator(
        queue=names["queue"],
        scenarios=fragment["scenarios"],
        agent_fn=names["my_agent"],
        simulated_user_fn=simulate_user,
    ).run()
    said = "Paris is the capital of France."
    first, second = "Plan a dinner for 4 people.", "vegan?"
    assert histories == [
        [],
        [{"user": first, "agent": said}],
        [{"user": first, "agent": said}, {"user": second, "agent": said}],
    ]
    rows = results.dataset_results["my_agent"].aligned_results
    assert [row.scenario_id for row in rows] == ["dinner_planning_interactive"] * 3


def test_stateful_agents_by_subclassing() -> None:
    """Each scenario has a session of its own; the user ends it after two turns."""
    names = run("quick_start.py")
    scenarios = _interactive_scenarios()
    orch = run_fragment("stateful_interactive.py")["MyInteractiveEval"](names["queue"], scenarios)
    orch._session_service = Service(["s1", "s2"])
    orch._agent_client = Service(["sure"])
    orch._user_llm = Service(["more", "DONE", "more", "DONE"])

    orch.run()

    assert orch._agent_client.calls == [
        ("hello", "s1"), ("more", "s1"), ("hello", "s2"), ("more", "s2"),
    ]  # fmt: skip
    assert orch._user_llm.calls[1] == ("hello", "sure", [{"user": "hello", "agent": "sure"}])


def _interactive_scenarios() -> Any:
    scenario = scouter.evaluate.EvalScenario
    return scouter.evaluate.EvalScenarios(
        scenarios=[
            scenario(id=name, initial_query="hello", termination_signal="DONE")
            for name in ("one", "two")
        ]
    )


@pytest.mark.parametrize(
    ("file", "count", "stable"),
    [
        ("qa_suite.jsonl", 2, False),
        ("qa_suite_bare.json", 1, False),
        ("qa_suite_wrapped.json", 1, True),
        ("qa_suite.yaml", 2, True),
    ],
)
def test_loading_files(file: str, count: int, stable: bool) -> None:
    """All documented shapes give the same scenarios; two of them name the collection."""
    scenarios = scouter.evaluate.EvalScenarios.from_path(DOCUMENTS / file)
    assert len(scenarios) == count
    assert scenarios[0].initial_query == "What is the capital of France?"
    assert (scenarios.collection_id == "my-qa-suite-v2") == stable
    if file != "qa_suite_wrapped.json":
        assert scenarios[0].tasks[0].id == "mentions_paris"


def test_loading_a_suite_and_running_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The agent always says Paris, so the scenario about water fails: 1 of 2."""
    names = run("quick_start.py")
    (tmp_path / "scenarios").mkdir()
    text = (DOCUMENTS / "qa_suite.jsonl").read_text(encoding="utf-8")
    (tmp_path / "scenarios/qa_suite.jsonl").write_text(text, encoding="utf-8")
    capsys.readouterr()
    results = run_fragment("from_path.py", queue=names["queue"], my_agent=names["my_agent"])[
        "results"
    ]
    assert results.metrics.scenario_pass_rate == 0.5
    assert results.metrics.overall_pass_rate == 0.75  # mean of records 1.0 and scenarios 0.5
    assert results.metrics.scenario_task_pass_rates == {
        "capital_france": {"mentions_paris": 1.0},
        "water_formula": {"mentions_h2o": 0.0},
    }
    out = capsys.readouterr().out
    assert "Scenario Results" in out
    assert "water_formula" in out


def test_other_extensions_and_lines(tmp_path: Path) -> None:
    """The document: the method raises on anything else, and names the line."""
    with pytest.raises(FileFormatError, match=r"Expected \.jsonl, \.json, \.yaml, or \.yml"):
        scouter.evaluate.EvalScenarios.from_path(tmp_path / "scenarios.csv")
    lines = tmp_path / "s.jsonl"
    lines.write_text('{"initial_query": "a"}\n\n{"initial_query": 3}\n', encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"Parse error on line 3: 3 does not fit"):
        scouter.evaluate.EvalScenarios.from_path(lines)


def test_dump_can_be_loaded_again(tmp_path: Path) -> None:
    """The output of `model_dump_json` is a scenario file."""
    scenarios = scouter.evaluate.EvalScenarios.from_path(DOCUMENTS / "qa_suite.yaml")
    path = tmp_path / "again.json"
    path.write_text(scenarios.model_dump_json(), encoding="utf-8")
    assert scouter.evaluate.EvalScenarios.from_path(path) == scenarios


def test_subclassing_execute_agent() -> None:
    """The subclass keeps the history itself: the agent sees 0, 2 and 4 earlier messages."""
    names = run("quick_start.py")
    agent = Service(["a1", "a2", "a3"])
    cls = run_fragment("subclassing.py", my_stateful_agent=agent)["MyAgentEval"]
    scenario = scouter.evaluate.EvalScenario(
        id="s", initial_query="q1", predefined_turns=["q2", "q3"], tasks=[_contains("a3")]
    )
    results = cls(names["queue"], scouter.evaluate.EvalScenarios(scenarios=[scenario])).run()
    assert [(message, len(history)) for message, history, _ in agent.calls] == [
        ("q1", 0), ("q2", 2), ("q3", 4),
    ]  # fmt: skip
    assert results.get_scenario_detail("s").passed


def test_subclassing_interactive() -> None:
    """The agent gets one message at a time, with the session of its scenario."""
    names = run("quick_start.py")
    agent, user = Service(["ok"]), Service(["go on", "DONE"])
    cls = run_fragment("subclassing.py", my_stateful_agent=agent, my_user_llm=user)[
        "MyInteractiveEval"
    ]
    orch = cls(names["queue"], _interactive_scenarios())
    orch._session_service = Service(["s1", "s2"])
    orch.run()
    assert [(message, session) for message, _, session in agent.calls] == [
        ("hello", "s1"), ("go on", "s1"), ("hello", "s2"),
    ]  # fmt: skip


def test_lifecycle_hooks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Start, then done, per scenario; the results are saved and returned at the end."""
    names = run("quick_start.py")
    capsys.readouterr()
    cls = run_fragment("lifecycle_hooks.py")["MyEval"]
    results = cls(names["queue"], names["scenarios"], names["my_agent"]).run()
    assert capsys.readouterr().out == "Starting: capital_question\nDone: capital_question\n"
    loaded = scouter.evaluate.ScenarioEvalResults.load(tmp_path / "latest_run.json")
    assert loaded == results


def test_structured_response() -> None:
    """`response.confidence` is 0.97 directly."""
    names = run("quick_start.py")
    cls = run_fragment("structured_response.py")["StructuredAgent"]
    task = scouter.evaluate.AssertionTask(
        id="confident",
        context_path="response.confidence",
        operator=scouter.evaluate.ComparisonOperator.Equals,
        expected_value=0.97,
    )
    scenario = scouter.evaluate.EvalScenario(id="s", initial_query="q", tasks=[task])
    results = cls(names["queue"], scouter.evaluate.EvalScenarios(scenarios=[scenario])).run()
    [record] = results.get_scenario_detail("s").eval_results.records
    assert (record.tasks[0].actual, record.tasks[0].passed) == (0.97, True)


def test_build_scenario_response() -> None:
    """The document's default passes the response through; it can be put into a subclass."""
    names = run("quick_start.py")
    build = run_fragment("build_scenario_response.py")["build_scenario_response"]
    cls = type(
        "PassThrough", (scouter.evaluate.EvalOrchestrator,), {"build_scenario_response": build}
    )
    results = cls(names["queue"], names["scenarios"], names["my_agent"]).run()
    assert results.metrics.overall_pass_rate == 1.0


def test_conversation_eval() -> None:
    """Three turns: two in the history, and the last one that is not (defect 16)."""
    names = run("quick_start.py")
    agent, user = Service(["a1", "a2", "a3"]), Service(["u2", "u3", "DONE"])
    cls = run_fragment("conversation_eval.py", my_agent=agent, my_user_llm=user)["ConversationEval"]
    expected = {
        "response.turn_count": 3,
        "response.final_response": "a3",
        "response.all_turns": [
            {"user": "hello", "agent": "a1"},
            {"user": "u2", "agent": "a2"},
            {"user": "...", "agent": "a3"},
        ],
    }
    task = scouter.evaluate.AssertionTask
    scenario = scouter.evaluate.EvalScenario(
        id="talk",
        initial_query="hello",
        simulated_user_persona="somebody hungry",
        termination_signal="DONE",
        tasks=[
            task(
                id=path,
                context_path=path,
                operator=scouter.evaluate.ComparisonOperator.Equals,
                expected_value=value,
            )
            for path, value in expected.items()
        ],
    )
    results = cls(names["queue"], scouter.evaluate.EvalScenarios(scenarios=[scenario])).run()
    detail = results.get_scenario_detail("talk")
    assert detail.passed, detail.task_results


class _Worse:
    """An orchestrator whose agent answers well once and badly ever after; no record ids."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.qualities = [9, 1]
        self.orch = scouter.evaluate.EvalOrchestrator(
            names["queue"], names["scenarios"], self.agent
        )
        self.tracer = names["tracer"]

    def agent(self, query: str) -> str:
        with self.tracer.start_as_current_span("agent_call") as span:
            context = {"response": {"quality": self.qualities.pop(0)}}
            span.add_queue_item("my_agent", EvalRecord(context=context))
        return "Paris"


def test_save_and_compare_a_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """100 % to 0 % without explicit record ids is a regression (defect 1)."""
    worse = _Worse(run("quick_start.py"))
    with pytest.raises(SystemExit) as exit_info:
        run_fragment("save_and_compare.py", orch=worse.orch)
    assert exit_info.value.code == 1
    out = capsys.readouterr().out
    assert "Regressed: ['my_agent']" in out
    assert "100% 1/1" in out
    assert "0% 0/1" in out
    stored = json.loads((tmp_path / "baseline_v1.json").read_text(encoding="utf-8"))
    assert stored["schema_version"] == 1
    assert stored["provenance"]["profile_digests"].keys() == {"my_agent"}


def test_save_and_compare_the_same_agent() -> None:
    """The same agent twice: nothing regressed, the script runs to its end."""
    names = run("quick_start.py")
    orch = scouter.evaluate.EvalOrchestrator(names["queue"], names["scenarios"], names["my_agent"])
    comparison = run_fragment("save_and_compare.py", orch=orch)["comparison"]
    assert (comparison.regressed, comparison.exit_code) == (False, 0)


def test_save_comparison(tmp_path: Path) -> None:
    """A comparison comes back from its file as it was."""
    worse = _Worse(run("quick_start.py"))
    before, after = worse.orch.run(), worse.orch.run()
    comparison = after.compare_to(before)
    loaded = run_fragment("save_comparison.py", comparison=comparison)["loaded"]
    assert loaded == comparison
    assert loaded.regressed
    assert loaded.exit_code == 3  # one scenario, whose flip may be chance
    assert (tmp_path / "comparison.json").exists()
    assert "One by one, these got worse" in printed(loaded.as_table)


def test_a_scenario_that_flips_is_a_regression() -> None:
    """The alias stays at 100 %, the scenario's own task fails now (defect 2)."""
    names = run("quick_start.py")
    scenario = scouter.evaluate.EvalScenario(
        id="capital", initial_query="q", tasks=[_contains("Paris")]
    )
    scenarios = scouter.evaluate.EvalScenarios(scenarios=[scenario])
    good = scouter.evaluate.EvalOrchestrator(names["queue"], scenarios, names["my_agent"]).run()
    bad = scouter.evaluate.EvalOrchestrator(
        names["queue"], scenarios, lambda query: names["my_agent"](query).replace("Paris", "Rome")
    ).run()
    comparison = bad.compare_to(good)
    assert comparison.regressed
    assert comparison.regressed_aliases == []
    assert comparison.regressed_scenarios == ["capital"]
    [reason] = comparison.reasons
    assert reason.startswith("scenario 'capital': passed before, failed now: says failed")


def test_an_errored_record_is_a_regression() -> None:
    """The path is gone in the new run: it counts, it is seen, and it is named (defect 3)."""
    worse = _Worse(run("quick_start.py"))
    good = worse.orch.run()
    worse.qualities = []

    def agent(query: str) -> str:
        with worse.tracer.start_as_current_span("agent_call") as span:
            span.add_queue_item("my_agent", EvalRecord(context={"response": {}}))
        return "Paris"

    worse.orch.agent_fn = agent
    bad = worse.orch.run()
    assert bad.metrics.dataset_pass_rates == {"my_agent": 0.0}
    comparison = bad.compare_to(good)
    assert comparison.regressed_aliases == ["my_agent"]
    assert comparison.dataset_comparisons["my_agent"].errored_records == ("capital_question #1",)
    assert any("errored" in reason and "quality" in reason for reason in comparison.reasons)


def test_a_missing_record_is_a_regression() -> None:
    """The agent no longer emits its record."""
    worse = _Worse(run("quick_start.py"))
    good = worse.orch.run()
    worse.orch.agent_fn = str.upper
    comparison = worse.orch.run().compare_to(good)
    assert comparison.removed_aliases == comparison.regressed_aliases == ["my_agent"]
    assert comparison.exit_code == 1


def test_table_goes_to_redirected_standard_output() -> None:
    """Ids are whole, also non-ASCII ones, and other people's markup is only text (defect 11)."""
    names = run("quick_start.py")
    long_id = "größe-[bold]日本語-" + "x" * 120
    scenario = scouter.evaluate.EvalScenario(
        id=long_id, initial_query="q", tasks=[_contains("Paris")]
    )
    results = scouter.evaluate.EvalOrchestrator(
        names["queue"], scouter.evaluate.EvalScenarios(scenarios=[scenario]), names["my_agent"]
    ).run()
    out = printed(lambda: results.as_table(show_workflow=True))
    assert out.count(long_id) == 2
