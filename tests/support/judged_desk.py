"""A collector whose judge cites the record, with tasks that expect calls, and a calibration."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.tasks.agent import (
    AgentAssertionTask,
    ToolCalledAssertion,
    ToolCallSequenceAssertion,
)
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from scouter.model.otlp import encode_request
from scouter.model.span import Span
from tests.collector.conftest import Service
from tests.collector.judging.test_service import entries, wait_decided
from tests.support.calibrations import calibration

TRACE = f"{0xDE5C:032x}"
ANSWER = "Thank you for waiting. The refund takes nine weeks, and nobody can say why."
REASON = 'It says "The refund takes nine weeks", which the shop does not promise.'
EXPECTED: list[Any] = [
    {"tool_name": "find_order", "tool_input": {"id": 7}},
    {"tool_name": "refund", "tool_input": {"id": 7, "days": 3}},
]
MADE: list[tuple[str, str]] = [
    ("find_order", '{"id": 7}'), ("ask_colleague", "{}"), ("refund", '{"id": 7, "days": 63}'),
]  # fmt: skip


def profile(expected: int = 3) -> AgentEvalProfile:
    """The desk's profile; the judge's score is compared with `expected`."""
    prompt = Prompt("Rate ${answer}.", "model-1", "house", output_type=Score)
    return AgentEvalProfile(
        [
            AssertionTask("polite", "answer", "Thank", "StartsWith"),
            LLMJudgeTask("truthful", prompt, expected, "score", "GreaterThanOrEqual"),
            TrajectoryTask("path", "in_order_match", EXPECTED),
            AgentAssertionTask(
                "tools",
                ToolCallSequenceAssertion(names=["find_order", "refund"]),
                True,
                "Equals",
                source="spans",
            ),
            AgentAssertionTask(
                "asked", ToolCalledAssertion(name="refund"), True, "Equals", source="spans"
            ),
        ],
        alias="desk",
    )


def _rate(request: LLMRequest) -> dict[str, Any]:
    del request
    return {"score": 1, "reason": REASON}


@contextmanager
def judged_desk(folder: Path) -> Generator[Service]:
    """Serve a collector with one judged record, `r/1`, of which all calls are known."""
    known = folder / "known"
    known.mkdir()
    calibration(profile(), task_id="truthful").save(known / "one.json")
    file = profile().save_to_json(folder / "desk.json")
    with LLMTestServer(_rate) as server:
        service = Service(
            folder, profile=[str(file)], providers=entries(server), calibrations=str(known),
            drain_s="1s",
        )  # fmt: skip
        try:
            spans = [
                Span(
                    trace_id=TRACE, span_id=f"{at + 2:016x}", parent_span_id=f"{1:016x}", name=name,
                    start_ns=10 * at + 1, end_ns=10 * at + 9,
                    attributes={
                        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
                        "gen_ai.tool.call.arguments": arguments,
                    },
                )
                for at, (name, arguments) in enumerate(MADE)
            ]  # fmt: skip
            root = Span(trace_id=TRACE, span_id=f"{1:016x}", name="desk", start_ns=0, end_ns=99)
            data = encode_request([root, *spans]).SerializeToString()
            media = {"Content-Type": "application/x-protobuf"}
            assert service.http.post("/v1/traces", content=data, headers=media).is_success
            service.send(
                {"uid": "r/1", "record_id": "case-1", "profile": "desk", "trace_id": TRACE,
                 "context": {"input": "Where is my money?", "answer": ANSWER, "order": {"id": 7}}},
            )  # fmt: skip
            service.wait_for(1)
            wait_decided(service)
            yield service
        finally:
            service.stop()
