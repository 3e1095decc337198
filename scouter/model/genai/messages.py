"""Messages of conversations: the dialects that agents and spans write, read into one log.

Read are OpenAI chat messages (`tool_calls`, `role: tool`), content blocks of Anthropic
(`tool_use`, `tool_result`), parts of OpenTelemetry GenAI messages (`tool_call`,
`tool_call_response`), of Gemini (`functionCall`, `functionResponse`, also in snake case) and of
Bedrock Converse (`toolUse`, `toolResult`), items of OpenAI Responses (`function_call`,
`function_call_output`) and messages of LangChain (`type: ai`). A log takes several dialects.

Tools that a provider runs itself count as calls too: `web_search_call` is a call of `web_search`.
Arguments that should be JSON and are not stay the text that the model wrote. A call that cannot be
read is one without a name. A refusal is what the model said, where it said nothing else.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pydantic import JsonValue

from scouter.model.text_json import parse_if_json
from scouter.model.tool_call import ToolCall

ANSWERING_ROLES: Final = frozenset({"assistant", "model", "ai"})
ASKING_ROLES: Final = frozenset({"user", "human"})
_CALLS: Final = frozenset(
    {"tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "server_tool_call",
     "function_call", "custom_tool_call", "mcp_call", "function", "custom"}
)  # fmt: skip
_BUILT_IN: Final = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "computer_call",
     "image_generation_call", "local_shell_call", "shell_call", "apply_patch_call"}
)  # fmt: skip
"""Items of OpenAI Responses that have no name: the tool is in their type."""
_TEXTS: Final = frozenset({"", "text", "output_text", "input_text", "refusal"})
_RESULTS: Final = frozenset(
    {"tool_result", "tool_call_response", "server_tool_call_response", "function_call_output",
     "custom_tool_call_output"}
)  # fmt: skip
_LOOKS: Final = 64
"""Open calls that one is compared with which may be told again."""


@dataclass(slots=True)
class _Call:
    name: str
    arguments: JsonValue
    call_id: str
    result: JsonValue = None
    has_result: bool = False
    error: str = ""


class MessageLog:
    """Reads messages one after the other.

    Keeps tool calls, their results, the last answer and what the user said.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._in_message: set[tuple[str, str]] = set()
        """Ids and names of the calls of the message that is being read."""
        self._by_id: dict[str, deque[_Call]] = {}
        self._by_name: dict[str, deque[_Call]] = {}
        """Under the empty name all calls."""
        self._met: set[int] | None = None
        """Of known calls, those that what is read now repeats; None where it repeats nothing."""
        self.content: str | None = None
        """Text of the last message of the model, None where it has none."""
        self.finish_reason: str | None = None
        """Of the last message of the model that tells of one."""
        self.answers: int = 0
        """Messages of the model."""
        self.said: int = 0
        """Those of them that have a text, and calls, each as often as it was told."""
        self.asked: list[str] = []
        """Texts of the user's messages, without those that only carry results of tools."""

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

    @property
    def count(self) -> int:
        """How many calls were read so far."""
        return len(self._calls)

    def read(self, messages: Iterable[JsonValue], *, again: bool = False) -> None:
        """Read messages; what is no message is passed over.

        Args:
            messages: In the order in which they were written.
            again: They may repeat calls that were read and have no result yet: those with the same
                id, else with the same name and arguments.
        """
        self._met = set() if again else None
        for message in messages:
            if isinstance(message, dict):
                self._message(message)

    def read_history(self, messages: Iterable[JsonValue]) -> None:
        """Read calls and results, which may repeat those read before, and nothing else."""
        before = self.content, self.finish_reason, self.answers, list(self.asked)
        self.read(messages, again=True)
        self.content, self.finish_reason, self.answers, self.asked = before

    def _message(self, message: dict[str, JsonValue]) -> None:
        self._in_message.clear()
        role = text(message.get("role")) or text(message.get("type"))
        if role in ("tool", "function") and "parts" not in message:
            self._answer(message, message.get("content"), text(message.get("tool_call_id")))
            return
        if self._item(message):
            return
        texts = self._parts(message)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else [calls] if calls else []:
            self._requested(call if isinstance(call, dict) else {})
        if message.get("function_call"):
            self._requested(message if isinstance(message["function_call"], dict) else {})
        if role in ANSWERING_ROLES or (role == "message" and "role" not in message):
            self.answers += 1
            said = "".join(texts) or text(message.get("refusal"))
            self.content = said or None
            self.said += bool(said)
            self.finish_reason = text(message.get("finish_reason")) or self.finish_reason
        elif role in ASKING_ROLES and (said := "".join(texts)):
            self.asked.append(said)

    def _parts(self, message: dict[str, JsonValue]) -> list[str]:
        """Read a message's parts; gives the texts among them."""
        content = message.get("content")
        while isinstance(content, dict):  # an event of Google's ADK holds its message in `content`
            message, content = content, content.get("content")
        if isinstance(content, str):
            return [content]
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
        if kind in _CALLS:
            self._requested(part)
            if part.get("output") is not None:  # a call that the provider ran itself
                self._answer(part, part["output"], _call_id(part))
            return True
        if kind in _BUILT_IN:
            arguments = _first(part, "action", "queries", "code", "operation")
            self._call(kind.removesuffix("_call"), arguments, _call_id(part))
            return True
        if kind in _RESULTS or kind.endswith("_tool_result"):
            value = _first(
                part, "content", "response", "result", "output", "server_tool_call_response"
            )
            self._answer(part, value, text(_first(part, "tool_use_id", "call_id", "id")))
            return True
        return self._nested_item(part)

    def _nested_item(self, part: dict[str, JsonValue]) -> bool:
        """Read what Gemini and Bedrock write: an object under the kind's name."""
        call = _first(part, "functionCall", "function_call", "toolUse")
        if call is not None and "role" not in part:
            call = call if isinstance(call, dict) else {}
            call_id = text(_first(call, "id", "toolUseId"))
            self._call(text(call.get("name")), _first(call, "args", "arguments", "input"), call_id)
            return True
        result = _first(part, "functionResponse", "function_response", "toolResult")
        if isinstance(result, dict):
            call_id = text(_first(result, "id", "toolUseId"))
            self._answer(result, _first(result, "response", "content"), call_id)
            return True
        return False

    def _requested(self, call: dict[str, JsonValue]) -> None:
        """Read a call whose name and arguments are in it or one level below."""
        below = _first(call, "function", "custom", "function_call", "server_tool_call")
        inner = below if isinstance(below, dict) else call
        name = text(inner.get("name")) or text(call.get("name"))
        arguments = _first(inner, "arguments", "args", "input")
        if arguments is None and inner is not call and inner is call.get("server_tool_call"):
            arguments = {key: value for key, value in inner.items() if key != "type"}
        self._call(name, arguments, _call_id(call))

    def _call(self, name: str, arguments: JsonValue, call_id: str) -> None:
        """Keep a call; one that its message tells twice (LangChain's do) is one."""
        if call_id:
            if (call_id, name) in self._in_message:
                return
            self._in_message.add((call_id, name))
        call = _Call(name, parse_if_json(arguments), call_id)
        self.said += 1
        if self._met is not None and self._is_known(call, self._met):
            return
        self._calls.append(call)
        self._by_id.setdefault(call_id, deque()).append(call)
        for key in {name, ""}:
            self._by_name.setdefault(key, deque()).append(call)

    def _is_known(self, call: _Call, met: set[int]) -> bool:
        """Tell whether a call is an open one told again; each is told again once.

        Senders may give a call another id when they tell it again.
        """
        for queue, key in ((self._by_id, call.call_id), (self._by_name, call.name)):
            waiting = queue.get(key, deque[_Call]()) if key else deque[_Call]()
            while waiting and waiting[0].has_result:
                waiting.popleft()
            for known in islice(waiting, _LOOKS):
                if known.has_result or id(known) in met or known.name != call.name:
                    continue
                if queue is self._by_id or known.arguments == call.arguments:
                    met.add(id(known))
                    return True
        return False

    def _answer(self, holder: dict[str, JsonValue], value: JsonValue, call_id: str) -> None:
        """Give a result to its call: by id, or else to the first open call of that name."""
        call = self._open_call(call_id, text(holder.get("name")))
        if call is not None:
            call.result, call.has_result = _result(value), True
            failed = holder.get("is_error") is True or holder.get("status") == "error"
            call.error = "error" if failed else ""

    def _open_call(self, call_id: str, name: str) -> _Call | None:
        """Find the call that a result belongs to; conversations may use an id again."""
        waiting = self._by_id.get(call_id) if call_id else self._by_name.get(name)
        if waiting is None and self._met is not None:  # under another id, but in the same order
            waiting = self._by_name.get(name)
        while waiting:
            call = waiting.popleft()
            if not call.has_result:
                return call
        return None


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
    if part.get("thought") is True or text(part.get("type")) not in _TEXTS:
        return ""  # reasoning, pictures and files have texts too, which were not said
    return text(_first(part, "text", "content", "refusal"))


def _call_id(call: dict[str, JsonValue]) -> str:
    return text(_first(call, "call_id", "id"))


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
