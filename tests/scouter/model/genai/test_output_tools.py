"""Something that is no tool counts as a call: an answer in the form of a call, a hand-off's span.

What pydantic-ai 2.68, LangChain 1.5 and the OpenAI Agents SDK 0.24 write was read from runs of the
packages against a scripted model.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import pytest
from pydantic import JsonValue

from scouter.evaluate.responses.parse import FORMATS, find_response
from scouter.evaluate.trajectory.matching import trajectory_from_spans
from scouter.model.genai.work import agent_work
from scouter.model.span import AttributeValue, Span, StatusCode
from tests.scouter.evaluate.spans_support import span
from tests.support.act_traces import made

ENDS: Final = "The final response which ends this conversation"
OSLO: Final[dict[str, JsonValue]] = {"city": "Oslo"}


def defined(*names: str, about: str = ENDS) -> str:
    return json.dumps([{"type": "function", "name": name, "description": about} for name in names])


def asks(
    name: str,
    arguments: JsonValue = None,
    id: int = 2,
    more: Mapping[str, AttributeValue] = MappingProxyType({}),
) -> Span:
    """A model's call that asks for one tool."""
    part: dict[str, JsonValue] = {"type": "tool_call", "id": f"c{id}", "name": name}
    part["arguments"] = arguments or {**OSLO}
    output = json.dumps([{"role": "assistant", "parts": [part], "finish_reason": "tool_call"}])
    one = made(id, "model", "m", 1, (id * 10, id * 10 + 5), output_messages=output)
    return replace(one, attributes={**one.attributes, **more})


def runs(
    name: str, id: int = 3, call: int = 2, more: Mapping[str, AttributeValue] = MappingProxyType({})
) -> Span:
    """The execution of a tool."""
    one = made(id, "tool", name, 1, (id * 10, id * 10 + 5), call=f"c{call}")
    return replace(one, attributes={**one.attributes, **more})


def given(answer: str, name: str = "gen_ai.output.messages") -> Span:
    """The agent around, which gives back an answer."""
    one = made(1, "agent", "a", at=(0, 99))
    return replace(one, attributes={**one.attributes, name: answer})


def step(output: str) -> Span:
    """The graph around, as OpenInference tells it."""
    more = {"openinference.span.kind": "CHAIN", "output.value": output}
    return span(1, "LangGraph", None, (0, 99), more)


AGENT: Final = made(1, "agent", "a", at=(0, 99))
NAMED: Final = {"type": "function", "function": {"name": "City"}}
RESULT: Final = "gen_ai.tool.call.result"
FORMAT: Final = "langsmith.metadata.ls_structured_output_format"


@pytest.mark.parametrize(
    ("spans", "answer"),
    [
        pytest.param([given(json.dumps(OSLO), "final_result"), asks("final_result")], OSLO,
                     id="pydantic-ai"),
        pytest.param([AGENT, asks("final_result")], OSLO, id="without-the-agent's-result"),
        pytest.param([AGENT, asks("final_result_City")], OSLO, id="one-of-two-forms"),
        pytest.param(
            [AGENT, asks("submit", more={"gen_ai.tool.definitions": defined("submit")})], OSLO,
            id="a-name-of-its-own",
        ),
        pytest.param(
            [AGENT, asks("submit", more={
                "gen_ai.tool.definitions": defined("submit", about=f"City: {ENDS}")})],
            OSLO, id="described",
        ),
        pytest.param(
            [AGENT, asks("submit", more={"model_request_parameters": json.dumps(
                {"function_tools": [], "output_tools": [{"name": "submit"}]})})],
            OSLO, id="pydantic-ai's-request",
        ),
        pytest.param([given(json.dumps(OSLO), "final_result"), asks("submit")], OSLO,
                     id="the-agent-gives-it-back"),
        pytest.param(
            [given("[1]", "final_result"), asks("submit", {"response": [1]})], {"response": [1]},
            id="the-agent-gives-back-its-only-argument",
        ),
        pytest.param(
            [AGENT, asks("final_result"), runs("final_result", more={
                "logfire.msg": "running output function: final_result", RESULT: "OSLO"})],
            "OSLO", id="read-by-a-function",
        ),
        pytest.param(
            [AGENT, asks("final_result"),
             replace(runs("final_result"), name="running output function")],
            OSLO, id="read-by-a-function-of-earlier-versions",
        ),
        pytest.param([step(json.dumps({"messages": [], "structured_response": OSLO})),
                      asks("City")], OSLO, id="LangChain-ToolStrategy"),
        pytest.param(
            [AGENT, asks("City", more={
                "llm.invocation_parameters": json.dumps({"tool_choice": NAMED})})],
            OSLO, id="OpenInference-named-by-the-request",
        ),
        pytest.param(
            [AGENT, asks("City", more={"request_data": json.dumps(
                {"tool_choice": {"type": "tool", "name": "City"}})})],
            OSLO, id="Logfire-and-instructor-for-Anthropic",
        ),
        pytest.param([AGENT, asks("City", more={"gen_ai.request.tool_choice": json.dumps(NAMED)})],
                     OSLO, id="OpenTelemetry-named-by-the-request"),
        pytest.param([AGENT, asks("City", more={"gen_ai.request.tool_choice": "City"})], OSLO,
                     id="by-its-name-alone"),
        pytest.param(
            [AGENT, asks("City", more={FORMAT: json.dumps(
                {"kwargs": {"method": "function_calling"}, "schema": NAMED})})],
            OSLO, id="LangSmith-structured-output",
        ),
        pytest.param([AGENT, asks("set_model_response"), runs("set_model_response")], OSLO,
                     id="ADK"),
        pytest.param([AGENT, asks("StructuredOutput")], OSLO, id="Claude-Agent-SDK"),
        pytest.param(
            [AGENT, asks("final_answer"), runs("final_answer", more={RESULT: "It is Oslo."})],
            "It is Oslo.", id="smolagents",
        ),
        pytest.param([AGENT, asks("final_answer")], OSLO, id="smolagents-not-executed"),
        pytest.param(
            [AGENT, asks("City"), runs("City", more={
                RESULT: '[{"text": "Successfully validated City structured output"}]'})],
            OSLO, id="Strands",
        ),
    ],
)  # fmt: skip
def test_an_output_tool_is_no_tool(spans: list[Span], answer: JsonValue) -> None:
    """Its call is the answer, and the trajectory is empty."""
    work = agent_work(spans)
    assert work.tool_calls == ()
    assert work.content is not None
    assert (work.content if isinstance(answer, str) else json.loads(work.content)) == answer
    assert trajectory_from_spans(spans) == []
    assert not work.evidence.missing


@pytest.mark.parametrize(
    ("spans", "names"),
    [
        pytest.param([AGENT, asks("pay"), runs("pay")], ["pay"], id="executed"),
        pytest.param([AGENT, asks("pay")], ["pay"], id="nothing-says-more"),
        pytest.param([AGENT, asks("final_result"), runs("final_result")], ["final_result"],
                     id="a-tool-of-this-name-that-is-executed"),
        pytest.param(
            [AGENT, asks("pay", more={"gen_ai.tool.definitions": defined("submit")})], ["pay"],
            id="beside-an-output-tool",
        ),
        pytest.param(
            [AGENT, asks("pay"), runs("pay"), asks("final_result", id=4)], ["pay"],
            id="before-the-answer",
        ),
        pytest.param(
            [AGENT, asks("pay", more={"gen_ai.request.tool_choice": "auto"})], ["pay"], id="free"
        ),
        pytest.param(
            [AGENT, asks("pay", more={
                "llm.invocation_parameters": json.dumps({"tool_choice": NAMED, "user": "pay"})})],
            ["pay"], id="another-is-named",
        ),
        pytest.param(
            [AGENT, asks("pay", more={"gen_ai.request.tool_choice": "pay"}), runs("pay")], ["pay"],
            id="named-and-executed",
        ),
        pytest.param(
            [AGENT, replace(runs("echo"), attributes={
                **runs("echo").attributes, "output.value": json.dumps(OSLO)}), asks("pay", id=4)],
            ["echo", "pay"], id="a-tool-that-gives-the-same",
        ),
    ],
)  # fmt: skip
def test_a_tool_is_one(spans: list[Span], names: list[str]) -> None:
    assert [call.name for call in agent_work(spans).tool_calls] == names


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param(
            [AGENT, asks("final_answer", "***"), runs("final_answer", more={RESULT: "***"})],
            id="smolagents",
        ),
        pytest.param(
            [AGENT, asks("final_answer"), runs("final_answer", more={
                RESULT: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"})], id="a-hash",
        ),
        pytest.param([AGENT, asks("StructuredOutput", "[REDACTED]")], id="Claude-Agent-SDK"),
        pytest.param([AGENT, asks("final_result", "<redacted>")], id="pydantic-ai"),
    ],
)  # fmt: skip
def test_a_masked_answer_of_an_output_tool_is_not_known(spans: list[Span]) -> None:
    work = agent_work(spans)
    assert (work.tool_calls, work.content) == ((), None)
    assert "masked" in work.unknown_content


def hand_off(name: str, id: int = 3, at: tuple[float, float] = (30, 31)) -> Span:
    more = {"openinference.span.kind": "TOOL", "input.value": "Triage", "output.value": "Bob"}
    return span(id, name, 1, at, more)


@pytest.mark.parametrize(
    ("spans", "calls"),
    [
        pytest.param(
            [AGENT, asks("transfer_to_billing_bob", {}), hand_off("handoff to Billing Bob")],
            ["transfer_to_billing_bob"], id="OpenAI-Agents",
        ),
        pytest.param([AGENT, asks("escalate"), hand_off("handoff to Billing Bob")], ["escalate"],
                     id="a-tool-of-another-name"),
        pytest.param([AGENT, hand_off("handoff to Billing Bob")], ["transfer_to_billing_bob"],
                     id="the-span-alone"),
        pytest.param([AGENT, asks("transfer_to_bob"), runs("transfer_to_bob")],
                     ["transfer_to_bob"], id="LangGraph"),
        pytest.param([AGENT, asks("pay"), runs("transfer_to_bob", call=9)],
                     ["pay", "transfer_to_bob"], id="two-tools"),
        pytest.param(
            [AGENT, asks("transfer_to_a", id=2), hand_off("handoff to A"),
             asks("transfer_to_b", id=4), hand_off("handoff to B", 5, (50, 51))],
            ["transfer_to_a", "transfer_to_b"], id="two-hand-offs",
        ),
    ],
)  # fmt: skip
def test_a_hand_off_is_one_call(spans: list[Span], calls: list[str]) -> None:
    assert [call.name for call in agent_work(spans).tool_calls] == calls


REFUSALS: Final = (
    "Unknown tool name: 'delete'. Available tools: 'weather'",
    "delete is not a valid tool, try one of [weather].",
    "Tool delete not found in agent T2",
    "Tool not found: {'tool_name': 'delete'}",
    "Function delete is not found in the tools_dict.",
    "Model tried to call unavailable tool 'delete'. Available tools: weather.",
    "Action 'delete' don't exist, these are the only available Actions: weather",
    'Requested function "delete" not found.',
    "Tool with name delete not found",
    "The tool call with name 'delete' is not part of the provided tools, please try again",
    "Could not find function delete.",
    "Unknown tool: delete",
    "Invalid tool name: delete",
    "unsupported function: delete",
    "delete is not a known tool",
    "The tool 'delete' is not in the list of tools",
)


def answered(result: str, name: str = "delete") -> list[JsonValue]:
    call: JsonValue = {
        "id": "c2",
        "type": "function",
        "function": {"name": name, "arguments": "{}"},
    }
    return [
        {"role": "user", "content": "?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c2", "content": result},
        {"role": "assistant", "content": "Sorry."},
    ]


@pytest.mark.parametrize("said", REFUSALS)
def test_a_tool_that_nobody_knows_is_a_failed_call(said: str) -> None:
    """Known by the result in a conversation, by the next input of a model, or by a span's error."""
    work = find_response({"messages": answered(said)}, tuple(FORMATS))[1]
    assert [(call.name, bool(call.error)) for call in work.tool_calls] == [("delete", True)]
    heard = json.dumps(answered(said)[:3])
    last = made(4, "model", "m", 1, (40, 45), input_messages=heard)
    work = agent_work([AGENT, asks("delete"), last])
    assert [(call.name, bool(call.error)) for call in work.tool_calls] == [("delete", True)]
    turn = span(7, "turn", 1, (1, 90), status=StatusCode.ERROR, message=said)
    work = agent_work([AGENT, turn, asks("delete")])
    assert [(call.name, call.error) for call in work.tool_calls] == [("delete", said)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("find", "The hammer was not found."),
        ("shop", "Tool hammer not found in the shop of tools"),
        ("delete", "Deleted; nothing was not found."),
        ("pay", "Paid with the pay function"),
    ],
)
def test_an_answer_of_a_tool_is_no_refusal(name: str, said: str) -> None:
    work = find_response({"messages": answered(said, name)}, tuple(FORMATS))[1]
    assert [bool(call.error) for call in work.tool_calls] == [False]


def test_a_refusal_is_of_its_own_call() -> None:
    response: Mapping[str, JsonValue] = {"messages": answered("Tool weather not found", "delete")}
    work = find_response(dict(response), tuple(FORMATS))[1]
    assert [bool(call.error) for call in work.tool_calls] == [False]
