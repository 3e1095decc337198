"""What a span says about an agent, read from the names of several conventions.

Source: OpenTelemetry semantic conventions for generative AI (spans, agent spans, messages, events)
and their earlier names; OpenInference's names for LLM and TOOL spans; OpenLLMetry's numbered
`gen_ai.completion.0…`.
"""

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from scouter.model.genai.facts import MODEL_CALLS, Kind, SpanFacts, Usage
from scouter.model.genai.guardrails import GUARDRAIL_OPERATIONS
from scouter.model.genai.messages import field
from scouter.model.json_value import to_json_value
from scouter.model.span import Attributes, Span, StatusCode
from scouter.model.text_json import parse_if_json

OPERATION: Final = "gen_ai.operation.name"
EXECUTE_TOOL: Final = "execute_tool"
INFERENCE: Final = frozenset({"chat", "text_completion", "generate_content"})
MODEL_OPERATIONS: Final = INFERENCE | {"embeddings"}
OPENINFERENCE_KIND: Final = "openinference.span.kind"

TOOL_NAME: Final = ("gen_ai.tool.name", "tool.name")
TOOL_CALL_ID: Final = ("gen_ai.tool.call.id", "tool_call.id", "tool.id")
TOOL_ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments", "tool_arguments", "tool.parameters", "input.value",
)  # fmt: skip
TOOL_RESULT: Final = ("gen_ai.tool.call.result", "tool_response", "output.value")
ERROR_TYPE: Final = ("error.type", "exception.type")
PROVIDER: Final = ("gen_ai.provider.name",)
REQUEST_MODEL: Final = ("gen_ai.request.model",)
RESPONSE_MODEL: Final = ("gen_ai.response.model", "llm.model_name")
RESPONSE_ID: Final = ("gen_ai.response.id",)
AGENT: Final = ("gen_ai.agent.name",)
CONVERSATION: Final = ("gen_ai.conversation.id",)
SESSION: Final = ("session.id",)
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
_KINDS: Final = {
    "LLM": Kind.MODEL, "EMBEDDING": Kind.EMBEDDING, "TOOL": Kind.TOOL, "AGENT": Kind.AGENT,
    "RETRIEVER": Kind.RETRIEVAL, "GUARDRAIL": Kind.GUARDRAIL,
}  # fmt: skip
_REQUESTS: Final = {
    "chat": Kind.MODEL, "completion": Kind.MODEL, "embedding": Kind.EMBEDDING,
}  # fmt: skip
_OPERATIONS: Final = {
    **dict.fromkeys(INFERENCE, Kind.MODEL), "embeddings": Kind.EMBEDDING,
    EXECUTE_TOOL: Kind.TOOL, "invoke_agent": Kind.AGENT, "invoke_workflow": Kind.WORKFLOW,
    **dict.fromkeys(GUARDRAIL_OPERATIONS, Kind.GUARDRAIL),
}  # fmt: skip
USAGE_KEYS: Final = (
    OPERATION, OPENINFERENCE_KIND, OPENLLMETRY_REQUEST, *INPUT_TOKENS, *OUTPUT_TOKENS,
)  # fmt: skip
"""What `is_model_call` and `tokens` look at."""
_OF_TOOLS: Final = frozenset((*TOOL_ARGUMENTS, *TOOL_RESULT))
_OF_MESSAGES: Final = (
    INPUT_MESSAGES, OUTPUT_MESSAGES, f"{OPENINFERENCE_INPUT}.", f"{OPENINFERENCE_OUTPUT}.",
    f"{OPENLLMETRY_INPUT}.", f"{OPENLLMETRY_OUTPUT}.",
)  # fmt: skip
_MESSAGE_EVENTS: Final = frozenset((DETAILS_EVENT, CHOICE_EVENT, *MESSAGE_EVENTS))
_DIGITS: Final = 9
"""Of the number of a message; Python refuses to read thousands of them."""


def read_facts(span: Span) -> SpanFacts:
    """Read what one span tells about an agent.

    Cost: linear in the size of its attributes and events.
    """
    attributes = span.attributes
    kind = kind_of(span)
    is_tool, is_model = kind is Kind.TOOL, kind in MODEL_CALLS
    result = _first(attributes, TOOL_RESULT) if is_tool else None
    failed = span.status == StatusCode.ERROR
    error = _text(_first(attributes, ERROR_TYPE)) or (span.status_message if failed else "")
    return SpanFacts(
        span_id=span.span_id,
        kind=kind,
        provider=_text(_first(attributes, PROVIDER)),
        request_model=_text(_first(attributes, REQUEST_MODEL)),
        response_model=_text(_first(attributes, RESPONSE_MODEL)),
        response_id=_text(_first(attributes, RESPONSE_ID)),
        agent=_text(_first(attributes, AGENT)),
        conversation=_text(_first(attributes, CONVERSATION)),
        session=_text(_first(attributes, SESSION)),
        tool=_tool_name(span) if is_tool else "",
        call_id=_text(_first(attributes, TOOL_CALL_ID)),
        arguments=_json(_first(attributes, TOOL_ARGUMENTS)) if is_tool else None,
        result=_json(result),
        has_result=result is not None,
        error=error or ("error" if failed else ""),
        input_messages=input_messages(span) or None if is_model else None,
        output_messages=output_messages(span) or None if is_model else None,
        finish_reasons=_texts(_first(attributes, FINISH_REASONS)),
        usage=Usage(
            input=tokens(attributes, INPUT_TOKENS),
            output=tokens(attributes, OUTPUT_TOKENS),
            total=tokens(attributes, TOTAL_TOKENS),
        ),
    )


def kind_of(span: Span) -> Kind:
    """Tell what a span is, without reading the rest of it."""
    attributes = span.attributes
    operation = attributes.get(OPERATION)
    if operation is not None:
        return _OPERATIONS.get(operation, Kind.OTHER) if isinstance(operation, str) else Kind.OTHER
    for name, kinds in ((OPENINFERENCE_KIND, _KINDS), (OPENLLMETRY_REQUEST, _REQUESTS)):
        value = attributes.get(name)
        if isinstance(value, str) and value in kinds:
            return kinds[value]
    return Kind.TOOL if TOOL_NAME[0] in attributes else Kind.OTHER


def is_model_call(attributes: Attributes) -> bool:
    """Tell whether a span with these attributes is one call of a model, embeddings included."""
    operation = attributes.get(OPERATION)
    if operation is not None:
        return operation in MODEL_OPERATIONS
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


def is_shown_as(kind: Kind, attribute: str) -> bool:
    """Tell whether an attribute holds what facts of this kind have a field for, of any size."""
    if kind is Kind.TOOL:
        return attribute in _OF_TOOLS
    return kind in MODEL_CALLS and attribute.startswith(_OF_MESSAGES)


def is_message_event(name: str) -> bool:
    """Tell whether an event of this name holds messages of a model's call."""
    return name in _MESSAGE_EVENTS


def _tool_name(span: Span) -> str:
    """Read whose execution a tool's span is; else its own name without `execute_tool `."""
    name = _text(_first(span.attributes, TOOL_NAME))
    return name or span.name.removeprefix(f"{EXECUTE_TOOL} ")


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


def _first(attributes: Attributes, names: Sequence[str]) -> object:
    for name in names:
        value = attributes.get(name)
        if value is not None:
            return value
    return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _texts(value: object) -> tuple[str, ...]:
    read = _json(value)
    found = read if isinstance(read, list) else [read]
    return tuple(item for item in found if isinstance(item, str) and item)


def _json(value: object) -> JsonValue:
    """Read an attribute that is JSON in a text, or structured already."""
    return parse_if_json(to_json_value(value))


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
