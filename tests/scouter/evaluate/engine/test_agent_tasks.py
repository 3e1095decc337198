"""Agent assertions: every provider's words, every kind, and spans as the source."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.responses.parse import FORMATS, find_response
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.task import parse_task, task_adapter
from scouter.model.record import EvalRecord
from tests.scouter.evaluate.spans_support import agent_trace, span

CASES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[3] / "cases" / "agent_responses.yaml").read_text(encoding="utf-8")
)
ARGUMENTS = {"q": "sky", "opts": {"lang": "en", "n": 3}}

TRANSCRIPT: JsonValue = [
    {"role": "user", "content": "Book it"},
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {"id": "1", "function": {"name": "find", "arguments": '{"to": "SEA", "max": 2}'}},
            {"id": "2", "function": {"name": "find", "arguments": '{"to": "JFK", "max": 3}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "2", "content": "second"},
    {"role": "tool", "tool_call_id": "1", "content": '["first"]'},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "3", "function": {"name": "book", "arguments": "not json"}}],
    },
    {"role": "tool", "tool_call_id": "3", "content": "null"},
    {"role": "assistant", "content": "Done."},
]


def ask(
    assertion: AgentAssertion,
    expected: object = None,
    context: object = TRANSCRIPT,
    operator: Op = Op.Equals,
    spans: SpanTree | None = None,
    **options: Any,
) -> EvalTaskResult:
    task = AgentAssertionTask("t", assertion, expected, operator, **options)
    assert (
        parse_task(task_adapter().dump_python(task, mode="json")) == task
    )  # the wire form loses nothing
    return evaluate_record(compile_plan([task]), EvalRecord(context), spans).tasks[0]


@pytest.mark.parametrize("name", CASES)
def test_every_format_says_the_same(name: str) -> None:
    value, want = CASES[name]["value"], CASES[name]["want"]
    work = find_response(value, tuple(FORMATS))[1]
    (call,) = work.tool_calls

    assert (call.name, call.arguments) == ("search", ARGUMENTS)
    assert work.content == "Blue."
    assert {
        "model": work.model,
        "finish_reason": work.finish_reason,
        "input_tokens": work.input_tokens,
        "output_tokens": work.output_tokens,
        "total_tokens": work.total_tokens,
        "result": call.result,
    } == want
    assert call.has_result is (want["result"] is not None)


@pytest.mark.parametrize("name", CASES)
def test_the_response_is_found_whole_in_a_field_or_at_a_path(name: str) -> None:
    value = CASES[name]["value"]
    called = AgentAssertion.tool_called_with_args("search", {"opts": {"lang": "en"}})
    ways: list[tuple[object, dict[str, Any]]] = [
        (value, {}),
        ({"response": value, "expected_outcome": "x"}, {}),
        ({"response": json.dumps(value)}, {}),
        ({"deep": {"er": value}}, {"context_path": "deep.er"}),
    ]
    for context, options in ways:
        assert ask(called, True, context, **options).passed, context


@pytest.mark.parametrize(
    ("assertion", "value"),
    [
        (AgentAssertion.tool_called("find"), True),
        (AgentAssertion.tool_called("Find"), False),
        (AgentAssertion.tool_not_called("find"), False),
        (AgentAssertion.tool_not_called("cancel"), True),
        (AgentAssertion.tool_called_with_args("find", {"to": "JFK"}), True),
        (AgentAssertion.tool_called_with_args("find", {"to": "SEA", "max": 2.0}), True),
        (AgentAssertion.tool_called_with_args("find", {"to": "SEA", "max": 3}), False),
        (AgentAssertion.tool_called_with_args("find", {"from": None}), False),
        (AgentAssertion.tool_called_with_args("book", {}), False),
        (AgentAssertion.tool_call_sequence(["find", "book"]), True),
        (AgentAssertion.tool_call_sequence(["find", "find", "book"]), True),
        (AgentAssertion.tool_call_sequence(["book", "find"]), False),
        (AgentAssertion.tool_call_sequence(["book", "book"]), False),
        (AgentAssertion.tool_call_count(), 3),
        (AgentAssertion.tool_call_count("find"), 2),
        (AgentAssertion.tool_call_count("none"), 0),
        (AgentAssertion.tool_argument("find", "to"), "SEA"),
        (AgentAssertion.tool_result("find"), ["first"]),
        (AgentAssertion.tool_result("book"), "null"),
        (AgentAssertion.response_content(), "Done."),
    ],
)
def test_kinds(assertion: AgentAssertion, value: JsonValue) -> None:
    """A transcript of two turns with three calls; results come in another order than calls."""
    result = ask(assertion, value)
    assert result.actual == value
    assert result.passed


def test_response_field_is_relative_to_the_response() -> None:
    field = AgentAssertion.response_field("candidates[0].safety[0].category")
    context: JsonValue = {
        "response": {"candidates": [{"content": {}, "safety": [{"category": "OK"}]}]}
    }
    assert ask(field, "OK", context).passed
    missing = ask(AgentAssertion.response_field("candidates[0].nope"), "OK", context)
    assert missing.reason is Reason.MISSING_PATH
    assert "'content', 'safety'" in missing.message


def test_an_answer_of_tool_calls_alone_has_no_content() -> None:
    message: JsonValue = {"role": "assistant", "content": None, "tool_calls": []}
    assert ask(AgentAssertion.response_content(), None, [message], Op.IsNull).passed


@pytest.mark.parametrize(
    ("assertion", "words"),
    [
        (AgentAssertion.tool_argument("find", "from"), "arguments are 'to', 'max'"),
        (AgentAssertion.tool_argument("cancel", "id"), "called were 'find', 'book'"),
        (AgentAssertion.tool_argument("book", "id"), 'no JSON object but a text: "not json"'),
        (AgentAssertion.tool_result("cancel"), "'cancel' was not called"),
        (AgentAssertion.response_model(), "does not tell its model"),
        (AgentAssertion.response_finish_reason(), "finish reason"),
        (AgentAssertion.response_total_tokens(), "total tokens"),
    ],
)
def test_what_a_response_does_not_say_is_an_error(assertion: AgentAssertion, words: str) -> None:
    result = ask(assertion, 5)
    assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.MISSING_PATH)
    assert words in result.message


@pytest.mark.parametrize(
    "context", ["just text", {}, {"answer": 5}, [], [1, 2], None, {"response": "text"}]
)
def test_unknown_formats_are_errors(context: object) -> None:
    result = ask(AgentAssertion.tool_not_called("x"), True, context)
    assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.PARSE)
    assert "context_path" in result.message


def test_provider_reads_one_format_only() -> None:
    anthropic = CASES["anthropic"]["value"]
    called = AgentAssertion.tool_called("search")
    assert ask(called, True, anthropic, provider="Anthropic").passed
    assert ask(called, True, anthropic, provider="gemini").reason is Reason.PARSE
    with pytest.raises(ConfigError, match="provider 'acme'"):
        ask(called, True, anthropic, provider="acme")


def test_a_transcript_can_be_read_behind_a_gate() -> None:
    """The context is a list; dependents see it wrapped, the response is still the list."""
    gate = AssertionTask("gate", None, 0, Op.HasLengthGreaterThan, condition=True)
    task = AgentAssertionTask(
        "t", AgentAssertion.tool_called("book"), True, Op.Equals, depends_on=["gate"]
    )
    assert evaluate_record(compile_plan([gate, task]), EvalRecord(TRANSCRIPT)).tasks[1].passed


SPANS = SpanTree(
    [
        span(1, "invoke_agent", None, (0, 100), {"gen_ai.operation.name": "invoke_agent"}),
        span(
            2, "chat m", 1, (1, 10),
            {
                "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                "gen_ai.response.model": "m-2024", "gen_ai.usage.input_tokens": 10,
                "gen_ai.usage.output_tokens": 4, "gen_ai.response.finish_reasons": ("tool_call",),
                "gen_ai.output.messages": json.dumps(
                    [{"role": "assistant", "parts": [
                        {"type": "tool_call", "id": "1", "name": "find", "arguments": {"to": "S"}}
                    ]}]
                ),
            },
        ),
        span(
            3, "execute_tool find", 1, (10, 20),
            {
                "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
                "gen_ai.tool.call.id": "1", "gen_ai.tool.call.arguments": '{"to": "S"}',
                "gen_ai.tool.call.result": '{"hits": 2}',
            },
        ),
        span(4, "execute_tool book", 1, (20, 30), {"gen_ai.operation.name": "execute_tool"}),
        span(
            5, "chat m", 1, (30, 40),
            {
                "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 6,
                "gen_ai.response.finish_reasons": ("stop",),
                "gen_ai.output.messages": json.dumps(
                    [{"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}]
                ),
            },
        ),
    ]
)  # fmt: skip


@pytest.mark.parametrize(
    ("assertion", "value"),
    [
        (AgentAssertion.tool_call_count(), 2),
        (AgentAssertion.tool_call_sequence(["find", "book"]), True),
        (AgentAssertion.tool_called_with_args("find", {"to": "S"}), True),
        (AgentAssertion.tool_result("find"), {"hits": 2}),
        (AgentAssertion.response_content(), "Done."),
        (AgentAssertion.response_model(), "m"),
        (AgentAssertion.response_finish_reason(), "stop"),
        (AgentAssertion.response_input_tokens(), 30),
        (AgentAssertion.response_output_tokens(), 10),
        (AgentAssertion.response_total_tokens(), 40),
    ],
)
def test_spans_as_the_source(assertion: AgentAssertion, value: JsonValue) -> None:
    result = ask(assertion, value, {}, spans=SPANS, source="spans")
    assert result.actual == value
    assert result.passed


def test_spans_that_say_nothing_of_agents_are_an_error() -> None:
    for tree in (None, SpanTree(), agent_trace()):
        result = ask(AgentAssertion.tool_not_called("x"), True, {}, spans=tree, source="spans")
        assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.NO_SPANS)


def test_response_field_has_no_spans() -> None:
    with pytest.raises(ConfigError, match=r"'t'.*response_field"):
        ask(AgentAssertion.response_field("x"), 1, {}, source="spans")
