"""A replay of an agent that is traced and makes no records."""

import json

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.propagation import active_profile
from scouter.tracing.tracer import init_tracer
from scouter.transport.config import MockConfig
from tests.scouter.replay.bench import spans_named


@pytest.mark.parametrize("concurrency", [1, 3])
def test_traces_of_an_active_profile_are_judged(concurrency: int) -> None:
    """Two agents take turns; each trace is judged by the profile that was active in it."""
    search = AgentEvalProfile(tasks=[spans_named("look", 2)], alias="search")
    write = AgentEvalProfile(tasks=[spans_named("draft", 1)], alias="write")
    queue = ScouterQueue.from_profile([search, write], MockConfig())
    tracer = init_tracer("shop", scouter_queue=queue)

    def agent(message: str) -> str:
        with active_profile(search), tracer.start_as_current_span("look"):
            tracer.start_span("look").end()
        with active_profile(write), tracer.start_as_current_span("draft"):
            pass
        return message

    scenarios = EvalScenarios([EvalScenario("a", id="a"), EvalScenario("b", id="b")])
    results = EvalOrchestrator(queue, scenarios, agent).run(repeats=2, concurrency=concurrency)

    for alias in ("search", "write"):
        rows = results.dataset_results[alias]
        assert [(row.scenario_id, row.attempt) for row in rows] == [
            ("a", 0), ("a", 1), ("b", 0), ("b", 1),
        ]  # fmt: skip
        assert rows.pass_rate == 1.0


def test_traces_that_a_watch_selects_are_judged_as_by_a_collector() -> None:
    """The agent sends nothing but OpenTelemetry; a setup beside it tells of no agent."""
    service = {"match": {"service": "shop"}, "sample": 0.0, "judge_sample": 0.0}
    named = {"match": {"filter": {"ByName": {"name": "setup"}}}}
    profiles = [
        AgentEvalProfile([AssertionTask("answered", "answer", "42", "Contains"),
                          AssertionTask("asked", "question", "how much?", "Equals")], alias="said",
                         watch=Watch.model_validate(service)),
        AgentEvalProfile([spans_named("setup", 1)], alias="set_up",
                         watch=Watch.model_validate(named)),
        AgentEvalProfile([AssertionTask("answered", "answer", "x", "Contains")], alias="other",
                         watch=Watch.model_validate({"match": {"service": "another"}})),
        AgentEvalProfile([AssertionTask("answered", "answer", "x", "Contains")], alias="unwatched"),
    ]  # fmt: skip
    queue = ScouterQueue.from_profile(profiles, MockConfig())
    tracer = init_tracer("shop", scouter_queue=queue)

    def agent(message: str) -> str:
        tracer.start_span("setup").end()
        messages = [{"role": "user", "parts": [{"type": "text", "content": message}]}]
        answer = [{"role": "assistant", "parts": [{"type": "text", "content": "it is 42"}]}]
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps(answer),
        }
        with tracer.start_as_current_span("invoke_agent shop", attributes=attributes):
            return "it is 42"

    scenarios = EvalScenarios([EvalScenario("how much?", id="a")])
    results = EvalOrchestrator(queue, scenarios, agent).run()

    assert set(results.dataset_results) == {"said", "set_up"}
    (row,) = results.dataset_results["said"]
    assert row.outcome == "passed"
    (row,) = results.dataset_results["set_up"]
    assert row.outcome == "passed"
