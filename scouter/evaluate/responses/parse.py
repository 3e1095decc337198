"""Recognise a provider's response and read it as an agent's work.

Formats: OpenAI chat completions and Responses, Anthropic messages, Gemini and Vertex
(`candidates`, `predictions`), Google ADK (snake case, single events and lists of them), Bedrock
Converse, and plain messages: one, a list, or `{"messages": [...]}`, in any dialect of
`scouter.model.messages`.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.evaluate.fault import TaskFault
from scouter.evaluate.operators.show import KEYS_SHOWN, kind_of
from scouter.evaluate.outcome import Reason
from scouter.model.agent_work import AgentWork, total_of
from scouter.model.messages import MessageLog, field, items, text

Object: TypeAlias = dict[str, JsonValue]
Parse: TypeAlias = Callable[[Object], AgentWork | None]
"""Gives None where the object is not in the parser's format."""


def parse_response(value: JsonValue, provider: str | None = None) -> AgentWork | None:
    """Read a response in any known format.

    Args:
        value: The response.
        provider: Read it in this format only.

    Returns:
        None if the value is in none of the formats (or not in the one asked for).
    """
    if isinstance(value, list):
        return _from_messages({"messages": value})
    if not isinstance(value, dict):
        return None
    parsers = PARSERS.values() if provider is None else [PARSERS[provider.lower()]]
    for parse in parsers:
        work = parse(value)
        if work is not None:
            return work
    return None


def unknown_format(value: JsonValue) -> TaskFault:
    """Say that a response was not recognised, and what is there."""
    there = kind_of(value)
    if isinstance(value, dict):
        keys = ", ".join(repr(key) for key in list(value)[:KEYS_SHOWN]) or "no keys"
        there = f"an object with {keys}"
    return TaskFault(
        Reason.PARSE,
        "the response is in none of the known formats (OpenAI chat or Responses, Anthropic, "
        f"Gemini, Vertex, ADK, Bedrock Converse, a list of messages): found {there}; use "
        "context_path to point at it",
    )


def _integer(holder: JsonValue, *keys: str) -> int | None:
    for key in keys:
        value = field(holder, key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _work(
    log: MessageLog,
    *,
    model: JsonValue = None,
    finish_reason: JsonValue = None,
    usage: JsonValue = None,
) -> AgentWork:
    """Put together what was read; the names of token counts are those of all providers."""
    given = _integer(
        usage, "prompt_tokens", "input_tokens", "inputTokens", "promptTokenCount",
        "prompt_token_count",
    )  # fmt: skip
    made = _integer(
        usage, "completion_tokens", "output_tokens", "outputTokens", "candidatesTokenCount",
        "candidates_token_count",
    )  # fmt: skip
    total = _integer(usage, "total_tokens", "totalTokens", "totalTokenCount", "total_token_count")
    return AgentWork(
        tool_calls=log.tool_calls(),
        content=log.content,
        model=text(model) or None,
        finish_reason=text(finish_reason) or log.finish_reason,
        input_tokens=given,
        output_tokens=made,
        total_tokens=total_of(total, given, made),
    )


def _openai_chat(value: Object) -> AgentWork | None:
    choices = items(value.get("choices"))
    if not choices:
        return None
    message = field(choices[0], "message")
    log = MessageLog()
    log.read([{"role": "assistant", **message}] if isinstance(message, dict) else [])
    reason = field(choices[0], "finish_reason")
    return _work(log, model=value.get("model"), finish_reason=reason, usage=value.get("usage"))


def _openai_responses(value: Object) -> AgentWork | None:
    output = value.get("output")
    if not isinstance(output, list):
        return None
    log = MessageLog()
    log.read(output)
    reason = field(value.get("incomplete_details"), "reason") or value.get("status")
    return _work(log, model=value.get("model"), finish_reason=reason, usage=value.get("usage"))


def _anthropic(value: Object) -> AgentWork | None:
    if "stop_reason" not in value or not isinstance(value.get("content"), list | str):
        return None
    log = MessageLog()
    log.read([{"role": "assistant", "content": value["content"]}])
    return _work(
        log,
        model=value.get("model"),
        finish_reason=value["stop_reason"],
        usage=value.get("usage"),
    )


def _bedrock(value: Object) -> AgentWork | None:
    message = field(value.get("output"), "message")
    if not isinstance(message, dict):
        return None
    log = MessageLog()
    log.read([message])
    return _work(
        log,
        model=value.get("modelId"),
        finish_reason=value.get("stopReason"),
        usage=value.get("usage"),
    )


def _gemini(value: Object) -> AgentWork | None:
    candidates = items(value.get("candidates"))
    if not candidates:
        return None
    return _google_answer(candidates[0], value)


def _google_answer(answer: JsonValue, holder: Object) -> AgentWork:
    log = MessageLog()
    content = field(answer, "content")
    log.read([{"role": "model", "parts": items(field(content, "parts"))}])
    return _work(
        log,
        model=holder.get("modelVersion") or holder.get("model_version") or holder.get("model"),
        finish_reason=field(answer, "finishReason") or field(answer, "finish_reason"),
        usage=holder.get("usageMetadata") or holder.get("usage_metadata"),
    )


def _adk(value: Object) -> AgentWork | None:
    """Read one event or LLM response of Google's ADK: a `content` object with `parts`."""
    content = value.get("content")
    if not isinstance(content, dict) or not isinstance(content.get("parts"), list):
        return None
    return _google_answer(value, value)


def _vertex(value: Object) -> AgentWork | None:
    predictions = items(value.get("predictions"))
    if not predictions:
        return None
    first = predictions[0]
    work = parse_response(first)
    if work is not None:
        return work
    said = first if isinstance(first, str) else field(first, "content") or field(first, "text")
    log = MessageLog()
    log.read([{"role": "assistant", "content": said}])
    return _work(log, model=value.get("model"), usage=value.get("metadata"))


def _from_messages(value: Object) -> AgentWork | None:
    messages = value.get("messages")
    if not isinstance(messages, list):
        return None
    known = [_as_message(message) for message in messages]
    if not known or not all(known):
        return None
    log = MessageLog()
    log.read([message for message in known if message])
    return _work(log, model=value.get("model"), usage=value.get("usage"))


def _as_message(value: JsonValue) -> Object | None:
    """Accept a message, an item of OpenAI Responses, or an event of ADK."""
    if not isinstance(value, dict):
        return None
    content = value.get("content")
    if "role" not in value and isinstance(content, dict) and "parts" in content:
        return content if "role" in content else {"role": "model", **content}
    return value if "role" in value or "type" in value else None


def _one_message(value: Object) -> AgentWork | None:
    if "role" not in value:
        return None
    return _from_messages({"messages": [value], **value})


PARSERS: Final[dict[str, Parse]] = {
    "openai": lambda value: _openai_chat(value) or _openai_responses(value),
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
    "vertex": lambda value: _gemini(value) or _vertex(value),
    "google_adk": lambda value: _adk(value) or _gemini(value),
    "messages": lambda value: _from_messages(value) or _one_message(value),
}
"""By provider, in the order in which they are tried."""
PARSERS.update(
    {"google": PARSERS["gemini"], "googleadk": PARSERS["google_adk"], "otel": PARSERS["messages"]}
)
