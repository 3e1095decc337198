"""Messages of conversations: the dialects that agents and spans write, read into one log.

Read are OpenAI chat messages (`tool_calls`, `role: tool`), content blocks of Anthropic
(`tool_use`, `tool_result`), parts of OpenTelemetry GenAI messages (`tool_call`,
`tool_call_response`), of Gemini (`functionCall`, `functionResponse`, also in snake case) and of
Bedrock Converse (`toolUse`, `toolResult`), items of OpenAI Responses (`function_call`,
`function_call_output`), messages of LangChain (`type: ai`, serialised ones too), parts of the
Vercel AI SDK (`tool-call`, `tool-result`) and blocks of LlamaIndex and Haystack. A log takes
several dialects.

Tools that a provider runs itself count as calls too: `web_search_call` is a call of `web_search`.
Arguments that should be JSON and are not stay the text that the model wrote. A call that cannot be
read is one without a name. A refusal is what the model said, where it said nothing else, and so is
the transcript of an answer as sound.

OpenAI's messages have no field for the error of a tool. There a result that is a text counts as an
error if it begins as the common frameworks write one (`ERROR_STARTS`).
"""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pydantic import JsonValue

from scouter.model.agent_work import ToolCall
from scouter.model.genai.wrappers import (
    is_hidden,
    is_hidden_text,
    is_true,
    open_json,
    open_message,
    open_result,
    tells_failure,
)

ANSWERING_ROLES: Final = frozenset({"assistant", "model", "ai"})
ASKING_ROLES: Final = frozenset({"user", "human"})
_CALLS: Final = frozenset(
    {"tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "server_tool_call",
     "function_call", "custom_tool_call", "mcp_call", "function", "custom", "tool-call"}
)  # fmt: skip
_BUILT_IN: Final = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "computer_call",
     "image_generation_call", "local_shell_call", "shell_call", "apply_patch_call"}
)  # fmt: skip
"""Items of OpenAI Responses that have no name: the tool is in their type."""
_TEXTS: Final = frozenset({"", "text", "output_text", "input_text", "refusal"})
_SOUNDS: Final = frozenset({"audio", "output_audio", "input_audio"})
_SHOWN: Final = _SOUNDS | {
    "image", "image_url", "input_image", "output_image", "video", "document", "file", "blob", "uri",
}  # fmt: skip
"""Types of parts that are no text, and the keys of Bedrock's and Gemini's."""
_SHOWN_KEYS: Final = ("image", "video", "document", "inlineData", "inline_data", "fileData",
                      "file_data")  # fmt: skip
_RESULTS: Final = frozenset(
    {"tool_result", "tool_call_response", "server_tool_call_response", "function_call_output",
     "custom_tool_call_output", "tool-result"}
)  # fmt: skip
_RESULT_KEYS: Final = (
    "functionResponse", "function_response", "toolResult", "tool_call_result",
)  # fmt: skip
"""Keys of parts that hold a result without a type."""
ERROR_STARTS: Final = (
    "error:", "tool error:", "error executing tool", "error invoking tool",
    "an error occurred while running the tool",
)  # fmt: skip
"""Beginnings of the text of a failed call, in lower case.

They come from agents' own code, LangGraph (`Error: …`, `Error invoking tool …`), the MCP SDK
(`Error executing tool …`) and the OpenAI Agents SDK.
"""


_TOOL: Final = "(?:tool|function|action)"
_REFUSAL: Final = 200
"""Characters of a text in which a framework says that it does not know a tool."""


@dataclass(slots=True)
class _Call:
    name: str
    arguments: JsonValue
    call_id: str
    step: int
    result: JsonValue = None
    has_result: bool = False
    error: str = ""


class MessageLog:
    """Reads messages one after the other.

    Keeps tool calls, their results, the last answer and what the user said.

    Args:
        messages: The first ones; `read` takes others.
    """

    def __init__(self, messages: Iterable[JsonValue] = ()) -> None:
        self._calls: list[_Call] = []
        self._in_message: set[tuple[str, str]] = set()
        """Ids and names of the calls of the message that is being read."""
        self._by_id: dict[str, deque[_Call]] = {}
        self._by_name: dict[str, deque[_Call]] = {}
        """Under the empty name all calls."""
        self._answered: dict[str, _Call] = {}
        """Calls that have a result, by id; the last of each."""
        self._strays: list[_Call] = []
        self._step = 0
        """Number of the message that requests calls; items that stand alone are of one message, up
        to the next result."""
        self._recent: list[_Call] = []
        """Calls since the last result."""
        self._has_answered = False
        self._shows = False
        """The message that is being read has a part that is shown or played."""
        self.content: str | None = None
        """Text of the last message of the model, None where it has none."""
        self.is_hidden: bool = False
        """The text of the last message of the model was masked."""
        self.has_other: bool = False
        """The last message of the model has a picture, a sound or a file, and no text."""
        self.finish_reason: str | None = None
        """Reason for the end of the last message of the model that has one."""
        self.answers: int = 0
        """Messages of the model."""
        self.asks_for_tool = False
        """The last message of the model requests a tool."""
        self.questions: list[str] = []
        """Texts of the user's messages, without those that only carry results of tools."""
        self.read(messages)

    def tool_calls(self, since: int = 0) -> tuple[ToolCall, ...]:
        """The calls read so far, in order, with their results where those were read.

        Args:
            since: Number of calls at the beginning to leave out.
        """
        return tuple(map(_tool_call, self._calls[since:]))

    def strays(self) -> tuple[ToolCall, ...]:
        """Results whose calls were not read, as calls without arguments."""
        return tuple(map(_tool_call, self._strays))

    def read(self, messages: Iterable[JsonValue]) -> None:
        """Read messages; what is no message is passed over."""
        for message in messages:
            if isinstance(message, dict):
                self._message(message)

    def _message(self, message: dict[str, JsonValue]) -> None:
        self._in_message.clear()
        message = open_message(message)
        role = text(message.get("role")) or text(message.get("type"))
        if role in ("tool", "function") and not _has_results(message):
            content = message.get("content")
            if content is None:
                parts = [part for part in items(message.get("parts")) if isinstance(part, dict)]
                content = "".join(map(_text_of_part, parts))
            self._answer(message, content, text(message.get("tool_call_id")))
            return
        before = len(self._calls)
        if self._item(message):
            self.asks_for_tool |= len(self._calls) > before
            return
        self._step += 1
        self._shows = False
        texts = self._parts(message)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else [calls] if calls else []:
            self._requested(call if isinstance(call, dict) else {})
        if message.get("function_call"):
            self._requested(message if isinstance(message["function_call"], dict) else {})
        if role in ANSWERING_ROLES or (role == "message" and "role" not in message):
            self.answers += 1
            self.asks_for_tool = len(self._calls) > before
            said = "".join(texts) or text(message.get("refusal")) or _transcript(message)
            self.is_hidden = any(map(is_hidden_text, (*texts, said)))
            self.content = None if self.is_hidden else said or None
            self.has_other = self._shows and not said
            self.finish_reason = text(message.get("finish_reason")) or self.finish_reason
        elif role in ASKING_ROLES and (said := "".join(texts)):
            self.questions.append(said)

    def _parts(self, message: dict[str, JsonValue]) -> list[str]:
        """Read a message's parts; gives the texts among them."""
        content = message.get("content")
        while isinstance(content, dict):  # an event of Google's ADK holds its message in `content`
            message, content = content, content.get("content")
        if isinstance(content, str):
            return [content]
        texts: list[str] = []
        if isinstance(content, list) and content and isinstance(content[0], list):
            content = content[0]
        given = (*items(content), *items(message.get("parts")), *items(message.get("blocks")))
        for part in given:
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, dict) and not self._item(part):
                texts.append(_text_of_part(part))
                self._shows |= _is_shown(part)
        return texts

    def _item(self, part: dict[str, JsonValue]) -> bool:
        """Read a call or a result; says whether it was one."""
        kind = text(part.get("type")) or text(part.get("block_type"))
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
            names = ("tool_use_id", "call_id", "tool_call_id", "toolCallId", "id")
            self._answer(part, value, text(_first(part, *names)))
            return True
        return self._nested_item(part)

    def _nested_item(self, part: dict[str, JsonValue]) -> bool:
        """Read what Gemini and Bedrock write: an object under the kind's name."""
        call = _first(part, "functionCall", "function_call", "toolUse", "tool_call")
        if call is not None and "role" not in part:
            call = call if isinstance(call, dict) else {}
            call_id = text(_first(call, "id", "toolUseId"))
            name = text(_first(call, "name", "tool_name"))
            self._call(name, _first(call, "args", "arguments", "input"), call_id)
            return True
        result = _first(part, *_RESULT_KEYS)
        if isinstance(result, dict):
            origin = result.get("origin")  # Haystack's: the call that it answers
            origin = origin if isinstance(origin, dict) else result
            call_id = text(_first(origin, "id", "toolUseId"))
            name = text(_first(origin, "name", "tool_name"))
            failed = result.get("error") is True or result.get("status") == "error"
            holder: dict[str, JsonValue] = {"name": name, "is_error": failed}
            self._answer(holder, _first(result, "response", "content", "result"), call_id)
            return True
        return False

    def _requested(self, call: dict[str, JsonValue]) -> None:
        """Read a call whose name and arguments are in it or one level below."""
        below = _first(call, "function", "custom", "function_call", "server_tool_call")
        inner = below if isinstance(below, dict) else call
        name = text(_first(inner, "name", "toolName", "tool_name")) or text(call.get("name"))
        arguments = _first(inner, "arguments", "args", "input", "tool_kwargs")
        if arguments is None and inner is not call and inner is call.get("server_tool_call"):
            arguments = {key: value for key, value in inner.items() if key != "type"}
        self._call(name, arguments, _call_id(call))

    def _call(self, name: str, arguments: JsonValue, call_id: str) -> None:
        """Keep a call; one that its message tells twice (LangChain's do) is one."""
        if call_id:
            if (call_id, name) in self._in_message:
                return
            self._in_message.add((call_id, name))
        if self._has_answered:
            self._recent, self._has_answered = [], False
            self._step += 1
        opened = open_json(arguments)
        name = "" if is_hidden_text(name) else name
        opened = None if is_hidden_text(opened) else opened
        call = _Call(name, opened, call_id, self._step)
        self._calls.append(call)
        self._recent.append(call)
        self._by_id.setdefault(call_id, deque()).append(call)
        for key in {name, ""}:
            self._by_name.setdefault(key, deque()).append(call)

    def _answer(self, holder: dict[str, JsonValue], value: JsonValue, call_id: str) -> None:
        """Give a result to its call: by id, or else to the first open call of that name."""
        name = text(_first(holder, "name", "toolName", "tool_name"))
        flags = map(holder.get, ("is_error", "isError"))
        failed = holder.get("status") == "error" or any(map(is_true, flags))
        if isinstance(value, dict) and value.keys() == {"type", "value"}:  # the Vercel AI SDK's
            failed = failed or text(value["type"]).startswith("error")
            value = value["value"]
        result = open_result(value)
        failed = failed or _is_error_text(result) or tells_failure(value)
        call = self._open_call(call_id, name)
        self._has_answered = True
        if call is None and (known := self._answered.get(call_id)) and known.result == result:
            known.error = known.error or ("error" if failed else "")  # reported again, and better
            return
        if call is None:
            call = _Call(name, None, call_id, self._step)
            self._strays.append(call)
        if is_hidden(result):
            call.error = "error" if failed else call.error
            return
        call.result, call.has_result = result, True
        call.error = "error" if failed or refuses(result, call.name) else ""
        if call_id:
            self._answered[call_id] = call

    def _open_call(self, call_id: str, name: str) -> _Call | None:
        """Find the call that a result belongs to; conversations may use an id again."""
        waiting = self._by_id.get(call_id) if call_id else self._by_name.get(name)
        while waiting:
            call = waiting.popleft()
            if not call.has_result:
                return call
        if waiting is not None or not call_id:
            return None
        # Some writers take one id for calls and another for results: then order tells.
        alike = (call for call in self._recent if not call.has_result)
        return next((call for call in alike if name in ("", call.name)), None)


def _tool_call(call: _Call) -> ToolCall:
    return ToolCall(
        name=call.name,
        arguments=call.arguments,
        call_id=call.call_id,
        step=call.step,
        result=call.result,
        has_result=call.has_result,
        error=call.error,
    )


def _is_error_text(result: JsonValue) -> bool:
    return isinstance(result, str) and result[:64].lstrip().lower().startswith(ERROR_STARTS)


def refuses(said: JsonValue, name: str) -> bool:
    """Tell whether a text says that nobody knows a tool of this name."""
    if not isinstance(said, str) or not name or name not in said[:_REFUSAL]:
        return False
    return _refusal(name).search(said, 0, _REFUSAL) is not None


@lru_cache(maxsize=256)
def _refusal(name: str) -> re.Pattern[str]:
    """The words of frameworks for a tool that they do not know."""
    named = rf"(?<!\w){re.escape(name)}(?!\w)"
    missing = r"(?:not (?:found|available|defined|registered|part of)|do(?:es)?(?:n't| not) exist)"
    return re.compile(
        r"(?:unknown|unavailable|invalid|unsupported|no such|could not find(?: the)?) "
        rf"{_TOOL}\b.{{0,24}}?{named}"
        rf"|\b{_TOOL} not found\W.{{0,24}}?{named}|\bno {_TOOL} (?:named|called)\W+{named}"
        rf"|\b{_TOOL}\W+(?:call )?(?:with (?:the )?name )?\W*{named}\W+(?:is |was )?{missing}"
        rf"|{named}\W+is not (?:an? (?:valid|known|available|registered)|in the list of) {_TOOL}",
        re.IGNORECASE,
    )


def _has_results(message: dict[str, JsonValue]) -> bool:
    """Tell whether a tool's message holds results as parts, each with its own id."""
    parts = (*items(message.get("parts")), *items(message.get("content")))
    return any(
        isinstance(part, dict)
        and (
            text(part.get("type")) in _RESULTS
            or part.keys()
            & {"toolResult", "tool_call_result", "functionResponse", "function_response"}
        )
        for part in parts
    )


def _transcript(message: dict[str, JsonValue]) -> str:
    """What an answer as sound says, as the provider wrote it down."""
    return text(field(message.get("audio"), "transcript"))


def _text_of_part(part: dict[str, JsonValue]) -> str:
    kind = text(part.get("type")) or text(part.get("block_type"))
    if kind in _SOUNDS:
        return text(part.get("transcript")) or _transcript(part)
    if part.get("thought") is True or kind not in _TEXTS:
        return ""  # reasoning, pictures and files have texts too, which were not said
    return text(_first(part, "text", "content", "refusal"))


def _is_shown(part: dict[str, JsonValue]) -> bool:
    kind = text(part.get("type")) or text(part.get("block_type"))
    return kind in _SHOWN or any(isinstance(part.get(key), dict) for key in _SHOWN_KEYS)


def _call_id(call: dict[str, JsonValue]) -> str:
    return text(_first(call, "call_id", "tool_call_id", "toolCallId", "id"))


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
