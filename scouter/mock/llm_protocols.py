"""The protocols that a provider for tests speaks: reading questions, writing answers and errors."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, get_args

from scouter.evaluate.judge.port import Message

FaultKind: TypeAlias = Literal[
    "slow", "too_many", "server_error", "unavailable", "malformed", "cut", "truncated", "empty",
    "refusal", "blocked", "wrong_schema", "wrong_key", "unknown_model", "bad_request",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Args:
        kind: Kind of the fault:

            - `slow`: the answer takes `seconds` more;
            - `too_many`: 429; `server_error`: 500; `unavailable`: 503; `wrong_key`: 401;
              `unknown_model`: 404; `bad_request`: 400, in the provider's words;
            - `malformed`: 200 with a body that is no JSON; `cut`: the connection ends in the middle
              of the body;
            - `truncated`: the answer ends in the middle, as the model ran out of tokens; `empty`:
              it has no text; `wrong_schema`: it is JSON of another form than was requested;
            - `refusal`: the model declines; `blocked`: a filter withholds question or answer.
        message: Words of the provider for a status above 200, instead of its usual ones.
        retry_after: Header `Retry-After`: seconds, or a date of HTTP.
        seconds: Delay of a slow answer.

    Raises:
        ValueError: No such kind.
    """

    kind: FaultKind
    message: str = ""
    retry_after: str = ""
    seconds: float = 30.0

    def __post_init__(self) -> None:
        kinds = get_args(FaultKind)
        if self.kind not in kinds:
            raise ValueError(f"no fault is called {self.kind!r}; there are {', '.join(kinds)}")


ProtocolName: TypeAlias = Literal["openai", "anthropic", "google"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMRequest:
    """One question to a model; holds no key."""

    number: int
    """Number of questions that came before it."""
    protocol: ProtocolName
    path: str
    model: str
    messages: tuple[Message, ...]
    """Texts of the conversation, the system's first."""
    schema: Mapping[str, Any] | None
    """JSON schema of the wanted answer, as the client sent it."""
    tool: str
    """Name of the tool that the answer has to go to; empty where it is wanted as a text."""
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    """By name in lower case, without those that hold a key."""

    @property
    def text(self) -> str:
        """All messages, one below the other."""
        return "\n".join(message["content"] for message in self.messages)


Ending: TypeAlias = Literal["stop", "length", "refusal", "blocked"]
"""Reasons of the end of an answer: it is complete, no tokens are left, or it was declined."""
Json: TypeAlias = dict[str, Any]

REFUSAL: Final = "I cannot help with that."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Parts of a request's body that all protocols of model vendors have in common."""

    model: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    tool: str = ""


class ModelProtocol(Protocol):
    """One provider's way to ask and answer."""

    name: ProtocolName
    key_headers: tuple[str, ...]
    """Headers in which a key may come."""

    def read(self, path: str, body: Json) -> Question:
        """Find the question."""
        ...

    def answer(self, request: LLMRequest, text: str, ending: Ending) -> Json:
        """Write an answer; where a tool has to be called, the text is its JSON input."""
        ...

    def error(self, status: int, message: str) -> Json:
        """Write an error."""
        ...


class OpenAIChat:
    """`POST /v1/chat/completions`. Source: platform.openai.com/docs/api-reference/chat."""

    name: ProtocolName = "openai"
    key_headers: tuple[str, ...] = ("authorization",)

    def read(self, path: str, body: Json) -> Question:
        """Find the question."""
        wanted = _object(_object(body.get("response_format")).get("json_schema"))
        schema, tool = wanted.get("schema"), ""
        if schema is None and body.get("tools") and body.get("tool_choice") not in (None, "auto"):
            function = _object(_object(body["tools"][0]).get("function"))
            schema, tool = function.get("parameters"), str(function.get("name"))
        messages = tuple(
            Message(role=str(each.get("role")), content=_text(each.get("content")))
            for each in _objects(body.get("messages"))
        )
        model = str(body.get("model", ""))
        return Question(model=model, messages=messages, schema=schema, tool=tool)

    def answer(self, request: LLMRequest, text: str, ending: Ending) -> Json:
        """Write an answer."""
        message: Json = {"role": "assistant", "content": text, "refusal": None}
        reason = {"length": "length", "blocked": "content_filter"}.get(ending, "stop")
        if ending == "refusal":
            message |= {"content": None, "refusal": REFUSAL}
        elif ending == "blocked":
            message |= {"content": None}
        elif request.tool:
            function = {"name": request.tool, "arguments": text}
            call = {"id": f"call_{request.number}", "type": "function", "function": function}
            message |= {"content": None, "tool_calls": [call]}
            reason = "tool_calls" if ending == "stop" else reason
        given, said = tokens_of(request.text), tokens_of(text)
        return {
            "id": f"chatcmpl-{request.number}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": request.model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {
                "prompt_tokens": given,
                "completion_tokens": said,
                "total_tokens": given + said,
            },
        }

    def error(self, status: int, message: str) -> Json:
        """Write an error."""
        kinds = {401: "invalid_request_error", 404: "invalid_request_error", 429: "requests"}
        codes = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
        kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
        return {
            "error": {
                "message": message, "type": kind, "param": None, "code": codes.get(status)
            }
        }  # fmt: skip


class AnthropicMessages:
    """`POST /v1/messages`. Source: platform.claude.com/docs/en/api/messages."""

    name: ProtocolName = "anthropic"
    key_headers: tuple[str, ...] = ("x-api-key", "authorization")

    def read(self, path: str, body: Json) -> Question:
        """Find the question."""
        wanted = _object(_object(body.get("output_config")).get("format"))
        schema, tool = wanted.get("schema"), ""
        choice = _object(body.get("tool_choice")).get("type")
        if schema is None and body.get("tools") and choice in {"any", "tool"}:
            first = _object(body["tools"][0])
            schema, tool = first.get("input_schema"), str(first.get("name"))
        system = _text(body.get("system"))
        messages = [Message(role="system", content=system)] if system else []
        messages += [
            Message(role=str(each.get("role")), content=_text(each.get("content")))
            for each in _objects(body.get("messages"))
        ]
        model = str(body.get("model", ""))
        return Question(model=model, messages=tuple(messages), schema=schema, tool=tool)

    def answer(self, request: LLMRequest, text: str, ending: Ending) -> Json:
        """Write an answer."""
        content: list[Json] = [{"type": "text", "text": text}] if text else []
        reason = {"length": "max_tokens", "refusal": "refusal", "blocked": "refusal"}
        stop = reason.get(ending, "end_turn")
        if ending in {"refusal", "blocked"}:
            content = []
        elif request.tool:
            name, call = request.tool, f"toolu_{request.number}"
            try:
                given = json.loads(text)
            except ValueError:  # truncated: what is not complete is left out
                given = {}
            content = [{"type": "tool_use", "id": call, "name": name, "input": given}]
            stop = "tool_use" if ending == "stop" else stop
        return {
            "id": f"msg_{request.number}",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": tokens_of(request.text), "output_tokens": tokens_of(text)},
        }

    def error(self, status: int, message: str) -> Json:
        """Write an error."""
        kinds = {
            400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error",
            429: "rate_limit_error", 503: "overloaded_error",
        }  # fmt: skip
        kind = kinds.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}


class GoogleGenerate:
    """`POST …/models/MODEL:generateContent`. Source: ai.google.dev/api/generate-content."""

    name: ProtocolName = "google"
    key_headers: tuple[str, ...] = ("x-goog-api-key", "authorization")

    def read(self, path: str, body: Json) -> Question:
        """Find the question."""
        config = _object(body.get("generationConfig"))
        schema, tool = config.get("responseJsonSchema") or config.get("responseSchema"), ""
        calling = _object(_object(body.get("toolConfig")).get("functionCallingConfig"))
        if schema is None and body.get("tools") and calling.get("mode") == "ANY":
            first = _object(_object(body["tools"][0])["functionDeclarations"][0])
            # The service takes a field by either of its names, and the client sends the second.
            schema = first.get("parametersJsonSchema") or first.get("parameters_json_schema")
            schema = schema or first.get("parameters")
            tool = str(first.get("name"))
        system = _text(_object(body.get("systemInstruction")).get("parts"))
        messages = [Message(role="system", content=system)] if system else []
        messages += [
            Message(role=str(each.get("role") or "user"), content=_text(each.get("parts")))
            for each in _objects(body.get("contents"))
        ]
        model = path.rpartition("/models/")[2].partition(":")[0]
        return Question(model=model, messages=tuple(messages), schema=schema, tool=tool)

    def answer(self, request: LLMRequest, text: str, ending: Ending) -> Json:
        """Write an answer."""
        given, said = tokens_of(request.text), tokens_of(text)
        usage = {
            "promptTokenCount": given,
            "candidatesTokenCount": said,
            "totalTokenCount": given + said,
        }
        whole: Json = {"modelVersion": request.model, "responseId": f"r-{request.number}"}
        if ending == "blocked":
            feedback = {"blockReason": "SAFETY", "safetyRatings": _RATINGS}
            return {**whole, "promptFeedback": feedback, "usageMetadata": usage}
        parts: list[Json] = [{"text": text}] if text else []
        if request.tool:
            try:
                given = json.loads(text)
            except ValueError:
                given = {}
            parts = [{"functionCall": {"name": request.tool, "args": given}}]
        reason = {"length": "MAX_TOKENS", "refusal": "SAFETY"}.get(ending, "STOP")
        candidate: Json = {"index": 0, "finishReason": reason}
        if ending == "refusal":
            candidate["safetyRatings"] = _RATINGS
        else:
            candidate["content"] = {"role": "model", "parts": parts}
        return {**whole, "candidates": [candidate], "usageMetadata": usage}

    def error(self, status: int, message: str) -> Json:
        """Write an error."""
        words = {
            400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND",
            429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE",
        }  # fmt: skip
        return {"error": {"code": status, "message": message, "status": words.get(status)}}


_RATINGS: Final = [
    {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}
]


def protocol_of(path: str) -> ModelProtocol | None:
    """The protocol of a path; None if in none."""
    if path == "/v1/chat/completions":
        return OpenAIChat()
    if path == "/v1/messages":
        return AnthropicMessages()
    if "/models/" in path and path.endswith(":generateContent"):
        return GoogleGenerate()
    return None


def tokens_of(text: str) -> int:
    """Tokens that a text is billed as here: one for each started group of 4 characters."""
    return -(-len(text) // 4)


def _object(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _objects(value: object) -> Iterable[Json]:
    return map(_object, cast("Sequence[object]", value) if isinstance(value, list) else ())


def _text(content: object) -> str:
    """Join the texts of a message, which are one text or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in _objects(content) if "text" in part)
