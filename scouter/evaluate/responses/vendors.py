"""The providers' formats: one reader each, from a response to an agent's work.

A reader gives None for an object that is not in its format. It looks for what only that format
has: a context with a field `output` or `choices` of its own is no response for that.

Source: the references of OpenAI (chat completions, Responses), Anthropic (messages), Google
(Gemini, Vertex AI, ADK events) and AWS (Bedrock Converse).
"""

from dataclasses import replace
from typing import TypeAlias

from pydantic import JsonValue

from scouter.model.agent_work import ANSWER_CUT, COMPLETE, TOKENS, AgentWork, Evidence, ToolCall
from scouter.model.genai.messages import ANSWERING_ROLES, MessageLog, field, items, text
from scouter.model.genai.usage import ERROR, TOOL_CALL, Tokens, add, finish_word, tokens
from scouter.model.genai.wrappers import is_cut_text

Object: TypeAlias = dict[str, JsonValue]


def _work(
    log: MessageLog, *, model: JsonValue = None, finish_reason: JsonValue = None, counts: Tokens
) -> AgentWork:
    given, made, total = counts
    reason = text(finish_reason) or log.finish_reason
    calls = log.tool_calls()
    if not calls and reason and finish_word(reason) == TOOL_CALL:
        calls = (ToolCall(name=""),)  # one that nobody can read, such as a malformed one
    unknown = "the answer was masked, and may have requested a tool" if log.is_hidden else ""
    if reason and finish_word(reason) == ERROR:
        unknown = f"the response ended with {reason!r}, so that nobody knows the rest of it"
    return AgentWork(
        tool_calls=calls,
        evidence=Evidence(silent=unknown, unseen=unknown) if unknown and not calls else COMPLETE,
        unknown_content=unknown or ("the answer is no text" if log.has_other else ""),
        content=log.content,
        asks_for_tool=log.asks_for_tool or (bool(calls) and not log.answers),
        model=text(model) or None,
        finish_reason=reason,
        input_tokens=given,
        output_tokens=made,
        total_tokens=total,
        missing={"content": ANSWER_CUT} if log.content and is_cut_text(log.content) else {},
    )


def _read(message: JsonValue) -> MessageLog:
    log = MessageLog()
    log.read([message])
    return log


def _first(answers: JsonValue) -> JsonValue:
    """The answer with the lowest index, which is the first one of those that tell none."""
    return min(items(answers), key=_index, default=None)


def _index(answer: JsonValue) -> int:
    index = field(answer, "index")
    return index if isinstance(index, int) else 0


def openai_chat(value: Object) -> AgentWork | None:
    """Read a chat completion, or one of the older text completions; the first choice counts."""
    first = _first(value.get("choices"))
    message = field(first, "message")
    if isinstance(message, dict):
        log = _read({"role": "assistant", **message})
    elif isinstance(field(first, "text"), str):
        log = _read({"role": "assistant", "content": field(first, "text")})
    else:
        return None
    return _work(
        log,
        model=value.get("model"),
        finish_reason=field(first, "finish_reason"),
        counts=tokens(value.get("usage")),
    )


def openai_responses(value: Object) -> AgentWork | None:
    """Read a response of the Responses API: `object` says so, or all items have a type."""
    output = value.get("output")
    if not isinstance(output, list):
        return None
    typed = [isinstance(field(item, "type"), str) for item in output]
    if value.get("object") != "response" and not (typed and all(typed)):
        return None
    log = MessageLog()
    log.read(output)
    reason = field(value.get("incomplete_details"), "reason") or value.get("status")
    return _work(
        log, model=value.get("model"), finish_reason=reason, counts=tokens(value.get("usage"))
    )


def anthropic(value: Object) -> AgentWork | None:
    """Read a message of Anthropic's API."""
    content = value.get("content")
    known = "stop_reason" in value or value.get("type") == "message"
    if not known or not isinstance(content, list | str):
        return None
    return _work(
        _read({"role": "assistant", "content": content}),
        model=value.get("model"),
        finish_reason=value.get("stop_reason"),
        counts=tokens(value.get("usage")),
    )


def bedrock(value: Object) -> AgentWork | None:
    """Read what Bedrock's Converse gives back; it does not name its model."""
    message = field(value.get("output"), "message")
    if not isinstance(message, dict):
        return None
    return _work(
        _read({"role": "assistant", **message}),
        model=value.get("modelId"),
        finish_reason=value.get("stopReason"),
        counts=tokens(value.get("usage")),
    )


def gemini(value: Object) -> AgentWork | None:
    """Read what `generateContent` gives back; the first candidate counts.

    A prompt that was blocked has no candidate: no answer, and the block's reason as its end.
    """
    first = _first(value.get("candidates"))
    if isinstance(first, dict) and first.keys() & {"content", "finishReason", "finish_reason"}:
        return _google_answer(first, value)
    feedback = field(value, "promptFeedback") or field(value, "prompt_feedback")
    blocked = field(feedback, "blockReason") or field(feedback, "block_reason")
    if not text(blocked):
        return None
    return _work(
        MessageLog(),
        model=_google_model(value),
        finish_reason=blocked,
        counts=tokens(_google_usage(value)),
    )


def _google_model(holder: JsonValue) -> JsonValue:
    names = ("modelVersion", "model_version", "model")
    return next((field(holder, name) for name in names if field(holder, name)), None)


def _google_usage(holder: JsonValue) -> JsonValue:
    return field(holder, "usageMetadata") or field(holder, "usage_metadata")


def _google_answer(answer: JsonValue, holder: Object) -> AgentWork:
    parts = items(field(field(answer, "content"), "parts"))
    return _work(
        _read({"role": "model", "parts": parts}),
        model=_google_model(holder),
        finish_reason=field(answer, "finishReason") or field(answer, "finish_reason"),
        counts=tokens(_google_usage(holder)),
    )


def adk(value: Object) -> AgentWork | None:
    """Read what Google's ADK gives: one event or LLM response, or a session with its events."""
    events = value.get("events")
    if isinstance(events, list) and events:
        return messages({"messages": events})
    content = value.get("content")
    if not isinstance(content, dict) or not isinstance(content.get("parts"), list):
        return None
    return _google_answer(value, value)


def vertex(value: Object) -> AgentWork | None:
    """Read a prediction of Vertex AI: a response of any kind, or a text (`content`, `text`).

    A prediction that does not name its model has the model of the whole.
    """
    first = next(iter(items(value.get("predictions"))), None)
    if isinstance(first, dict):
        for read in (gemini, openai_chat, anthropic):
            work = read(first)
            if work is not None:
                return work if work.model else replace(work, model=text(value.get("model")) or None)
    said = first if isinstance(first, str) else field(first, "content") or field(first, "text")
    if not isinstance(said, str):
        return None
    return _work(
        _read({"role": "assistant", "content": said}),
        model=value.get("model"),
        counts=tokens(value.get("metadata")),
    )


def messages(value: Object) -> AgentWork | None:
    """Read a conversation: `messages` of any dialect, items of Responses, or events of ADK.

    Tokens are those of the whole, or else the sum of what the messages tell; model and finish
    reason are the whole's, or else the last that a message tells.
    """
    given = value.get("messages")
    if not isinstance(given, list) or not given:
        return None
    known = [_as_message(message) for message in given]
    read = [message for message in known if message is not None]
    if len(read) < len(given):
        return None
    log = MessageLog()
    log.read(read)
    if not log.answers and not log.tool_calls():
        return None
    models = [name for name in map(_model_of, given) if name]
    model = value.get("model") or (models[-1] if models else None)
    if value.get("usage"):
        return _work(log, model=model, counts=tokens(value["usage"]))
    usages = [
        _usage_of(message)
        for message, as_read in zip(given, read, strict=True)
        if _usage_of(message) or as_read.get("role", as_read.get("type")) in ANSWERING_ROLES
    ]
    counts, lacks = add(usages)
    missing = {
        name: f"{count} of {len(usages)} answers do not state theirs"
        for name, count in zip(TOKENS, lacks, strict=True)
        if count
    }
    work = _work(log, model=model, counts=counts)
    return replace(work, missing={**work.missing, **missing})


def one_message(value: Object) -> AgentWork | None:
    """Read a single message."""
    return messages({"messages": [value]}) if "role" in value else None


def _usage_of(message: JsonValue) -> JsonValue:
    return _google_usage(message) or field(message, "usage")


def _model_of(message: JsonValue) -> str:
    named = field(field(message, "response_metadata"), "model_name")  # LangChain's
    return text(named) or text(_google_model(message))


def _as_message(value: JsonValue) -> Object | None:
    """Accept a message, an item of OpenAI Responses, or an event of ADK."""
    if not isinstance(value, dict):
        return None
    content = value.get("content")
    if "role" not in value and isinstance(content, dict) and "parts" in content:
        reason = value.get("finish_reason") or value.get("finishReason")
        return {"role": "model", "finish_reason": reason, **content}
    return value if "role" in value or "type" in value else None
