"""One journey, judged offline, in a replay and by the collector: the same evaluations."""

import json
from pathlib import Path
from typing import Any

from opentelemetry import trace

from collector.worker.records import eval_record
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.task import Task
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.transport.config import MockConfig
from tests.collector.worker.process_support import Process
from tests.contracts.store_data import record
from tests.scouter.evaluate.spans_support import span
from tests.support.journeys import ANSWER, ASSIGNMENT, SCHEDULE, hr

TASKS: list[Task] = [
    JourneyTask("success", hr()),
    JourneyTask("recall", hr(), "recall"),
    JourneyTask("precision", hr(), "precision", operator="GreaterThan", expected_value=0.6),
]
WRONG = ("weather", {"city": "Paris"})
TURNS: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    ("Who are you?", [WRONG]),
    (ANSWER, [ASSIGNMENT, SCHEDULE]),
]
EXPECTED = {
    "success": ("passed", 1.0), "recall": ("passed", 1.0), "precision": ("passed", 2 / 3),
}  # fmt: skip


def said(text: str) -> dict[str, Any]:
    messages = [{"role": "assistant", "parts": [{"type": "text", "content": text}]}]
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.output.messages": json.dumps(messages),
    }


def called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": "ok",
    }


def evaluations(tasks: Any) -> dict[str, tuple[str, float | None]]:
    return {task.task_id: (str(task.outcome), task.score) for task in tasks}


def test_offline_and_in_the_collector(tmp_path: Path) -> None:
    spans: list[Span] = []
    for number, (text, calls) in enumerate(TURNS, start=1):
        name, at = f"{number:032x}", 100 * number
        spans.append(span(1, "turn", None, (at, at + 50), trace=name))
        for n, call in enumerate(calls):
            where = (at + 10 * n + 1, at + 10 * n + 5)
            spans.append(
                span(2 + n, f"execute_tool {call[0]}", 1, where, called(*call), trace=name)
            )
        spans.append(span(9, "chat m", 1, (at + 40, at + 45), said(text), trace=name))
    process = Process(tmp_path, AgentEvalProfile(TASKS, alias="hr"))
    try:
        rows = [
            record(f"u{n}", trace_id=f"{n:032x}", session_id="s", context={},
                   profile_uid=process.profile_uid)
            for n in (1, 2)
        ]  # fmt: skip
        process.spans(*spans)
        process.records(*rows)
        process.after(700)
        live = process.evaluations()["session s"]
    finally:
        process.close()
    (offline,) = EvalDataset([eval_record(row) for row in rows], TASKS, spans).evaluate().sessions
    assert evaluations(offline.tasks) == EXPECTED
    assert evaluations(live.tasks) == EXPECTED
    assert [task.message for task in live.tasks] == [task.message for task in offline.tasks]


def test_in_a_replay() -> None:
    queue = ScouterQueue({"hr": AgentEvalProfile(TASKS, alias="hr")}, MockConfig())
    ScouterInstrumentor().instrument(scouter_queue=queue)
    tracer = trace.get_tracer("hr")
    answers = iter(TURNS)

    def answer(message: str) -> str:
        text, calls = next(answers)
        with tracer.start_as_current_span("turn"):
            for call in calls:
                with tracer.start_as_current_span("tool", attributes=called(*call)):
                    pass
            with tracer.start_as_current_span("chat m", attributes=said(text)):
                pass
            queue["hr"].insert(EvalRecord({}))
        return text

    scenarios = EvalScenarios([EvalScenario("hi", id="chat", predefined_turns=["nwaters"])])
    try:
        results = EvalOrchestrator(queue, scenarios, answer).run(progress=False)
    finally:
        ScouterInstrumentor().uninstrument()
        queue.shutdown()
    (session,) = results.dataset_results["hr"].sessions
    assert evaluations(session.tasks) == EXPECTED
