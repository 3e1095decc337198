"""Results of a run: on the scenarios, in the results, in files and in tables."""

import asyncio
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.annotate.config import EvaluationConfig
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.replay.progress import progress_bar
from scouter.replay.reports.view import make_view
from scouter.transport.config import MockConfig
from tests.scouter.replay.bench import Bench, equals, spans_named


def printed(action: Any, *args: object) -> str:
    with redirect_stdout(io.StringIO()) as out:
        action(*args)
    return out.getvalue()


def test_scenarios_hold_the_results(bench: Bench) -> None:
    """As the original's do: empty before, those of the last run after."""
    scenarios = EvalScenarios([EvalScenario("q", [equals("response", "re: q")], id="s")])
    assert not scenarios.is_evaluated()
    assert (scenarios.dataset_results, scenarios.scenario_results, scenarios.metrics) == (
        {},
        (),
        None,
    )
    assert set(json.loads(scenarios.model_dump_json())) >= {"collection_id", "scenarios"}
    assert not {"metrics", "dataset_results"} & set(scenarios.model_dump())

    results = EvalOrchestrator(bench.queue, scenarios, bench.agent).run()
    assert scenarios.is_evaluated()
    assert scenarios.metrics == results.metrics
    assert scenarios.dataset_results == results.dataset_results
    assert scenarios.scenario_results == results.scenario_results

    again = EvalScenarios.model_validate_json(scenarios.model_dump_json())
    assert again == scenarios
    assert again.is_evaluated()
    scenarios.collection_id = "named"
    assert (
        EvalOrchestrator(bench.queue, scenarios, bench.agent).run().provenance.collection_id
        == "named"
    )
    with pytest.raises(ValidationError):
        scenarios.collection_id = ""
    with pytest.raises(ValidationError):
        scenarios.scenarios = ()


def test_a_dump_with_results_is_a_scenario_file(bench: Bench, tmp_path: Path) -> None:
    """A run can be saved and its scenarios run again."""
    scenarios = EvalScenarios([EvalScenario("q", [spans_named("step", 1)], id="s")])
    EvalOrchestrator(bench.queue, scenarios, bench.agent).run()
    path = tmp_path / "s.json"
    path.write_text(scenarios.model_dump_json(), encoding="utf-8")
    read = EvalScenarios.from_path(path)
    assert list(read) == list(scenarios)
    assert not read.is_evaluated()
    assert read.collection_id == scenarios.collection_id


def test_traces(bench: Bench, tmp_path: Path) -> None:
    """The attempt's own spans, by start; in tables, and after a round trip through a file."""

    def agent(query: str) -> str:
        with bench.tracer.start_as_current_span("größe") as span:
            span.set_attribute("long", "x" * 300)
            with bench.tracer.start_as_current_span("inner") as inner:
                inner.add_event("tick", {"n": 1})
        return query

    scenarios = [EvalScenario(name, [equals("response", name)], id=name) for name in "ab"]
    results = bench.orchestrator(*scenarios, agent_fn=agent).run()
    results.save(tmp_path / "r.json")
    loaded = ScenarioEvalResults.load(tmp_path / "r.json")
    assert loaded == results
    for found in (results, loaded):
        for detail in found.scenario_results:
            assert [span.name for span in detail.traces] == ["größe", "inner"]
            owners = [span.attributes["scouter.eval.scenario_id"] for span in detail.traces]
            assert owners == [detail.scenario_id] * 2
            assert detail.traces[1].parent_span_id == detail.traces[0].span_id
    detail = loaded.scenario_results[0]
    table = printed(detail.traces_as_table)
    outer, inner = [line for line in table.splitlines() if "größe" in line or "inner" in line]
    assert outer.index("größe") + 2 == inner.index("inner")
    shown = printed(detail.trace_detail, "größe")
    assert "x" * 200 + "…" in shown
    assert "x" * 201 not in shown
    assert '"n": "1"' in printed(detail.trace_detail, "inner")
    with pytest.raises(KeyError, match="Missing key: other; the spans of scenario 'a' are 'größe'"):
        detail.trace_detail("other")


def test_a_scenario_without_tasks_keeps_its_conversation(bench: Bench, tmp_path: Path) -> None:
    """In the results, after a round trip through a file, and in what reports read."""
    scenario = EvalScenario("a", id="s", predefined_turns=["b"])
    results = bench.orchestrator(scenario).run(repeats=2)
    assert results.scenario_results == ()
    results.save(tmp_path / "r.json")
    loaded = ScenarioEvalResults.load(tmp_path / "r.json")
    assert loaded == results
    detail = loaded.get_scenario_detail("s", attempt=1)
    assert (detail.attempt, detail.response) == (1, "re: b")
    turns = ({"user": "a", "agent": "re: a"}, {"user": "b", "agent": "re: b"})
    assert detail.turns == turns
    assert [span.name for span in detail.traces] == ["step", "step"]
    assert [span.attributes["scouter.eval.attempt"] for span in detail.traces] == [1, 1]
    assert detail.duration_ns > 0
    [view] = make_view(loaded, None).scenarios
    for attempt in view.attempts:
        assert attempt.turns == turns
        assert len(attempt.spans) == 2
        assert [record.name for record in attempt.records] == ["#1", "#2"]


def test_duration_and_turns(bench: Bench) -> None:
    """The duration of the conversation, and its words, even without a JSON form."""

    class Odd(EvalOrchestrator):
        def execute_agent_turn(self, scenario: EvalScenario, message: str) -> Any:
            return object()

        def build_scenario_response(
            self, scenario: EvalScenario, response: Any, history: Any
        ) -> Any:
            return len(history)

    scenario = EvalScenario(
        "a", [equals("response", 1)], id="s", simulated_user_persona="p", max_turns=2
    )
    orch = Odd(bench.queue, EvalScenarios([scenario]), simulated_user_fn=lambda q, r, h: "b")  # pyright: ignore[reportUnknownLambdaType]
    [result] = orch.run().scenario_results
    assert result.passed
    assert result.turns == (
        {"user": "a", "agent": "<a object without JSON form>"},
        {"user": "b", "agent": "<a object without JSON form>"},
    )
    assert result.response == 1
    assert result.duration_ns > 0


class User:
    """An object that plays the user."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def reply(self, scenario: EvalScenario, agent_response: Any, history: Any) -> str | None:
        """End after the second answer."""
        self.heard.append((scenario.id, agent_response, list(history)))
        return None if history else "and then?"


class AsyncUser(User):
    """The same, async."""

    async def reply(self, scenario: EvalScenario, agent_response: Any, history: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """End after the second answer."""
        return super().reply(scenario, agent_response, history)


@pytest.mark.parametrize("user", [User(), AsyncUser()], ids=["plain", "async"])
@pytest.mark.parametrize("options", [{}, {"concurrency": 2}], ids=["in turn", "at once"])
def test_an_object_plays_the_user(bench: Bench, user: User, options: dict[str, Any]) -> None:
    """It gets the scenario, the last answer and the exchanges before it."""
    user.heard.clear()
    scenario = EvalScenario("hi", [spans_named("step", 2)], id="s", simulated_user_persona="p")
    results = bench.orchestrator(scenario, simulated_user_fn=user).run(**options)
    assert user.heard == [
        ("s", "re: hi", []),
        ("s", "re: and then?", [{"user": "hi", "agent": "re: hi"}]),
    ]
    assert results.metrics.overall_pass_rate == 1.0


def rated(task_id: str, text: str) -> LLMJudgeTask:
    return LLMJudgeTask(
        id=task_id,
        prompt=Prompt(text, "m", "openai", fence=False),
        context_path="score",
        operator=ComparisonOperator.GreaterThan,
        expected_value=3,
    )


@pytest.mark.parametrize("options", [{}, {"concurrency": 2}], ids=["in turn", "at once"])
def test_judges_of_scenarios_and_aliases(options: dict[str, Any]) -> None:
    """One judge answers the tasks of both levels, in the loop of the agent."""
    loops: list[asyncio.AbstractEventLoop] = []
    task_ids: list[str] = []
    profile = AgentEvalProfile([rated("per_record", "Rate the record ${n}")], alias="agent")
    queue = ScouterQueue.from_profile([profile], transport_config=MockConfig())

    async def agent(query: str) -> str:
        loops.append(asyncio.get_running_loop())
        queue["agent"].insert(EvalRecord({"n": query}))
        return query

    async def judge(request: JudgeRequest) -> JsonValue:
        loops.append(asyncio.get_running_loop())
        task_ids.append(request.task_id)
        return {"score": 5 if request.messages[-1]["content"].endswith("good") else 1}

    scenarios = [
        EvalScenario(name, [rated("whole", "Rate ${response}")], id=name)
        for name in ("good", "bad")
    ]
    orch = EvalOrchestrator(queue, EvalScenarios(scenarios), agent)
    results = orch.run(judge=judge, repeats=2, **options)
    assert [r.passed for r in results.scenario_results] == [True, True, False, False]
    assert results.metrics.dataset_pass_rates == {"agent": 0.5}
    assert sorted(task_ids) == ["per_record"] * 4 + ["whole"] * 4
    assert len(set(loops)) == 1
    without = orch.run(**options)
    assert {r.outcome for r in without.scenario_results} == {"errored"}
    with pytest.raises(ConfigError, match="judge"):
        orch.run(judge="gpt")  # pyright: ignore[reportArgumentType]


def test_config_is_passed_on(bench: Bench) -> None:
    """Annotations that an `EvaluationConfig` asks for are in the aliases' results."""
    profile = AgentEvalProfile([equals("text", "abc")], alias="agent")
    queue = ScouterQueue.from_profile([profile], transport_config=MockConfig())

    def agent(query: str) -> str:
        queue["agent"].insert(EvalRecord({"text": query}))
        return query

    def embed(texts: list[str]) -> list[list[float]]:
        return [[float(len(text)), 1.0] for text in texts]

    config = EvaluationConfig(embedder=embed, embedding_targets=["text"])
    orch = EvalOrchestrator(queue, EvalScenarios([EvalScenario("abc", id="s")]), agent)
    for results in (orch.run(config), orch.run(config, concurrency=2)):
        [row] = results.dataset_results["agent"]
        assert row.scenario_id == "s"
        assert row.mean_embeddings == {"text": 2.0}


def test_progress_counts_failures_and_time(bench: Bench) -> None:
    """Attempts done of all, failures, the scenario; nothing where nobody looks."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def agent(query: str) -> str:
        if query == "bad":
            raise LookupError
        return query

    scenarios = [EvalScenario(name, id=name) for name in ("bad", "good")]
    orch = bench.orchestrator(*scenarios, agent_fn=agent)
    for progress, is_shown in [(None, True), (True, True), (False, False)]:
        with redirect_stderr(Terminal()) as err:
            orch.run(on_error="record", repeats=2, progress=progress)
        assert ("4/4" in err.getvalue()) == is_shown
        assert ("2 failed" in err.getvalue()) == is_shown
    with redirect_stderr(io.StringIO()) as err:
        orch.run(on_error="record", progress=True)
    assert err.getvalue() == ""


def test_progress_goes_on_where_an_earlier_run_ended() -> None:
    """Attempts that a journal holds are done already."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with redirect_stderr(Terminal()) as err, progress_bar(5, 3) as bar:
        bar.started("s")
        bar.ended(True)
    assert "4/5" in err.getvalue()
    with redirect_stderr(Terminal()) as err, progress_bar(3, 3) as bar:
        bar.ended(True)
    assert err.getvalue() == ""


def test_hooks_see_their_own_scenario_only(bench: Bench) -> None:
    """Records of a hook are in no result, even while one other attempt runs."""

    class Noisy(EvalOrchestrator):
        def on_scenario_start(self, scenario: EvalScenario) -> None:
            bench.queue["agent"].insert(EvalRecord({"from": "start"}))

        def on_scenario_complete(self, scenario: EvalScenario, response: Any) -> None:
            bench.agent("from complete")

    scenarios = EvalScenarios(
        [EvalScenario("q", [spans_named("step", 1)], id=f"s{n}") for n in range(9)]
    )
    for concurrency in (1, 3):
        results = Noisy(bench.queue, scenarios, bench.agent).run(concurrency=concurrency)
        assert len(results.dataset_results["agent"]) == 9
        assert results.metrics.overall_pass_rate == 1.0


def test_rates_alone_can_be_printed() -> None:
    metrics = EvalMetrics(
        overall_pass_rate=0.625,
        workflow_pass_rate=0.75,
        dataset_pass_rates={"desk": 0.75},
        scenario_pass_rate=0.5,
        total_scenarios=4,
        passed_scenarios=2,
        scenario_task_pass_rates={},
    )
    lines = [line.split() for line in printed(metrics.as_table).splitlines()]

    assert ["Mean", "pass", "rate", "(of", "aliases", "and", "scenarios)", "62.5%"] in lines
    assert ["Workflow", "pass", "rate", "(mean", "of", "aliases)", "75.0%"] in lines
    assert ["Scenario", "pass", "rate", "50.0%", "(2/4)"] in lines
    assert ["desk", "75.0%"] in lines
    bare = metrics.model_copy(update={"dataset_pass_rates": {}})
    assert "Sub-Agent" not in printed(bare.as_table)
