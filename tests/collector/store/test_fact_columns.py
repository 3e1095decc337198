"""Columns of spans have the values that `read_facts` reads, for every convention."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.store.span_rows import span_row
from scouter.model.genai.facts import MODEL_CALLS, Kind
from scouter.model.genai.names import arguments_text
from scouter.model.genai.reader import read_facts
from scouter.model.genai.usage import finish_word
from scouter.model.otlp import decode_request
from scouter.model.span import AttributeValue, Span, SpanEvent, StatusCode
from tests.support.agent_traces import find_clients

Row = dict[str, Any]


def stored(spans: Sequence[Span]) -> list[Row]:
    """The columns of some spans."""
    return [
        span_row(each, space="s", received_ns=1, size_bytes=1, checksum=1)._asdict()
        for each in spans
    ]


def facts_in(span: Span) -> Row:
    """The same as `read_facts` reads it."""
    facts = read_facts(span)
    is_call = facts.kind in MODEL_CALLS
    return {
        "genai_kind": facts.kind.value,
        "provider": facts.provider or None, "request_model": facts.request_model or None,
        "response_model": facts.response_model or None, "agent_name": facts.agent or None,
        "tool_name": None if facts.is_merged else facts.tool or None,
        "conversation_id": facts.conversation or None, "session_id": facts.session or None,
        "input_tokens": facts.usage.input if is_call else None,
        "output_tokens": facts.usage.output if is_call else None,
        "cached_tokens": facts.usage.cached if is_call else None,
        "reasoning_tokens": facts.usage.reasoning if is_call else None,
        "finish_reason": (
            finish_word(facts.finish_reasons[0])
            if facts.kind is Kind.MODEL and facts.finish_reasons else None
        ),
        "arguments_hash": (
            None if facts.arguments is None else crc32(arguments_text(facts.arguments))
        ),
    }  # fmt: skip


def test_the_spans_of_every_client() -> None:
    kinds: set[str] = set()
    for file in find_clients():
        wire = file.with_suffix(".binpb").read_bytes()
        spans = decode_request(ExportTraceServiceRequest.FromString(wire)).spans
        for span, row in zip(spans, stored(spans), strict=True):
            expected = facts_in(span)
            assert {name: row[name] for name in expected} == expected, (file.stem, span.name)
            kinds.add(row["genai_kind"])
    assert kinds >= {"model", "tool", "agent", "other"}


def span(name: str = "step", /, **given: AttributeValue) -> Span:
    """A span with attributes, whose dots are written as two underscores."""
    attributes = {key.replace("__", "."): value for key, value in given.items()}
    return Span(
        trace_id="1" * 32, span_id="2" * 16, name=name, start_ns=1, end_ns=2, attributes=attributes
    )


_OI: dict[str, AttributeValue] = {"openinference__span__kind": "LLM"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            span(**_OI, llm__provider="openai", llm__model_name="m", llm__token_count__prompt=5),
            {"operation": "chat", "provider": "openai", "response_model": "m", "input_tokens": 5},
            id="openinference",
        ),
        pytest.param(
            span(openinference__span__kind="TOOL", tool__name="pay"),
            {"operation": "execute_tool", "tool_name": "pay"},
            id="tool",
        ),
        pytest.param(
            span(**_OI, llm__model_name="m", llm__token_count__prompt="5"),
            {"input_tokens": 5},
            id="number-as-text",
        ),
        pytest.param(
            span(mlflow__spanType='"CHAT_MODEL"', mlflow__llm__model='"m"',
                 mlflow__chat__tokenUsage='{"input_tokens": 7, "output_tokens": 2}'),
            {"request_model": "m", "input_tokens": 7, "output_tokens": 2},
            id="object-of-tokens",
        ),
        pytest.param(
            span(gen_ai__operation__name="chat", gen_ai__system="aws.bedrock",
                 gen_ai__request__model="m", gen_ai__usage__input_tokens=3,
                 gen_ai__usage__cache_read__input_tokens=10),
            {"provider": "aws.bedrock", "input_tokens": 13, "cached_tokens": 10},
            id="cache-beside-the-input",
        ),
        pytest.param(
            span("haystack.agent.step.llm", haystack__agent__step__llm__output=(
                '{"replies": [{"role": "assistant", "content": "hi", "meta": {"model": "m",'
                ' "usage": {"prompt_tokens": 4, "completion_tokens": 1}}}]}')),
            {"response_model": "m", "input_tokens": 4, "output_tokens": 1},
            id="in-the-answer-only",
        ),
        pytest.param(
            span("execute_tool (merged tools)", gen_ai__operation__name="execute_tool",
                 gen_ai__tool__name="(merged tools)"),
            {"genai_kind": "tool", "tool_name": None},
            id="merged",
        ),
        pytest.param(
            span(http__request__method="GET", error__type="500", session__id="s"),
            {"genai_kind": "other", "operation": None, "error_type": "500", "session_id": "s"},
            id="of-no-agent",
        ),
        pytest.param(span(), {"genai_kind": "other", "provider": None}, id="nothing"),
    ],
)  # fmt: skip
def test_one_span(given: Span, expected: Row) -> None:
    (row,) = stored([given])
    assert {name: row[name] for name in expected} == expected


def test_an_error_without_a_type_takes_that_of_its_exception() -> None:
    raised = SpanEvent(name="exception", time_ns=1, attributes={"exception.type": "KeyError"})
    failed = replace(span(), status=StatusCode.ERROR, status_message="no city")
    rows = stored([replace(failed, events=(raised,)), failed, replace(span(), events=(raised,))])
    assert [row["error_type"] for row in rows] == ["KeyError", None, None]


def test_ids_of_one_call_are_equal() -> None:
    """The response's id of a model's call, the call's id of a tool's; no other span has one."""
    model = {"gen_ai__operation__name": "chat", "gen_ai__response__id": "r1"}
    spans = [
        span(**model), span("other", **model), span(gen_ai__response__id="r1"),
        span(gen_ai__operation__name="execute_tool", gen_ai__tool__call__id="r2"),
    ]  # fmt: skip
    one, other, none, tool = (row["act_hash"] for row in stored(spans))
    assert one == other is not None
    assert none is None
    assert tool not in (None, one)
    assert Kind.OTHER.value == stored(spans)[2]["genai_kind"]
