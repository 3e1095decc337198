"""Merging of the spans that tell of one act."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final

from pydantic import JsonValue

from scouter.model.genai.facts import NO_USAGE, SpanFacts, Usage

_TEXTS: Final = (
    "convention", "provider", "request_model", "response_model", "response_id", "agent",
    "conversation", "session", "call_id", "error",
)  # fmt: skip


def merged_facts(layers: Sequence[SpanFacts]) -> SpanFacts:
    """Put together what the spans of one act tell.

    Of each field what the innermost span says that tells it. The tool's name is the outermost
    one's, as the model knows it by that.

    Args:
        layers: The outermost span's first.
    """
    inward = layers[::-1]
    with_result = next((each for each in inward if each.has_result), inward[0])
    arguments = [each.arguments for each in inward if each.arguments is not None]
    return replace(
        layers[0],
        **{name: _first_text(map(attrgetter(name), inward)) for name in _TEXTS},
        tool=_first_text(each.tool for each in layers),
        arguments=next((a for a in arguments if isinstance(a, dict)), (*arguments, None)[0]),
        result=with_result.result,
        has_result=with_result.has_result,
        input_messages=_messages([each.input_messages for each in inward]),
        output_messages=_messages([each.output_messages for each in inward]),
        finish_reasons=next((each.finish_reasons for each in inward if each.finish_reasons), ()),
        usage=_usage([each.usage for each in inward]),
    )


def _first_text(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


def _messages(told: Sequence[list[JsonValue] | None]) -> list[JsonValue] | None:
    """The first that tells of messages, else one that tells that there are none."""
    known = [messages for messages in told if messages is not None]
    return next((messages for messages in known if messages), known[0] if known else None)


def _usage(told: Sequence[Usage]) -> Usage:
    """Take each number from the first that tells it; a total belongs to its own two parts."""
    counted = [each for each in told if each != NO_USAGE]
    if not counted:
        return NO_USAGE
    parts = {
        name: next((n for each in counted if (n := getattr(each, name)) is not None), None)
        for name in ("input", "output", "cached", "cache_written", "reasoning")
    }
    return Usage(**parts, total=counted[0].total)
