"""The most that one question may cost, before it is asked."""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from scouter.agent.entries import Price
from scouter.agent.vendor_settings import Sent
from scouter.evaluate.judge.port import Message

ASSUMED_ANSWER: Final = 4096
"""Tokens that are reserved for an answer whose length the prompt does not bound."""

_PER_MESSAGE: Final = 16
_PER_QUESTION: Final = 64
_PER_SCHEMA: Final = 1024
"""Vendors put sentences of their own around a schema or a tool: Anthropic up to 700 tokens."""


def input_bound(messages: Iterable[Message], schema: Mapping[str, JsonValue] | None) -> int:
    """The most tokens that a question may have.

    A token stands for at least one byte of UTF-8 text (byte-level BPE and SentencePiece with byte
    fallback alike), so that the bytes bound the tokens; English text has about four to a token.
    """
    size = sum(
        len(message["content"].encode("utf-8", "surrogatepass")) + _PER_MESSAGE
        for message in messages
    )
    if schema is not None:
        size += 2 * len(json.dumps(schema)) + _PER_SCHEMA  # vendors write it more widely
    return size + _PER_QUESTION


def output_bound(settings: Sent) -> int:
    """The most tokens that an answer may have, where the prompt says so; else an assumption.

    Args:
        settings: Of `to_client_settings`, where `max_tokens` is what the provider is sent, and the
            only limit.
    """
    limit: int = settings.get("max_tokens", ASSUMED_ANSWER)
    return limit


def bound_usd(
    price: Price,
    messages: Iterable[Message],
    schema: Mapping[str, JsonValue] | None,
    settings: Sent,
) -> float:
    """The most that one question may cost.

    It is exceeded only by an answer that is longer than `ASSUMED_ANSWER` where the prompt sets no
    `max_tokens`, and by a provider that counts otherwise than its prices say.

    Args:
        price: Of the model.
        messages: All that are sent.
        schema: The form of the answer.
        settings: As they are sent.
    """
    return price.cost_usd(input_bound(messages, schema), output_bound(settings))
