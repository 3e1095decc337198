"""Messages in what conventions call input and output, also those whose fields are attributes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from scouter.model.genai.messages import ANSWERING_ROLES, ASKING_ROLES, field, items, text
from scouter.model.genai.wrappers import open_json, open_message
from scouter.model.json_value import to_json_value
from scouter.model.span import AttributeValue

_DIGITS: Final = 9
"""Most digits of a message's number; Python refuses to read thousands of them."""
_BLOCK_KEYS: Final = frozenset({"type", "text", "toolUse", "toolResult"})


def numbered_messages(attributes: Mapping[str, AttributeValue], prefix: str) -> list[JsonValue]:
    """Put attributes like `prefix.0.a.b` together to messages, in the order of their numbers.

    OpenInference puts each message one level lower, under `message`.
    """
    tree: dict[str, JsonValue] = {}
    start = f"{prefix}."
    for name, value in attributes.items():
        if name.startswith(start):
            _plant(tree, name.removeprefix(start).split("."), value)
    return [_message(item) for item in _in_order(tree)]


def gathered(attributes: Mapping[str, AttributeValue], prefix: str) -> dict[str, JsonValue]:
    """Put attributes like `prefix.city.value` or `prefix.city` together to one object."""
    found: dict[str, JsonValue] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            key, _, rest = name.removeprefix(prefix).partition(".")
            if rest in ("", "value"):
                found[key] = open_json(to_json_value(value))
    return found


def open_content(content: JsonValue) -> JsonValue:
    """Give the blocks that a text holds as JSON; any other text as it is.

    A user who writes a list of something else wrote a text.
    """
    opened = open_json(content)
    if isinstance(opened, str):
        return opened
    blocks = opened if isinstance(opened, list) else [opened]
    known = [isinstance(item, dict) and bool(item.keys() & _BLOCK_KEYS) for item in blocks]
    return opened if known and all(known) else content


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


def _message(item: JsonValue) -> JsonValue:
    message = field(item, "message") or item
    calls = [_call(call) for call in _in_order(field(message, "tool_calls"))]
    if isinstance(only := field(message, "function_call"), dict):
        calls = calls or [_call(only)]  # LiteLLM writes one call in OpenAI's earlier form
    parts = [_part(part) for part in _in_order(field(message, "contents"))]
    parts = [part for part in parts if field(part, "type") == "text"]
    content = field(message, "content")
    said = parts if content is None and parts else open_content(content)
    return {
        "role": field(message, "role") or "assistant",
        "content": said,
        "tool_calls": calls,
        "tool_call_id": field(message, "tool_call_id"),
        "name": field(message, "name"),
        "finish_reason": field(message, "finish_reason"),
    }


def _call(item: JsonValue) -> JsonValue:
    inner = field(item, "tool_call") or item
    function = field(inner, "function") or inner
    return {
        "id": field(inner, "id"),
        "function": {
            "name": field(function, "name"),
            "arguments": field(function, "arguments"),
        },
    }


def _part(item: JsonValue) -> JsonValue:
    """OpenInference reports calls of tools beside the parts, too; there they are read."""
    return {
        "type": field(field(item, "message_content"), "type"),
        "text": field(field(item, "message_content"), "text"),
    }


ROLES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Earlier events, one for each message of a call's input."""
CHOICE: Final = "gen_ai.choice"
_TEXT_EVENTS: Final = {
    "gen_ai.content.prompt": ("gen_ai.prompt", "user"),
    "gen_ai.content.completion": ("gen_ai.completion", "assistant"),
    "claude_code.user_prompt": ("prompt", "user"),
    "claude_code.assistant_response": ("response", "assistant"),
}
"""Events before those, and Claude Code's: attribute that holds it all, and whose it is."""
_BODIES: Final = ("body", "gen_ai.event.content")
"""Attributes that hold a whole event: of a log record, and of the conventions up to 1.30, which
Azure's SDKs still write."""
DETAILS: Final = "gen_ai.client.inference.operation.details"
"""The event whose attributes are those of its span."""
CALL_EVENT: Final = "claude_code.tool_result"
"""Event of an agent's span that has the arguments of one call."""
CALL_EVENT_ID, CALL_EVENT_ARGUMENTS = "tool_use_id", "tool_input"
"""Its attributes."""
MESSAGE_EVENTS: Final = frozenset((*ROLES, CHOICE, *_TEXT_EVENTS, DETAILS))

_TYPES: Final = frozenset(
    {"human", "ai", "system", "tool", "message", "function_call", "function_call_output",
     "reasoning", "tool_call", "AIMessageChunk"}
)  # fmt: skip
"""Messages that have no role."""
_KNOWN_ROLES: Final = ANSWERING_ROLES | ASKING_ROLES | {"system", "tool", "developer", "function"}
_FIRST: Final = frozenset({"choices", "candidates", "generations"})
"""Several answers to choose from; the first counts."""
_INSIDE: Final = (
    "messages", "message", *sorted(_FIRST), "content", "replies", "last_message", "output",
    "outputs", "update", "result", "response", "raw", "combined_chunk_content", "final_output",
    "answer", "text", "contents", "inputs", "input", "question", "query", "task", "prompt",
    "prompts",
)  # fmt: skip
"""Keys under which an object holds messages, the surest first."""
_DEEPEST: Final = 8
_BESIDE: Final = ("system", "instructions")
"""Keys of a request's instructions: of the Vercel AI SDK and Anthropic, and of OpenAI."""


def messages_in(value: JsonValue, role: str) -> list[JsonValue]:
    """Find the messages in a value.

    Args:
        value: A text, a message, a list of them, or an object that holds one of these: a request
            or an answer of a provider, the state of a graph, what a framework gave back.
        role: Of texts, which do not tell whose they are.

    Returns:
        The messages, each in its own dialect. Of an object in which nobody says anything, its
        JSON as a text, if it is an answer.
    """
    opened = open_json(value)
    found = _messages(opened, role, 0)
    if not found and role == "assistant" and isinstance(opened, dict) and opened:
        whole = value if isinstance(value, str) else json.dumps(opened, ensure_ascii=False)
        return [{"role": role, "content": whole}]
    return found


def _messages(value: JsonValue, role: str, depth: int) -> list[JsonValue]:
    value = open_json(value)
    if isinstance(value, str):
        return [{"role": role, "content": value}] if value.strip() else []
    if depth > _DEEPEST:
        return []
    if isinstance(value, list):
        if _is_pair(value):
            return [{"role": value[0], "content": value[1]}]
        return [found for item in value for found in _messages(item, role, depth + 1)]
    return _of_object(value, role, depth) if isinstance(value, dict) else []


def _is_pair(value: list[JsonValue]) -> bool:
    """Tell whether a list is a role and a text, as LangChain takes messages."""
    texts = [item for item in value if isinstance(item, str)]
    return len(texts) == len(value) == 2 and texts[0] in _KNOWN_ROLES


def _of_object(value: dict[str, JsonValue], role: str, depth: int) -> list[JsonValue]:
    message = open_message(value)
    if "role" in message or text(message.get("type")) in _TYPES:
        known = message if "role" in message or "type" in message else {"role": role, **message}
        return _with_reason([known], message)
    if isinstance(value.get("parts"), list):
        return [{"role": "model" if role == "assistant" else role, **value}]
    for key in _INSIDE:
        inner = value.get(key)
        if key in _FIRST:
            inner = next(iter(items(inner)), None)
        if inner and (found := _messages(inner, role, depth + 1)):
            return _with_reason([*_instructions(value, role), *found], value)
    texts = [item for item in value.values() if isinstance(item, str) and item.strip()]
    if role == "user" and len(texts) == 1:  # the arguments of a function that an agent is
        return [{"role": role, "content": texts[0]}]
    return []


def _instructions(value: dict[str, JsonValue], role: str) -> list[JsonValue]:
    """What a request says to the model beside its messages."""
    texts = (text(value.get(key)) for key in _BESIDE) if role == "user" else ()
    return [{"role": "system", "content": each} for each in texts if each]


def _with_reason(found: list[JsonValue], holder: dict[str, JsonValue]) -> list[JsonValue]:
    reason = (
        text(holder.get("finish_reason"))
        or text(holder.get("finishReason"))
        or text(field(holder.get("generation_info"), "finish_reason"))
        or text(field(holder.get("meta"), "finish_reason"))
    )
    last = found[-1]
    if reason and isinstance(last, dict) and not last.get("finish_reason"):
        found[-1] = {**last, "finish_reason": reason}
    return found


def messages_of_events(
    events: Iterable[tuple[str, Mapping[str, JsonValue]]],
) -> tuple[list[JsonValue], list[JsonValue]]:
    """Read events that hold a message each.

    Args:
        events: Names and contents of the events, in order.

    Returns:
        Messages to the model, and messages of the model.
    """
    given: list[JsonValue] = []
    made: list[JsonValue] = []
    for name, fields in events:
        body = open_json(next((fields[key] for key in _BODIES if key in fields), None))
        said = {**fields, **body} if isinstance(body, dict) else dict(fields)
        if name in ROLES:
            given.append(_given(said, ROLES[name]))
        elif name == CHOICE:
            made.append(_choice(said))
        elif name in _TEXT_EVENTS:
            attribute, role = _TEXT_EVENTS[name]
            (given if role == "user" else made).extend(messages_in(said.get(attribute), role))
    return given, made


def split_events(value: JsonValue) -> tuple[list[JsonValue], list[JsonValue]] | None:
    """Read events that are the items of a list, as Logfire writes them; None for other lists."""
    listed = [item for item in items(value) if isinstance(item, dict)]
    if not listed or not all(text(item.get("event.name")) for item in listed):
        return None
    return messages_of_events((text(item["event.name"]), item) for item in listed)


def _given(said: dict[str, JsonValue], role: str) -> JsonValue:
    """A message of the input; Google's SDK puts a whole message into the content."""
    content = open_content(said.get("content"))
    inner = field(content, "role")
    return {
        "role": inner or text(said.get("role")) or role,
        "content": content,
        "tool_calls": items(open_json(said.get("tool_calls"))),
        "tool_call_id": said.get("tool_call_id") or said.get("id"),
        "name": said.get("name"),
    }


def _choice(said: dict[str, JsonValue]) -> JsonValue:
    """An answer; some writers put the message into one text."""
    message = open_content(said.get("message"))
    inner = message if isinstance(message, dict) else {}
    content = said.get("content") if message is None else message
    answer: dict[str, JsonValue] = {
        "role": "assistant",
        "content": content,
        "tool_calls": items(open_json(said.get("tool_calls"))),
        "finish_reason": open_json(said.get("finish_reason")),
    }
    if inner:
        answer["content"] = None
    answer.update({key: item for key, item in inner.items() if item is not None})
    answer["content"] = open_content(answer["content"])
    return answer
