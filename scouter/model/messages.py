"""Messages of conversations: the dialects that agents and spans write, read into one log.

Read are OpenAI chat messages (`tool_calls`, `role: tool`), content blocks of Anthropic
(`tool_use`, `tool_result`), parts of OpenTelemetry GenAI messages (`tool_call`,
`tool_call_response`), of Gemini (`functionCall`, `functionResponse`, also in snake case) and of
Bedrock Converse (`toolUse`, `toolResult`), and items of OpenAI Responses (`function_call`,
`function_call_output`). A log takes messages of several dialects.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from scouter.model.text_json import parse_if_json
from scouter.model.tool_call import ToolCall

ANSWERING_ROLES: Final = frozenset({"assistant", "model", "ai"})


@dataclass(slots=True)
class _Call:
    name: str
    arguments: JsonValue
    call_id: str
    result: JsonValue = None
    has_result: bool = False
    error: str = ""


class MessageLog:
    """Reads messages one after the other; keeps tool calls, their results and the last answer."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self.content: str | None = None
        """Text of the last message of the model, None where it has none."""
        self.finish_reason: str | None = None
        """Of the last message of the model that tells of one."""
        self.answers: int = 0
        """Messages of the model."""

    def tool_calls(self) -> tuple[ToolCall, ...]:
        """All calls read so far, in order, with their results where those were read."""
        return tuple(
            ToolCall(
                name=call.name,
                arguments=call.arguments,
                call_id=call.call_id,
                result=call.result,
                has_result=call.has_result,
                error=call.error,
            )
            for call in self._calls
        )

    def read(self, messages: Iterable[JsonValue]) -> None:
        """Read messages; what is no message is passed over."""
        for message in messages:
            if isinstance(message, dict):
                self._message(message)

    def _message(self, message: dict[str, JsonValue]) -> None:
        role = text(message.get("role")) or text(message.get("type"))
        if role in ("tool", "function") and "parts" not in message:
            self._answer(message, message.get("content"), text(message.get("tool_call_id")))
            return
        if self._item(message):
            return
        texts = self._parts(message)
        for call in items(message.get("tool_calls")):
            self._function(call, text(field(call, "id")))
        if isinstance(message.get("function_call"), dict):
            self._function(message, "")
        if role in ANSWERING_ROLES or (role == "message" and "role" not in message):
            self.answers += 1
            self.content = "".join(texts) or None
            self.finish_reason = text(message.get("finish_reason")) or self.finish_reason

    def _parts(self, message: dict[str, JsonValue]) -> list[str]:
        """Read a message's parts; gives the texts among them."""
        content = message.get("content")
        if isinstance(content, str):
            return [content]
        if isinstance(content, dict):  # an event of Google's ADK holds its message in `content`
            return self._parts(content)
        texts: list[str] = []
        for part in (*items(content), *items(message.get("parts"))):
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, dict) and not self._item(part):
                texts.append(_text_of_part(part))
        return texts

    def _item(self, part: dict[str, JsonValue]) -> bool:
        """Read a call or a result; tells whether it was one."""
        kind = text(part.get("type"))
        if kind in ("tool_use", "tool_call", "function_call", "server_tool_use"):
            arguments = _first(part, "input", "arguments", "args")
            function = part.get("function")
            if isinstance(function, dict):
                self._function(part, text(part.get("id")))
            else:
                call_id = text(_first(part, "call_id", "id"))
                self._call(text(part.get("name")), arguments, call_id)
            return True
        if kind in ("tool_result", "tool_call_response", "function_call_output"):
            call_id = text(_first(part, "tool_use_id", "call_id", "id"))
            self._answer(part, _first(part, "content", "response", "result", "output"), call_id)
            return True
        return self._nested_item(part)

    def _nested_item(self, part: dict[str, JsonValue]) -> bool:
        """Read what Gemini and Bedrock write: an object under the kind's name."""
        call = _first(part, "functionCall", "function_call", "toolUse")
        if isinstance(call, dict) and "role" not in part:
            call_id = text(_first(call, "id", "toolUseId"))
            self._call(text(call.get("name")), _first(call, "args", "arguments", "input"), call_id)
            return True
        result = _first(part, "functionResponse", "function_response", "toolResult")
        if isinstance(result, dict):
            call_id = text(_first(result, "id", "toolUseId"))
            self._answer(result, _first(result, "response", "content"), call_id)
            return True
        return False

    def _function(self, call: JsonValue, call_id: str) -> None:
        function = field(call, "function") or field(call, "function_call") or call
        self._call(text(field(function, "name")), field(function, "arguments"), call_id)

    def _call(self, name: str, arguments: JsonValue, call_id: str) -> None:
        self._calls.append(_Call(name, parse_if_json(arguments), call_id))

    def _answer(self, holder: dict[str, JsonValue], value: JsonValue, call_id: str) -> None:
        """Give a result to its call: by id, or else to the first open call of that name."""
        name = text(holder.get("name"))
        for call in self._calls:
            same = call.call_id == call_id if call_id else not name or call.name == name
            if same and not call.has_result:
                call.result, call.has_result = _result(value), True
                failed = holder.get("is_error") is True or holder.get("status") == "error"
                call.error = "error" if failed else ""
                return


def _result(value: JsonValue) -> JsonValue:
    """Read a result: JSON in a text is parsed, a list of text blocks becomes their text."""
    parts = items(value)
    blocks = [part for part in parts if isinstance(part, dict)]
    if parts and len(blocks) == len(parts):
        if all(set(part) <= {"type", "text"} and "text" in part for part in blocks):
            return parse_if_json("".join(text(part["text"]) for part in blocks))
        if len(blocks) == 1 and set(blocks[0]) == {"json"}:
            return blocks[0]["json"]
    return parse_if_json(value)


def _text_of_part(part: dict[str, JsonValue]) -> str:
    if part.get("thought") is True or part.get("type") in ("reasoning", "thinking"):
        return ""
    value = _first(part, "text", "content")
    return value if isinstance(value, str) else ""


def _first(holder: dict[str, JsonValue], *keys: str) -> JsonValue:
    for key in keys:
        if holder.get(key) is not None:
            return holder[key]
    return None


def field(value: JsonValue, key: str) -> JsonValue:
    """The field of an object, None where the value is no object or has no such field."""
    return value.get(key) if isinstance(value, dict) else None


def items(value: JsonValue) -> list[JsonValue]:
    """The items of a list, none where the value is no list."""
    return value if isinstance(value, list) else []


def text(value: JsonValue) -> str:
    """A text, the empty one where the value is none."""
    return value if isinstance(value, str) else ""
