"""A replay of an agent that is traced and makes no records."""

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.active import active_profile
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
