"""Long texts made short, a judge's question and answer among them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from scouter.evaluate.judge.port import Message

_LEFT_OUT: Final = "left out …]"


def shorten(text: str, most: int, what: str = "") -> str:
    """Keep the beginning and the end of a text that is too long.

    Args:
        text: Any text.
        most: Characters that are stored, half of them (rounded up) at the beginning.
        what: Said of the rest, such as " of JSON; the rest is no whole value".

    Returns:
        The text itself if it has at most `most` characters; else both ends and, between them,
        `[… 1,234 characters left out …]`.

    Cost: linear in the length, as the text is copied.
    """
    if len(text) <= most:
        return text
    head, tail = (most + 1) // 2, len(text) - most // 2
    return f"{text[:head]} [… {tail - head:,} characters{what} {_LEFT_OUT} {text[tail:]}"


def is_cut(text: str) -> bool:
    """Tell whether `shorten` may have cut a text."""
    return _LEFT_OUT in text


_MOST: Final = 8_000
"""Characters of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeExchange:
    """The first question of one task about one record, and the answer that counted."""

    messages: tuple[Message, ...]
    """Long ones are cut in the middle, and say by how much."""
    answer: JsonValue = None
    """None where no answer could be used."""

    @property
    def question(self) -> str:
        """The question as one text; empty where a part of it was cut, so that nobody knows it."""
        text = json.dumps(self.messages, ensure_ascii=False)
        return "" if is_cut(text) else text

    @staticmethod
    def of(messages: Sequence[Message], answer: JsonValue) -> "JudgeExchange":
        """Keep what was said, long messages cut."""
        retained = [Message(role=m["role"], content=shorten(m["content"], _MOST)) for m in messages]
        return JudgeExchange(messages=tuple(retained), answer=answer)

    def to_json(self) -> dict[str, JsonValue]:
        """Write both as plain JSON."""
        return {"messages": cast("list[JsonValue]", list(self.messages)), "answer": self.answer}
