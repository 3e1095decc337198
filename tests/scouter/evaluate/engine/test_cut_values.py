"""A value that was cut decides only what its rest cannot turn."""

from dataclasses import replace
from typing import Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import JsonValue

from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertion as G
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter as F
from scouter.evaluate.tasks.trace import AggregationType, TraceAssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion as T
from scouter.model.attributes import TRUNCATED
from scouter.model.otlp import decode_request, encode_request
from scouter.model.otlp_cut import cut_request
from scouter.model.record import EvalRecord
from scouter.model.span import Span, SpanEvent
from tests.scouter.evaluate.spans_support import span

Task = TraceAssertionTask | AgentAssertionTask
LONG: Final = "sunny " * 2_000
CHAT: Final = {
    "gen_ai.operation.name": "chat",
    "gen_ai.usage.input_tokens": 7,
    "gen_ai.output.messages": f'[{{"role":"assistant","content":"{LONG}"}}]',
}
PASS, FAIL, OPEN = "passed", "failed", "errored:incomplete"
ANY: Final = F.by_name("chat")


def trace(assertion: T, operator: Op, expected: JsonValue) -> Task:
    return TraceAssertionTask("t", assertion, expected, operator)


def agent(assertion: G, operator: Op, expected: JsonValue) -> Task:
    return AgentAssertionTask("t", assertion, expected, operator, source="spans")


def outcome(task: Task, *spans: Span) -> str:
    result = evaluate_record(compile_plan([task]), EvalRecord({}), SpanTree(spans)).tasks[0]
    return f"{result.outcome}:{result.reason}" if result.reason else str(result.outcome)


def cut() -> Span:
    """A span with two long values, as a transport cuts it down to 3 kB."""
    whole = span(1, "chat", None, (0, 9), {**CHAT, "note": LONG, "n": 3})
    request = cut_request(encode_request([whole]).SerializeToString(), 3_000)
    (found,) = decode_request(ExportTraceServiceRequest.FromString(request)).spans
    assert set(found.attributes[TRUNCATED]) == {"gen_ai.output.messages", "note"}  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        # The value here is a beginning: a text in it stays, a text outside of it may come.
        (trace(T.span_attribute(ANY, "note"), Op.Contains, "sunny"), PASS),
        (trace(T.span_attribute(ANY, "note"), Op.Contains, "rain"), OPEN),
        (trace(T.span_attribute(ANY, "note"), Op.NotContains, "rain"), OPEN),
        (trace(T.span_attribute(ANY, "note"), Op.NotContains, "sunny"), FAIL),
        (trace(T.span_attribute(ANY, "note"), Op.EndsWith, "rain"), OPEN),
        (trace(T.trace_attribute("note"), Op.NotContains, "rain"), OPEN),
        (trace(T.span_aggregation(ANY, "note", AggregationType.Last), Op.NotEqual, "x"), OPEN),
        # Other attributes of the span are whole.
        (trace(T.span_aggregation(ANY, "n", AggregationType.First), Op.Equals, 3), PASS),
        (trace(T.span_attribute(ANY, "n"), Op.Equals, 3), PASS),
        (trace(T.span_aggregation(ANY, "n", AggregationType.Sum), Op.LessThan, 4), PASS),
        (trace(T.trace_span_count(), Op.Equals, 1), PASS),
        (trace(T.span_count(F.with_attribute("note")), Op.Equals, 1), PASS),
        (trace(T.span_exists(F.with_attribute_value("note", "rain")), Op.Equals, False), OPEN),
        (trace(T.span_exists(F.with_attribute_value("n", 4)), Op.Equals, False), PASS),
        # A call may stand in the rest of a message; a number was not cut.
        (agent(G.tool_not_called("book"), Op.Equals, True), OPEN),
        (agent(G.response_input_tokens(), Op.Equals, 7), PASS),
    ],
    ids=str,
)
def test_cut_attributes(task: Task, expected: str) -> None:
    assert outcome(task, cut()) == expected


def test_a_cut_value_of_an_event() -> None:
    event = SpanEvent(name="log", time_ns=1, attributes={"text": "sun…", TRUNCATED: ("text",)})
    seen = replace(span(1, "chat"), events=(event,))
    wanted = F.with_event_attribute_value("log", "text", "sunny")
    assert outcome(trace(T.span_exists(wanted), Op.Equals, False), seen) == OPEN
    other = F.with_event_attribute_value("log", "code", 5)
    assert outcome(trace(T.span_exists(other), Op.Equals, False), seen) == PASS


def test_more_parts_than_the_mark_names() -> None:
    seen = span(1, "chat", None, (0, 9), {"n": 3, TRUNCATED: ("a", "…")})
    assert outcome(trace(T.span_attribute(ANY, "n"), Op.Equals, 3), seen) == OPEN
    assert outcome(trace(T.trace_error_count(), Op.Equals, 0), seen) == PASS
