"""A span in one line, and its values, for reports and terminals."""

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.show.trace_view import SpanView
from scouter.model.evaluation_event import ForeignResult
from scouter.replay.reports.texts import clip

NAME: Final = 120
"""Characters of a span's name."""
MAX_INDENT: Final = 12
"""Deeper spans are not indented further, so that their names stay readable."""


def detail(span: SpanView) -> str:
    """Write tool, agent, model and tokens of a span; empty if it tells none of them."""
    told = (("tool", span.tool), ("agent", span.agent), ("model", span.model))
    parts = [f"{word} {value}" for word, value in told if value]
    if span.input_tokens is not None or span.output_tokens is not None:
        parts.append(tokens_text(span.input_tokens, span.output_tokens))
    return clip(" · ".join(parts), NAME)


def tokens_text(given: int | None, made: int | None) -> str:
    """Write `20 → 5 tokens`; a `?` where one is not known."""
    shown = ("?" if count is None else f"{count:,}" for count in (given, made))
    return f"{' → '.join(shown)} tokens"


def values(span: SpanView) -> Iterator[tuple[str, JsonValue]]:
    """Name and value of all that a span holds, what matters most first."""
    if span.arguments is not None:
        yield "arguments", span.arguments
    if span.has_result:
        yield "result", span.result
    for message in span.input_messages:
        yield said("input", message)
    for message in span.output_messages:
        yield said("output", message)
    for each in span.foreign:
        yield f"result of another evaluator, {each.name or 'without a name'}", _said_of(each)
    for event in span.events:
        yield f"event {event.name}", dict(event.attributes)
    if span.attributes:
        yield "attributes", dict(span.attributes)


def _said_of(result: ForeignResult) -> JsonValue:
    """Write the fields that a result of another evaluator has, without the empty ones."""
    told: dict[str, JsonValue] = {
        "label": result.label, "score": result.score, "explanation": result.explanation,
        "error": result.error,
    }  # fmt: skip
    return {name: value for name, value in told.items() if value not in (None, "")}


def said(what: str, message: JsonValue) -> tuple[str, JsonValue]:
    """Name a message by its role, and give its text where it is nothing but text."""
    if not isinstance(message, dict):
        return what, message
    name = f"{what} {role}" if isinstance(role := message.get("role"), str) else what
    content, parts = message.get("content"), message.get("parts")
    if isinstance(content, str) and not message.get("tool_calls"):
        return name, content
    texts = [_text_of(part) for part in parts] if isinstance(parts, list) else []
    if texts and None not in texts:
        return name, "\n".join(text or "" for text in texts)
    return name, message


def _text_of(part: JsonValue) -> str | None:
    """The text of a message's part; None of any other part."""
    if isinstance(part, dict) and part.get("type") == "text":
        content = part.get("content")
        return content if isinstance(content, str) else None
    return None
