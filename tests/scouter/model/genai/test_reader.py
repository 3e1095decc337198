"""Reading agents' work from span attributes, in the words of several instrumentations."""

import json
from dataclasses import replace

import pytest
from pydantic import JsonValue

from scouter.model.genai.calls import tool_call_of
from scouter.model.genai.facts import Kind
from scouter.model.genai.reader import read_facts
from scouter.model.genai.work import agent_work
from scouter.model.span import AttributeValue, SpanEvent, StatusCode
from tests.scouter.evaluate.spans_support import span


def test_a_tool_span_of_the_conventions() -> None:
    executed = span(
        1,
        "execute_tool find",
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "find",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.call.arguments": {"to": ("SEA", "JFK")},
            "gen_ai.tool.call.result": "plain text",
        },
    )
    call = tool_call_of(read_facts(executed))
    assert (call.name, call.call_id, call.arguments) == ("find", "c1", {"to": ["SEA", "JFK"]})
    assert (call.result, call.has_result, call.error) == ("plain text", True, "")


def test_a_tool_that_failed() -> None:
    failed = span(
        1,
        "execute_tool find",
        attributes={"gen_ai.operation.name": "execute_tool", "error.type": "TimeoutError"},
        status=StatusCode.ERROR,
        message="took too long",
    )
    call = tool_call_of(read_facts(failed))
    assert (call.name, call.error, call.has_result) == ("find", "TimeoutError", False)
    plain = replace(failed, attributes={"gen_ai.operation.name": "execute_tool"})
    assert tool_call_of(read_facts(plain)).error == "took too long"


def test_earlier_names() -> None:
    """The tool attributes that pydantic-ai wrote before the conventions had them."""
    tool = span(
        1,
        "running tool",
        attributes={
            "gen_ai.tool.name": "find",
            "tool_arguments": '{"to": "SEA"}',
            "tool_response": "[1]",
        },
    )
    assert read_facts(tool).kind is Kind.TOOL
    call = tool_call_of(read_facts(tool))
    assert (call.arguments, call.result) == ({"to": "SEA"}, [1])


def test_openinference() -> None:
    llm = span(
        1,
        "ChatCompletion",
        attributes={
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            "llm.token_count.prompt": 7,
            "llm.token_count.completion": 3,
            "llm.token_count.total": 11,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "Blue.",
            "llm.output_messages.0.message.tool_calls.1.tool_call.function.name": "second",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "first",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c0",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"a": 1}',
        },
    )
    work = agent_work([llm])
    assert [call.name for call in work.tool_calls] == ["first", "second"]
    assert work.tool_calls[0].arguments == {"a": 1}
    assert (work.content, work.model) == ("Blue.", "m")
    assert (work.input_tokens, work.output_tokens, work.total_tokens) == (7, 3, 11)

    tool = span(
        2,
        "find",
        attributes={
            "openinference.span.kind": "TOOL",
            "tool.name": "find",
            "input.value": '{"a": 1}',
            "output.value": "ok",
        },
    )
    assert read_facts(tool).kind is Kind.TOOL
    assert tool_call_of(read_facts(tool)).arguments == {"a": 1}


def test_calls_are_read_from_messages_where_no_tool_span_tells_of_them() -> None:
    messages = [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "1", "name": "find", "arguments": '{"a": 1}'}],
            "finish_reason": "tool_call",
        }
    ]
    chat = span(
        1,
        "chat",
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": json.dumps(messages),
            "gen_ai.input.messages": '[{"role": "user", "parts": []}]',
        },
    )
    assert read_facts(chat).kind is Kind.MODEL
    work = agent_work([chat])
    assert work.tool_calls[0].arguments == {"a": 1}
    assert (work.content, work.finish_reason, work.input_tokens) == (None, "tool_call", None)
    assert read_facts(chat).input_messages == [{"role": "user", "parts": []}]


def test_tokens_of_spans_above_the_model_calls_are_not_added_again() -> None:
    agent = span(
        1, "invoke_agent", attributes={
            "gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 30,
        },
    )  # fmt: skip
    chats = [
        span(
            i, "chat", 1, (i, i + 1),
            {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 15},
        )
        for i in (2, 3)
    ]  # fmt: skip
    assert agent_work([agent, *chats]).input_tokens == 30


def test_malformed_attributes_are_passed_over() -> None:
    """A malformed attribute of a peer costs its own value, and nothing else."""
    bad = span(
        1,
        "chat",
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": "[not json",
            "gen_ai.usage.input_tokens": "many",
            "gen_ai.response.finish_reasons": (),
            "llm.output_messages.x": 1,
            "llm.output_messages.0": "text",
            "llm.output_messages.0.message.content": "lost",
        },
    )
    work = agent_work([bad])
    assert (work.content, work.input_tokens, work.tool_calls) == (None, None, ())


def test_an_agent_without_spans() -> None:
    work = agent_work([])
    assert (work.tool_calls, work.content, work.total_tokens) == ((), None, None)


def test_openllmetry_numbers_its_completions() -> None:
    """Names as its instrumentations write them; the tenth comes after the second."""
    attributes: dict[str, AttributeValue] = {
        "llm.request.type": "chat",
        "gen_ai.response.model": "gpt-x",
        "gen_ai.usage.prompt_tokens": 10,
        "gen_ai.usage.completion_tokens": 5,
        "llm.usage.total_tokens": 15,
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "Let me see.",
        "gen_ai.completion.0.finish_reason": "tool_calls",
    }
    for at in (10, 2):
        attributes |= {
            f"gen_ai.completion.0.tool_calls.{at}.id": f"c{at}",
            f"gen_ai.completion.0.tool_calls.{at}.name": "find",
            f"gen_ai.completion.0.tool_calls.{at}.arguments": f'{{"n": {at}}}',
        }
    work = agent_work([span(1, "openai.chat", attributes=attributes)])

    assert [call.arguments for call in work.tool_calls] == [{"n": 2}, {"n": 10}]
    assert (work.content, work.finish_reason, work.model) == ("Let me see.", "tool_calls", "gpt-x")
    assert (work.input_tokens, work.output_tokens, work.total_tokens) == (10, 5, 15)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        (
            "gen_ai.client.inference.operation.details",
            {
                "gen_ai.output.messages": json.dumps(
                    [
                        {
                            "role": "assistant",
                            "finish_reason": "stop",
                            "parts": [
                                {"type": "tool_call", "id": "1", "name": "find", "arguments": {}},
                                {"type": "text", "content": "Done."},
                            ],
                        }
                    ]
                )
            },
        ),
        (
            "gen_ai.choice",
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {
                    "content": "Done.",
                    "tool_calls": ({"id": "1", "type": "function", "function": {"name": "find"}},),
                },
            },
        ),
        (
            "gen_ai.choice",
            {
                "finish_reason": "stop",
                "message": "Done.",
                "tool_calls": '[{"id": "1", "type": "function", "function": {"name": "find"}}]',
            },
        ),
    ],
)
def test_messages_in_events(name: str, attributes: dict[str, AttributeValue]) -> None:
    """The event of the conventions, and the one per choice that came before it."""
    chat = span(1, "chat m", attributes={"gen_ai.operation.name": "chat"})
    event = SpanEvent(name=name, time_ns=1, attributes=attributes)
    work = agent_work([replace(chat, events=(event,))])

    assert [call.name for call in work.tool_calls] == ["find"]
    assert (work.content, work.finish_reason) == ("Done.", "stop")


def test_names_that_only_look_numbered_are_passed_over() -> None:
    attributes: dict[str, AttributeValue] = {
        "llm.request.type": "chat",
        "gen_ai.completion": "old text",
        "gen_ai.completion.x.content": "no number",
        f"gen_ai.completion.{'9' * 5_000}.content": "too long a number",
        "gen_ai.completion.0": "no object",
        "gen_ai.completion.0.content": "never reached",
        "gen_ai.completion.1.content": "Blue.",
    }
    assert agent_work([span(1, "chat", attributes=attributes)]).content == "Blue."


TWO: JsonValue = [
    {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": "stop"}
    for text in ("Oslo", "Bergen")
]


@pytest.mark.parametrize(
    ("attributes", "answer"),
    [
        pytest.param({"gen_ai.output.messages": json.dumps(TWO)}, "Oslo", id="OpenTelemetry"),
        pytest.param(
            {
                "gen_ai.completion.0.content": "Oslo",
                "gen_ai.completion.0.finish_reason": "stop",
                "gen_ai.completion.1.content": "Bergen",
                "gen_ai.completion.1.finish_reason": "stop",
            }, "Oslo", id="OpenLLMetry",
        ),
        pytest.param(
            {
                "llm.invocation_parameters": '{"n": 2}',
                "llm.output_messages.0.message.content": "Oslo",
                "llm.output_messages.1.message.content": "Bergen",
            }, "Oslo", id="OpenInference",
        ),
        pytest.param(
            {
                "llm.output_messages.0.message.content": "I look.",
                "llm.output_messages.1.message.content": "Oslo",
            }, "Oslo", id="two items of one answer",
        ),
    ],
)  # fmt: skip
def test_the_first_of_several_choices_is_the_answer(
    attributes: dict[str, AttributeValue], answer: str
) -> None:
    """Choices are several answers to one request, and items are the parts of one answer."""
    named: dict[str, AttributeValue] = {"gen_ai.operation.name": "chat"}
    assert agent_work([span(1, "chat", attributes={**named, **attributes})]).content == answer
