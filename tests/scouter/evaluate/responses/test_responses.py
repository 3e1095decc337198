"""Responses as the providers' references show them, and contexts that are none."""

import copy
import json
from enum import Enum
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.responses.parse import FORMATS, PROVIDERS, find_response, formats_of
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.model.agent_work import why_unreported
from scouter.model.genai.messages import ERROR_STARTS, MessageLog
from scouter.model.genai.work import agent_work
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from tests.scouter.evaluate.spans_support import TRACE

FOLDER = Path(__file__).parents[3] / "cases"
DETAILS: dict[str, Any] = yaml.safe_load(
    (FOLDER / "agent_details.yaml").read_text(encoding="utf-8")
)
OPENAI: JsonValue = {
    "choices": [{"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]
}


def ask(assertion: AgentAssertion, context: object, **options: Any) -> EvalTaskResult:
    task = AgentAssertionTask("t", assertion, True, Op.Equals, **options)
    return evaluate_record(compile_plan([task]), EvalRecord(context)).tasks[0]


@pytest.mark.parametrize("name", DETAILS)
def test_what_is_read(name: str) -> None:
    value, want = DETAILS[name]["value"], DETAILS[name]["want"]
    work = find_response(value, tuple(FORMATS))[1]

    assert work.content == want.get("content")
    assert [[c.name, c.arguments] for c in work.tool_calls] == want.get("calls", [])
    assert work.model == want.get("model")
    assert work.finish_reason == want.get("finish_reason")
    counts = [work.input_tokens, work.output_tokens, work.total_tokens]
    assert counts == want.get("tokens", [None, None, None])
    if "results" in want:
        assert [c.result for c in work.tool_calls] == want["results"]


@pytest.mark.parametrize("name", DETAILS)
def test_a_response_reads_the_same_as_json_text_and_beside_its_request(name: str) -> None:
    """The request's messages hold no call; taking them for the response would pass everything."""
    value = DETAILS[name]["value"]
    request = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    work = find_response(value, tuple(FORMATS))[1]
    count = AgentAssertion.tool_call_count()
    for context in (json.dumps(value), {"messages": request, "response": value}):
        assert ask(count, context).actual == len(work.tool_calls)


@pytest.mark.parametrize(
    "context",
    [
        {"choices": ["red", "green"]},
        {"candidates": ["Ada", "Grace"]},
        {"predictions": [0.2, 0.8]},
        {"output": ["a", "b"]},
        {"output": []},
        {"content": {"text": "hi"}},
        {"messages": [{"role": "user", "content": "Hi"}]},
        [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Be kind"}],
        {"messages": []},
        {"error": {"message": "rate limited", "type": "tokens"}},
        {"response": {"choices": []}},
    ],
)
def test_nothing_passes_on_what_is_no_response(context: object) -> None:
    """A context with a familiar field, or a conversation without an answer, is not one."""
    result = ask(AgentAssertion.tool_not_called("delete"), context)
    assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.PARSE)


@pytest.mark.parametrize(
    ("context", "options", "words"),
    [
        ({"answer": 5}, {}, "found an object with 'answer'"),
        ({"response": {"text": "hi"}}, {}, "in its 'response' an object with 'text'"),
        ([{"role": "user", "content": "Hi"}], {}, "messages of 'user' only"),
        ([1, 2], {}, "a list of 2 items without roles"),
        ("hello", {}, "found a text"),
        ({}, {}, "no keys"),
        (OPENAI, {"provider": "anthropic"}, "reads as OpenAI chat: leave out the provider"),
        (OPENAI, {"provider": "anthropic"}, "provider's formats (Anthropic)"),
    ],
)
def test_the_message_says_what_was_found(
    context: object, options: dict[str, Any], words: str
) -> None:
    result = ask(AgentAssertion.tool_called("x"), context, **options)
    assert words in result.message
    if not options:
        assert all(name in result.message for name in FORMATS)


@pytest.mark.parametrize("provider", ["OpenAI", "openai", "open_ai", None, "Undefined"])
def test_providers_are_named_in_any_spelling(provider: str | None) -> None:
    assert ask(AgentAssertion.tool_not_called("x"), OPENAI, provider=provider).passed


@pytest.mark.parametrize("provider", PROVIDERS)
def test_messages_are_read_whatever_the_provider(provider: str) -> None:
    answered: JsonValue = [{"role": "user", "content": "Hi"}, {"role": "model", "content": "Yes?"}]
    assert find_response(answered, formats_of(provider))[1].content is not None


def test_unknown_providers_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'t'.*'acme' is unknown; there are 'openai'"):
        ask(AgentAssertion.tool_called("x"), OPENAI, provider="acme")


def test_the_first_of_several_calls_answers() -> None:
    """`tool_argument` reads the first call, `tool_result` the first with a known result."""
    calls = [{"id": str(n), "function": {"name": "f", "arguments": {"n": n}}} for n in range(3)]
    context = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "2", "content": "two"},
        {"role": "tool", "tool_call_id": "1", "content": "one"},
    ]
    assert ask(AgentAssertion.tool_argument("f", "n"), context).actual == 0
    assert ask(AgentAssertion.tool_result("f"), context).actual == "one"
    assert ask(AgentAssertion.tool_called_with_args("f", {"n": 2}), context).actual is True


def test_long_conversations_are_read_in_one_pass() -> None:
    """Twenty thousand calls, answered in the opposite order; looking for each would not end."""
    count = 20_000
    log = MessageLog()
    log.read(
        {"role": "assistant", "tool_calls": [{"id": str(n), "name": "f"}]} for n in range(count)
    )
    log.read(
        {"role": "tool", "tool_call_id": str(n), "content": str(n)} for n in reversed(range(count))
    )
    assert [call.result for call in log.tool_calls()] == [str(n) for n in range(count)]


def tool(**fields: JsonValue) -> JsonValue:
    return fields


def test_long_messages_are_read_in_one_pass() -> None:
    """Twenty thousand calls in one message, answered by name or by none of their names."""
    count = 20_000
    log = MessageLog()
    calls = [tool(id=str(n), name="f") for n in range(count)]
    calls += [tool(name="g"), tool(id="0", name="f")]  # the last is reported twice
    log.read([{"role": "assistant", "tool_calls": calls}])
    log.read({"role": "tool", "name": "h", "content": "none"} for _ in range(count))
    log.read([{"role": "tool", "name": "g", "content": "g"}, {"role": "tool", "content": "first"}])
    found = log.tool_calls()

    assert (len(found), found[0].result, found[-1].result) == (count + 1, "first", "g")
    assert sum(call.has_result for call in found) == 2


UNREADABLE: dict[str, JsonValue] = {
    "entry": [{"role": "assistant", "tool_calls": ["delete"]}],
    "list": [{"role": "assistant", "tool_calls": "delete"}],
    "function": [{"role": "assistant", "tool_calls": [{"id": "1", "function": ["delete"]}]}],
    "name": [{"role": "assistant", "tool_calls": [{"function": {"name": ["delete"]}}]}],
    "old": [{"role": "assistant", "function_call": "delete"}],
    "anthropic": [{"role": "assistant", "content": [{"type": "tool_use", "name": None}]}],
    "gemini": {"candidates": [{"content": {"parts": [{"functionCall": ["delete"]}]}}]},
    "bedrock": {"output": {"message": {"content": [{"toolUse": {"name": {}}}]}}},
    "gemini, malformed": {
        "candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL"}]
    },
    "openai, left out": {
        "choices": [{"message": {"role": "assistant"}, "finish_reason": "tool_calls"}]
    },
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_call_that_cannot_be_read_passes_nothing(name: str) -> None:
    for assertion in (
        AgentAssertion.tool_not_called("delete"),
        AgentAssertion.tool_called("delete"),
        AgentAssertion.tool_call_sequence([]),
        AgentAssertion.tool_call_count("delete"),
    ):
        result = ask(assertion, {"response": UNREADABLE[name]})
        assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.PARSE)
        assert "call 1 of 1 of a tool does not tell the tool's name" in result.message


class Provider(Enum):
    """An enum as the original's users pass it."""

    OpenAI = 0
    GoogleAdk = 1


def test_a_provider_may_be_an_enum() -> None:
    assert ask(AgentAssertion.tool_not_called("x"), OPENAI, provider=Provider.OpenAI).passed
    task = AgentAssertionTask(
        "t", AgentAssertion.tool_called("x"), True, Op.Equals, provider=Provider.GoogleAdk
    )
    assert task.provider == "GoogleAdk"


WORDS = st.sampled_from(
    ["role", "type", "content", "parts", "text", "tool_calls", "function", "function_call", "name",
     "id", "call_id", "arguments", "input", "choices", "message", "candidates", "output", "events",
     "predictions", "messages", "response", "stop_reason", "usage", "usageMetadata", "toolUse",
     "functionResponse", "tool_use", "tool_result", "assistant", "user", "tool", "ai", "refusal",
     "server_tool_call", "web_search_call", "input_tokens", "finish_reason", "status"]
)  # fmt: skip
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


@given(ANY_JSON)
def test_anything_is_read_or_is_none(value: Any) -> None:
    """Other people's responses never end in an exception of ours."""
    for context in (value, json.dumps(value), {"response": value}):
        result = ask(AgentAssertion.tool_call_count(), context)
        assert result.reason in (None, Reason.PARSE), result.message


def test_thousands_of_levels_of_content_are_read() -> None:
    message: dict[str, Any] = {"role": "assistant", "content": "deep"}
    for _ in range(50_000):
        message = {"role": "assistant", "content": message}
    log = MessageLog()
    log.read([message])
    assert log.content == "deep"


def test_a_response_is_read_once_for_all_tasks_of_an_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And again by the next evaluation: its record may have changed meanwhile."""
    read = FORMATS["OpenAI chat"]
    seen: list[object] = []

    def counted(value: Any) -> Any:
        seen.append(value)
        return read(value)

    monkeypatch.setitem(cast("dict[str, object]", FORMATS), "OpenAI chat", counted)
    tasks = [
        AgentAssertionTask("content", AgentAssertion.response_content(), "Hi.", Op.Equals),
        AgentAssertionTask("end", AgentAssertion.response_finish_reason(), "stop", Op.Equals),
        AgentAssertionTask("field", AgentAssertion.response_field("choices"), 1, Op.HasLengthEqual),
    ]
    records = [EvalRecord(copy.deepcopy(OPENAI)) for _ in range(3)]
    dataset = EvalDataset(records, tasks)

    assert dataset.evaluate().pass_rate == 1.0
    assert len(seen) == 3
    assert evaluate_record(dataset.plan, records[0]).outcome == "passed"
    assert len(seen) == 4

    records[0].update_context_field("choices", [{"message": {"content": "No."}}])
    changed = [dataset.evaluate().records[0], evaluate_record(dataset.plan, records[0])]
    assert [result["content"].actual for result in changed] == ["No.", "No."]


@pytest.mark.parametrize("start", ERROR_STARTS)
def test_a_result_that_begins_as_an_error_is_one(start: str) -> None:
    log = MessageLog()
    log.read(
        [
            {"role": "assistant", "tool_calls": [_requested("c1"), _requested("c2")]},
            {"role": "tool", "tool_call_id": "c1", "content": f"{start.title()} no airport"},
            {"role": "tool", "tool_call_id": "c2", "content": f"It said: {start} no airport"},
        ]
    )
    assert [bool(call.error) for call in log.tool_calls()] == [True, False]


def test_a_result_that_is_known_again_adds_its_error() -> None:
    answer: JsonValue = {"toolUseId": "t1", "content": [{"text": "no"}], "status": "error"}
    log = MessageLog()
    log.read(
        [
            {"role": "assistant", "tool_calls": [_requested("t1")]},
            {"role": "tool", "tool_call_id": "t1", "content": [{"text": "no"}]},
            {"role": "user", "content": [{"toolResult": answer}]},
        ]
    )
    [call] = log.tool_calls()
    assert (call.result, call.error) == ("no", "error")
    assert not log.strays()


SOUND: dict[str, JsonValue] = {"id": "a1", "transcript": "Oslo it is", "data": "UklG"}


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"content": None, "audio": SOUND}, id="OpenAI's chat"),
        pytest.param({"content": [{"type": "output_audio", **SOUND}]}, id="OpenAI's realtime"),
        pytest.param({"content": [{"type": "audio", "audio": SOUND}]}, id="a part with an object"),
        pytest.param({"parts": [{"type": "audio", **SOUND}]}, id="a part"),
        pytest.param(
            {"content": [{"type": "text", "text": "Oslo it is"}], "audio": {"transcript": "no"}},
            id="a text counts before it",
        ),
    ],
)
def test_an_answer_as_sound_is_its_transcript(message: dict[str, JsonValue]) -> None:
    """An answer that has a form of its own reads as none."""
    log = MessageLog()
    log.read([{"role": "assistant", **message}])
    assert log.content == "Oslo it is"


def _results(failed: bool) -> dict[str, JsonValue]:
    """MCP's result of a failed call, in the messages of several dialects."""
    mcp: dict[str, JsonValue] = {"content": [{"type": "text", "text": "no"}], "isError": failed}
    block: JsonValue = {"type": "text", "text": json.dumps(mcp)}
    return {
        "text": {"role": "tool", "tool_call_id": "c1", "content": json.dumps(mcp)},
        "object": {"role": "tool", "tool_call_id": "c1", "content": mcp},
        "message": {"role": "tool", "tool_call_id": "c1", **mcp},
        "block": {"role": "tool", "tool_call_id": "c1", "content": [block]},
        "OpenTelemetry": {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": mcp}],
        },
        "Anthropic": {
            "role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", **mcp}],
        },
        "Responses": {
            "type": "function_call_output", "call_id": "c1", "output": json.dumps(mcp),
        },
        "Gemini": {
            "role": "user",
            "parts": [{"functionResponse": {"name": "book", "response": {"result": mcp}}}],
        },
    }  # fmt: skip


@pytest.mark.parametrize("failed", [True, False])
@pytest.mark.parametrize("dialect", _results(True))
def test_a_flag_inside_of_a_result_is_the_tools_failure(dialect: str, failed: bool) -> None:
    """MCP says inside of the result whether the tool failed, in whatever the result is wrapped."""
    log = MessageLog()
    log.read([{"role": "assistant", "tool_calls": [_requested("c1")]}, _results(failed)[dialect]])
    [call] = log.tool_calls()
    assert (call.has_result, bool(call.error)) == (True, failed)


def _requested(call_id: str) -> JsonValue:
    return {"id": call_id, "type": "function", "function": {"name": "book", "arguments": "{}"}}


_TRANSFER: JsonValue = [_requested("t1")]


@pytest.mark.parametrize(
    ("message", "is_blank"),
    [
        pytest.param({"content": "Oslo."}, False, id="a text"),
        pytest.param({"content": ""}, True, id="an empty text"),
        pytest.param({"content": " \n"}, True, id="blanks"),
        pytest.param({"content": None, "refusal": "I may not."}, False, id="a refusal"),
        pytest.param({"content": None, "tool_calls": _TRANSFER}, False, id="a hand-over"),
    ],
)
def test_a_blank_answer_is_distinguished_from_a_hand_over(
    message: dict[str, JsonValue], is_blank: bool
) -> None:
    """A run that ends with a call of a tool has no text, and is no blank answer."""
    said: JsonValue = {"role": "assistant", **message}
    task = AgentAssertionTask("t", AgentAssertion.response_is_blank(), is_blank, Op.Equals)
    for context in ({"choices": [{"message": said}]}, [{"role": "user", "content": "Hi"}, said]):
        [result] = evaluate_record(compile_plan([task]), EvalRecord(context)).tasks
        assert result.outcome is Outcome.PASSED


SAID: Final[list[JsonValue]] = [
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me"}]}
]


@pytest.mark.parametrize(
    ("response", "is_known"),
    [
        pytest.param({"object": "response", "status": status, "output": output}, is_said,
                     id=f"Responses-{status}-{len(output)}")
        for status, is_said in (
            ("completed", True), ("incomplete", True), ("failed", False), ("cancelled", False),
            ("queued", False), ("in_progress", False),
        )
        for output in ([], SAID)
    ] + [
        pytest.param(
            {"choices": [{"message": {"content": "Let me"}, "finish_reason": reason}]}, is_said,
            id=f"chat-{reason}",
        )
        for reason, is_said in (("stop", True), ("length", True), ("error", False),
            ("abort", False))
    ],
)  # fmt: skip
def test_a_response_that_broke_off_or_is_not_there_yet(response: JsonValue, is_known: bool) -> None:
    """Kind: what was said before a failure is the answer, and what comes later is nothing."""
    work = find_response(response, tuple(FORMATS))[1]
    assert (not work.unknown_content) is is_known
    assert (not why_unreported(work)) is is_known


PICTURES: Final[dict[str, JsonValue]] = {
    "OpenTelemetry": {"type": "uri", "modality": "image", "uri": "https://a.example/1.png"},
    "OpenTelemetry-bytes": {"type": "blob", "mime_type": "image/png", "content": "aGk="},
    "OpenAI": {"type": "image_url", "image_url": {"url": "https://a.example/1.png"}},
    "Gemini": {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    "Bedrock": {"image": {"format": "png", "source": {"bytes": "aGk="}}},
}


@pytest.mark.parametrize("part", PICTURES.values(), ids=PICTURES)
def test_a_picture_is_no_blank_answer(part: JsonValue) -> None:
    """Kind: an answer of another form is taken for none. It calls no tool, and is no text."""
    context: JsonValue = [{"role": "user", "content": "Draw."}, {"role": "model", "parts": [part]}]
    spans = [
        Span(
            trace_id=TRACE, span_id="1" * 16, name="chat", start_ns=1, end_ns=2, attributes={
                "gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(context[1:]),
            },
        )
    ]  # fmt: skip
    for work in (find_response({"messages": context}, tuple(FORMATS))[1], agent_work(spans)):
        assert (work.content, why_unreported(work)) == (None, "")
        assert "no text" in work.unknown_content
    said: JsonValue = {"role": "model", "parts": [part, {"text": "Here."}]}
    work = find_response({"messages": [said]}, tuple(FORMATS))[1]
    assert (work.content, work.unknown_content) == ("Here.", "")


@pytest.mark.parametrize(
    ("result", "has_failed"),
    [
        pytest.param({"isError": "true", "content": []}, True, id="a-flag-as-a-text"),
        pytest.param({"isError": "false", "content": []}, False, id="no-flag-as-a-text"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602}}, True, id="JSON-RPC"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "result": {}}, False, id="JSON-RPC-result"),
        pytest.param({"errorType": "E", "errorMessage": "no", "stackTrace": []}, True, id="Lambda"),
        pytest.param("{'error': 'no'}", True, id="Python-prints-a-dict"),
        pytest.param("{'error': None, 'sum': 5}", False, id="Python-prints-no-error"),
        pytest.param("meta=None content=[TextContent(text='no')] isError=True", True,
                     id="Python-prints-MCP's-result"),
        pytest.param("meta=None content=[TextContent(text='isError=True')] isError=False", False,
                     id="Python-prints-what-did-not-fail"),
    ],
)  # fmt: skip
def test_a_failure_in_a_result(result: JsonValue, has_failed: bool) -> None:
    """Kind: the failure that a tool's result tells counts as what the tool gave back."""
    log = MessageLog()
    call: JsonValue = {"id": "c", "function": {"name": "pay", "arguments": ""}}
    log.read(
        [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": result},
        ]
    )
    assert [bool(each.error) for each in log.tool_calls()] == [has_failed]
    text = result if isinstance(result, str) else json.dumps(result)
    one = Span(
        trace_id=TRACE, span_id="1" * 16, name="execute_tool pay", start_ns=1, end_ns=2,
        attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": text},
    )  # fmt: skip
    assert [bool(each.error) for each in agent_work([one]).tool_calls] == [has_failed]


def test_the_first_of_several_answers_is_that_of_the_lowest_index() -> None:
    """Streams put together may have them in the order in which they ended."""
    answers: list[JsonValue] = [
        {"index": at, "message": {"content": said}, "finish_reason": "stop"}
        for at, said in ((1, "Rome"), (0, "Oslo"))
    ]
    work = find_response({"choices": answers}, tuple(FORMATS))[1]
    assert work.content == "Oslo"
