"""One profile of all tasks that measure or judge: a dataset, a replay and a collector agree."""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml
from opentelemetry.trace import Tracer

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.function import ReliabilityTask
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.judged_answer import AccuracyTask, QATask
from scouter.evaluate.tasks.report import ReportTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from scouter.model.otlp import encode_request
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.capture import (
    captured_spans,
    disable_local_span_capture,
    enable_local_span_capture,
)
from scouter.tracing.tracer import init_tracer, shutdown_tracer
from scouter.transport.config import MockConfig
from tests.support.collector_process import CollectorProcess
from tests.support.journeys import ANSWER, ASSIGNMENT, SCHEDULE, hr
from tests.support.processes import wait_until

ALIAS: Final = "hr"
_PROVIDER: Final = "house"
_METRICS: Final = {
    "Report": {
        "method": "average",
        "fields": {"title": {"method": "exact_match"}, "Found": {
            "method": "average",
            "fields": {"Date": {"method": "regex"}, "Hours": {"method": "exact_match"}},
        }},
    }
}  # fmt: skip
_JUDGED: Final = {
    "Report": {
        "method": "average",
        "fields": {"title": {"method": "exact_match"}, "Found": {
            "method": "average", "fields": {"Date": {"method": "regex"}, "Hours": {}},
        }},
    }
}  # fmt: skip
_REFERENCE: Final = {"title": "Time off", "Found": {"Date": "2025-01-0[0-9]", "Hours": 8}}
_REPORT: Final = "# Time off\n\n## Found\n\n| Date | 2025-01-05 |\n| Hours | {hours} |\n"
_PART: Final[dict[str, Any]] = {"operator": "GreaterThanOrEqual", "expected_value": 0.75}
PROFILE: Final = AgentEvalProfile(
    [
        TrajectoryTask("calls", "precision", **_PART),
        ReliabilityTask("tools", [ASSIGNMENT[0], SCHEDULE[0]], order_matters=True,
                        exact_match=True),
        ReportTask("report", _METRICS, _REFERENCE, **_PART),
        ReportTask("judged", _JUDGED, _REFERENCE, model="model-1", provider=_PROVIDER, samples=3,
                   operator="GreaterThan", expected_value=0.9),
        QATask("right", "model-1", _PROVIDER, operator="GreaterThan", expected_value=0.5),
        AccuracyTask("accurate", "model-1", _PROVIDER),
        TrajectoryTask("compared", model="model-1", provider=_PROVIDER, samples=3,
                       operator="GreaterThan", expected_value=0.9),
        TrajectoryTask("looked_at", reference=None, model="model-1", provider=_PROVIDER),
        JourneyTask("journey", hr(), "recall"),
    ],
    alias=ALIAS,
)  # fmt: skip

Triple = tuple[str, str, float | None]


@dataclass(frozen=True)
class Talk:
    """The agent's work for a question."""

    calls: Sequence[tuple[str, Mapping[str, str]]]
    answer: str
    hours: int


DESCRIBED: Final = "Tells the days off."
WEATHER: Final = ("weather", {"city": "Paris"})
TALKS: Final = {
    "good": Talk([ASSIGNMENT, SCHEDULE], ANSWER, 8),
    "poor": Talk([WEATHER, ASSIGNMENT], "I do not know.", 9),
}
EXPECTED: Final[dict[str, list[Triple]]] = {
    "good": [
        ("calls", "passed", 1.0), ("tools", "passed", 1.0), ("report", "passed", 1.0),
        ("judged", "passed", 0.9375), ("right", "passed", 0.9), ("accurate", "passed", 9.0),
        ("compared", "passed", 0.95), ("looked_at", "passed", 1.0), ("journey", "passed", 1.0),
    ],
    # By hand: one of two calls was expected, one of two goals is met; (1 + (1 + 0) / 2) / 2, and
    # judged (1 + (1 + 1/4) / 2) / 2.
    "poor": [
        ("calls", "failed", 0.5), ("tools", "failed", 0.0), ("report", "passed", 0.75),
        ("judged", "failed", 0.8125), ("right", "failed", 0.2), ("accurate", "failed", 3.0),
        ("compared", "failed", 0.25), ("looked_at", "failed", 0.75), ("journey", "failed", 0.5),
    ],
}  # fmt: skip


def said(*parts: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """The attributes of a model's answer."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.finish_reasons": (reason,),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
        "gen_ai.tool.definitions": json.dumps([{"name": "days", "description": DESCRIBED}]),
    }


def work(tracer: Tracer, queue: ScouterQueue, name: str) -> str:
    """Answer in one turn; each call is told by the model's message and by its execution."""
    talk = TALKS[name]
    with tracer.start_as_current_span("turn"):
        for number, (tool, arguments) in enumerate(talk.calls):
            part = {"type": "tool_call", "id": f"c{number}", "name": tool, "arguments": arguments}
            asked = said(part, reason="tool_call")
            with tracer.start_as_current_span("chat m", attributes=asked):
                pass
            executed = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.call.id": f"c{number}",
                "gen_ai.tool.call.arguments": json.dumps(arguments),
                "gen_ai.tool.call.result": "ok",
            }
            with tracer.start_as_current_span(f"execute_tool {tool}", attributes=executed):
                pass
        answered = said({"type": "text", "content": talk.answer}, reason="stop")
        with tracer.start_as_current_span("chat m", attributes=answered):
            pass
        context = {
            "question": "When is my time off?",
            "answer": talk.answer,
            "ground_truth": "On January 5, 2025.",
            "report": _REPORT.format(hours=talk.hours),
            "expected_trajectory": [
                {"tool_name": tool, "tool_input": dict(arguments)}
                for tool, arguments in (ASSIGNMENT, SCHEDULE)
            ],
        }
        queue[ALIAS].insert(EvalRecord(context, name))
    return talk.answer


def evaluation(text: str, schema: object) -> dict[str, Any]:
    """The judge's answer: it knows the right answer, and the right hours, when it sees them."""
    if "generated report" in text:
        is_eight = text.rpartition("</data")[0].endswith(">8")
        return {"reasoning": "r", "score": 0.75 if is_eight else 0.25}
    if "by those that were expected" in text:
        return {"reasoning": "r", "score": 0.25 if "weather" in text else 0.95}
    if "how well an AI agent chose" in text:  # of what it wants to see, each is a quarter
        seen = (DESCRIBED, '"result": "ok"', '"step": 2', ANSWER)
        return {"reasoning": "r", "score": sum(each in text for each in seen) / 4}
    is_right = ANSWER in text
    if "critique" in str(schema):
        score = 9 if is_right else 3
        return {"reasoning": "r", "score": score, "is_met": is_right, "critique": "c"}
    return {"reasoning": "r", "score": 0.9 if is_right else 0.2}


def judge(request: JudgeRequest) -> dict[str, Any]:
    return evaluation(str(request.messages), request.response_schema)


def judge_over_http(request: LLMRequest) -> dict[str, Any]:
    return evaluation(request.text, request.schema)


def triples(*results: Sequence[EvalTaskResult]) -> list[Triple]:
    return [(t.task_id, str(t.outcome), t.score) for tasks in results for t in tasks]


@contextmanager
def agent() -> Generator[tuple[Tracer, ScouterQueue]]:
    queue = ScouterQueue.from_profile(PROFILE, MockConfig())
    tracer = init_tracer(service_name="hr", scouter_queue=queue)
    try:
        yield tracer, queue
    finally:
        shutdown_tracer()
        queue.shutdown()


@pytest.fixture(scope="module")
def told() -> tuple[dict[str, EvalRecord], list[Span]]:
    """Records, by their names, and spans of both talks."""
    with agent() as (tracer, queue):
        queue.enable_capture()
        enable_local_span_capture()
        try:
            for name in TALKS:
                work(tracer, queue, name)
            records = queue.drain_records(ALIAS)
            spans = captured_spans()
        finally:
            disable_local_span_capture()
    return {each.record_id: each for each in records}, spans


def test_a_dataset(told: tuple[dict[str, EvalRecord], list[Span]]) -> None:
    records, spans = told
    for name, record in records.items():
        given = EvalRecord(record.context, name, session_id=name, trace_id=record.trace_id)
        found = EvalDataset([given], PROFILE.tasks, spans).evaluate(judge=judge)
        assert triples(found.records[0].tasks, found.sessions[0].tasks) == EXPECTED[name]
    assert len(records) == 2


def test_a_replay() -> None:
    scenarios = EvalScenarios([EvalScenario(name, id=name) for name in TALKS])
    with agent() as (tracer, queue):
        replay = EvalOrchestrator(queue, scenarios, lambda name: work(tracer, queue, name))
        found = replay.run(progress=False, judge=judge).dataset_results[ALIAS]
    rows = [each for each in found.records if each.scope == "record"]
    for row, session, name in zip(rows, found.sessions, TALKS, strict=True):
        assert triples(row.tasks, session.tasks) == EXPECTED[name]


def test_a_collector(
    told: tuple[dict[str, EvalRecord], list[Span]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")
    records, spans = told
    sent = [
        {"uid": f"u-{name}", "profile": ALIAS, "record_id": name, "session_id": name,
         "trace_id": record.trace_id, "context": record.context}
        for name, record in records.items()
    ]  # fmt: skip
    with LLMTestServer(judge_over_http) as server:
        entry = {"kind": "openai", "base_url": server.url, "key_variable": "HOUSE_KEY"}
        file = tmp_path / "providers.yaml"
        file.write_text(yaml.safe_dump({"providers": {_PROVIDER: entry}}), "utf-8")
        profile = PROFILE.save_to_json(tmp_path / "hr.json")
        collector = CollectorProcess(
            tmp_path, "--profile", profile, "--providers-file", file, "--session-quiet-s", "1s"
        )
        collector.start()
        try:
            answer = httpx.post(
                f"{collector.url}/v1/traces",
                content=encode_request(spans).SerializeToString(),
                headers={"Content-Type": "application/x-protobuf"},
                timeout=120,
            )
            assert answer.is_success, answer.text
            answer = httpx.post(f"{collector.url}/v1/records", json={"records": sent}, timeout=120)
            assert answer.is_success, answer.text
            wait_until(
                lambda: len(found := collector.evaluations()) == 4
                and all(each["outcome"] != "pending" for each in found),
                what="two records and two sessions are judged",
            )  # fmt: skip
            found = collector.evaluations()
        finally:
            collector.close()
    by_name: dict[str, list[Triple]] = {name: [] for name in TALKS}
    for item in sorted(found, key=lambda each: len(each["tasks"]), reverse=True):
        by_name[item["session_id"]] += [
            (task["task_id"], task["outcome"], task["score"]) for task in item["tasks"]
        ]
    assert by_name == EXPECTED
