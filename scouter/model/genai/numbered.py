"""Messages whose fields are attributes, such as `llm.output_messages.0.message.role`."""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from scouter.model.genai.wrappers import open_field as field
from scouter.model.genai.wrappers import open_json
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
        "function": {"name": field(function, "name"), "arguments": field(function, "arguments")},
    }


def _part(item: JsonValue) -> JsonValue:
    """OpenInference tells calls of tools beside the parts, too; there they are read."""
    return {
        "type": field(field(item, "message_content"), "type"),
        "text": field(field(item, "message_content"), "text"),
    }
