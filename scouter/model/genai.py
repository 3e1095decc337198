"""What spans say about agents: the one place that knows the names of GenAI attributes.

Source: OpenTelemetry semantic conventions for generative AI (spans, agent spans, messages, events)
and their earlier names; OpenInference's names for LLM and TOOL spans; OpenLLMetry's numbered
`gen_ai.completion.0…`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import JsonValue

from scouter.model.agent_work import AgentWork, total_of
from scouter.model.json_value import to_json_value
from scouter.model.messages import MessageLog, field
from scouter.model.span import Attributes, Span, StatusCode
from scouter.model.text_json import parse_if_json
from scouter.model.tool_call import ToolCall

OPERATION: Final = "gen_ai.operation.name"
EXECUTE_TOOL: Final = "execute_tool"
INFERENCE: Final = frozenset({"chat", "text_completion", "generate_content"})
MODEL_CALLS: Final = INFERENCE | {"embeddings"}
"""Operations that a provider counts tokens for; a span above them often repeats the sum."""
OPENINFERENCE_KIND: Final = "openinference.span.kind"

TOOL_NAME: Final = ("gen_ai.tool.name", "tool.name")
TOOL_CALL_ID: Final = ("gen_ai.tool.call.id", "tool_call.id", "tool.id")
TOOL_ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments", "tool_arguments", "tool.parameters", "input.value",
)  # fmt: skip
TOOL_RESULT: Final = ("gen_ai.tool.call.result", "tool_response", "output.value")
ERROR_TYPE: Final = ("error.type", "exception.type")
MODEL: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
FINISH_REASONS: Final = ("gen_ai.response.finish_reasons", "llm.finish_reason")
INPUT_TOKENS: Final = (
    "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt",
)  # fmt: skip
OUTPUT_TOKENS: Final = (
    "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
)  # fmt: skip
TOTAL_TOKENS: Final = (
    "gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total",
)  # fmt: skip
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OPENINFERENCE_INPUT: Final = "llm.input_messages"
OPENINFERENCE_OUTPUT: Final = "llm.output_messages"
OPENLLMETRY_INPUT: Final = "gen_ai.prompt"
OPENLLMETRY_OUTPUT: Final = "gen_ai.completion"
OPENLLMETRY_REQUEST: Final = "llm.request.type"
DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"
CHOICE_EVENT: Final = "gen_ai.choice"
MESSAGE_EVENTS: Final = {"gen_ai.user.message": "user", "gen_ai.assistant.message": "assistant"}
_MODEL_KINDS: Final = frozenset({"LLM", "EMBEDDING"})
_REQUESTS: Final = frozenset({"chat", "completion", "embedding"})
USAGE_KEYS: Final = (
    OPERATION, OPENINFERENCE_KIND, OPENLLMETRY_REQUEST, *INPUT_TOKENS, *OUTPUT_TOKENS,
)  # fmt: skip
"""What `is_model_call` and `tokens` look at."""
_DIGITS: Final = 9
"""Of the number of a message; Python refuses to read thousands of them."""


def is_inference(span: Span) -> bool:
    """Tell whether a span is one call of a model."""
    attributes = span.attributes
    operation = attributes.get(OPERATION)
    if operation is not None:
        return operation in INFERENCE
    return attributes.get(OPENINFERENCE_KIND) == "LLM" or attributes.get(OPENLLMETRY_REQUEST) in (
        "chat",
        "completion",
    )


def is_model_call(attributes: Attributes) -> bool:
    """Tell whether a span with these attributes is one call of a model, embeddings included."""
    operation = attributes.get(OPERATION)
    if operation is not None:
        return operation in MODEL_CALLS
    return (
        attributes.get(OPENINFERENCE_KIND) in _MODEL_KINDS
        or attributes.get(OPENLLMETRY_REQUEST) in _REQUESTS
    )


def tokens(attributes: Attributes, names: Sequence[str]) -> int | None:
    """The first number that a span reports under one of the names, such as `INPUT_TOKENS`."""
    for name in names:
        value = attributes.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def is_tool(span: Span) -> bool:
    """Tell whether a span is one execution of a tool."""
    attributes = span.attributes
    operation = attributes.get(OPERATION)
    if operation is not None:
        return operation == EXECUTE_TOOL
    return attributes.get(OPENINFERENCE_KIND) == "TOOL" or TOOL_NAME[0] in attributes


def tool_name_of(span: Span) -> str:
    """Read whose execution a tool's span is; else its own name without `execute_tool `."""
    name = _text(_first(span.attributes, TOOL_NAME))
    return name or span.name.removeprefix(f"{EXECUTE_TOOL} ")


def tool_call_of(span: Span) -> ToolCall:
    """Read the call that a tool's span tells of."""
    attributes = span.attributes
    result = _first(attributes, TOOL_RESULT)
    failed = span.status == StatusCode.ERROR
    error = _text(_first(attributes, ERROR_TYPE)) or (span.status_message if failed else "")
    return ToolCall(
        name=tool_name_of(span),
        arguments=_json(_first(attributes, TOOL_ARGUMENTS)),
        call_id=_text(_first(attributes, TOOL_CALL_ID)),
        result=_json(result),
        has_result=result is not None,
        error=error or ("error" if failed else ""),
    )


def output_messages(span: Span) -> list[JsonValue]:
    """Read the messages that a model's span tells of as its output; none if it tells of none.

    In this order: the attribute, the event of the conventions, OpenInference's and OpenLLMetry's
    numbered attributes, the earlier events, one per choice.
    """
    for attributes in (span.attributes, *_details(span)):
        value = _json(attributes.get(OUTPUT_MESSAGES))
        if isinstance(value, list):
            return value
    return (
        _openinference_messages(span.attributes, OPENINFERENCE_OUTPUT)
        or _openllmetry_messages(span.attributes, OPENLLMETRY_OUTPUT)
        or [_choice(event.attributes) for event in span.events if event.name == CHOICE_EVENT]
    )


def _details(span: Span) -> list[Attributes]:
    return [event.attributes for event in span.events if event.name == DETAILS_EVENT]


def input_messages(span: Span) -> list[JsonValue]:
    """Read the messages that a model's span tells of as its input; none if it tells of none.

    In this order: the attribute, the event of the conventions, OpenInference's and OpenLLMetry's
    numbered attributes, the earlier events, one per message.
    """
    for attributes in (span.attributes, *_details(span)):
        value = _json(attributes.get(INPUT_MESSAGES))
        if isinstance(value, list):
            return value
    return (
        _openinference_messages(span.attributes, OPENINFERENCE_INPUT)
        or _openllmetry_messages(span.attributes, OPENLLMETRY_INPUT)
        or [
            {"role": MESSAGE_EVENTS[event.name], "content": _json(event.attributes.get("content"))}
            for event in span.events
            if event.name in MESSAGE_EVENTS
        ]
    )


def agent_work(spans: Iterable[Span]) -> AgentWork:
    """Read what an agent did and said from the spans of its trace.

    Tool calls are the executions of tools; where no span tells of one, the calls that models
    asked for in their output. The answer, its model and its finish reason are those of the last
    model call that tells of them; tokens are summed over the model calls, as the spans above them
    often repeat the sum.

    Args:
        spans: In time order.

    Cost: linear in the spans and the size of their messages.
    """
    ordered = tuple(spans)
    inference = [span for span in ordered if is_inference(span)]
    calls = tuple(tool_call_of(span) for span in ordered if is_tool(span))
    log = MessageLog()
    for span in inference:
        log.read(output_messages(span))
    given, made = _sum(inference, INPUT_TOKENS), _sum(inference, OUTPUT_TOKENS)
    return AgentWork(
        tool_calls=calls or log.tool_calls(),
        content=log.content,
        model=_last(inference, MODEL),
        finish_reason=_last(inference, FINISH_REASONS) or log.finish_reason,
        input_tokens=given,
        output_tokens=made,
        total_tokens=total_of(_sum(inference, TOTAL_TOKENS), given, made),
    )


def _first(attributes: Attributes, names: Sequence[str]) -> object:
    for name in names:
        value = attributes.get(name)
        if value is not None:
            return value
    return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _json(value: object) -> JsonValue:
    """Read an attribute that is JSON in a text, or structured already."""
    return parse_if_json(to_json_value(value))


def _sum(spans: Sequence[Span], names: Sequence[str]) -> int | None:
    """Add up what the spans report; None where none reports anything."""
    found = [_first(span.attributes, names) for span in spans]
    numbers = [n for n in found if isinstance(n, int) and not isinstance(n, bool)]
    return sum(numbers) if numbers else None


def _last(spans: Sequence[Span], names: Sequence[str]) -> str | None:
    """The last text that a span reports; of a list its last item."""
    for span in reversed(spans):
        value = _json(_first(span.attributes, names))
        if isinstance(value, list) and value:
            value = value[-1]
        if isinstance(value, str) and value:
            return value
    return None


def _openinference_messages(attributes: Attributes, prefix: str) -> list[JsonValue]:
    """Gather `llm.output_messages.0.message.content` and its like into messages."""
    return [_openinference_message(item) for item in _numbered(attributes, prefix)]


def _openllmetry_messages(attributes: Attributes, prefix: str) -> list[JsonValue]:
    """Gather `gen_ai.completion.0.tool_calls.0.name` and its like into messages."""
    return [
        {
            "role": field(item, "role") or "assistant",
            "content": field(item, "content"),
            "tool_calls": _in_order(field(item, "tool_calls")),
            "finish_reason": field(item, "finish_reason"),
        }
        for item in _numbered(attributes, prefix)
    ]


def _choice(attributes: Attributes) -> JsonValue:
    """Read an event of the earlier conventions; some writers put the message into one text."""
    message = _json(attributes.get("message"))
    said = message if isinstance(message, dict) else {}
    calls = _json(attributes.get("tool_calls"))
    return {
        "role": "assistant",
        "content": _json(attributes.get("content")) if message is None else message,
        "tool_calls": calls if isinstance(calls, list) else [],
        "finish_reason": _json(attributes.get("finish_reason")),
        **said,
    }


def _numbered(attributes: Attributes, prefix: str) -> list[JsonValue]:
    """Put attributes like `prefix.0.a.b` together; the items in the order of their numbers."""
    tree: dict[str, JsonValue] = {}
    for name, value in attributes.items():
        if name.startswith(f"{prefix}."):
            _plant(tree, name.removeprefix(f"{prefix}.").split("."), value)
    return _in_order(tree)


def _plant(tree: dict[str, JsonValue], parts: Sequence[str], value: object) -> None:
    for part in parts[:-1]:
        branch = tree.setdefault(part, {})
        if not isinstance(branch, dict):
            return
        tree = branch
    tree[parts[-1]] = to_json_value(value)


def _in_order(tree: JsonValue) -> list[JsonValue]:
    if not isinstance(tree, dict):
        return []
    numbers = (key for key in tree if key.isdecimal() and len(key) <= _DIGITS)
    return [tree[key] for key in sorted(numbers, key=int)]


def _openinference_message(item: JsonValue) -> JsonValue:
    message = field(item, "message")
    calls: list[JsonValue] = []
    for call in _in_order(field(message, "tool_calls")):
        inner = field(call, "tool_call")
        function: JsonValue = {
            "name": field(field(inner, "function"), "name"),
            "arguments": field(field(inner, "function"), "arguments"),
        }
        calls.append({"id": field(inner, "id"), "function": function})
    return {
        "role": field(message, "role") or "assistant",
        "content": field(message, "content"),
        "tool_calls": calls,
    }
