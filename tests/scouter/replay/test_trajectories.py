"""A replay judges the calls of its agent: by the scenario's expectation, and by a profile."""

import json
from typing import Any

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.tracer import init_tracer
from scouter.transport.config import MockConfig


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": given}


def test_scenarios_and_profiles_score_the_same_calls() -> None:
    """The agent looks up every message, and then books once more than anybody wanted."""
    in_profile = TrajectoryTask("precision", "precision", "wanted")
    queue = ScouterQueue.from_profile(AgentEvalProfile([in_profile], alias="trips"), MockConfig())
    tracer = init_tracer("trips", scouter_queue=queue)

    def use(tool: str, **given: Any) -> None:
        with tracer.start_as_current_span(f"execute_tool {tool}") as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", tool)
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps(given))

    def agent(message: str) -> str:
        with tracer.start_as_current_span("invoke_agent trips") as span:
            use("look_up", city=message)
            use("book", city=message)
            context = {"wanted": [call("look_up", city=message)]}
            span.add_queue_item("trips", EvalRecord(context))
        return "booked"

    tasks = [
        TrajectoryTask("all_made", "recall"),
        TrajectoryTask("exact", "exact_match"),
        TrajectoryTask("part", "precision", operator="GreaterThanOrEqual", expected_value=0.5),
    ]
    scenarios = EvalScenarios(
        [
            EvalScenario(
                city,
                tasks,
                id=city,
                expected_trajectory=[call("look_up", city=city), call("book", city="Oslo")],
            )
            for city in ("Oslo", "Rome")
        ]
    )
    results = EvalOrchestrator(queue, scenarios, agent).run()
    found = {
        each.scenario_id: [
            (task.task_id, str(task.outcome), task.score) for task in each.task_results
        ]
        for each in results.scenario_results
    }
    assert found == {
        "Oslo": [("all_made", "passed", 1.0), ("exact", "passed", 1.0), ("part", "passed", 1.0)],
        "Rome": [("all_made", "failed", 0.5), ("exact", "failed", 0.0), ("part", "passed", 0.5)],
    }
    rows = results.dataset_results["trips"].records
    assert [row.tasks[0].score for row in rows] == [0.5, 0.5]
