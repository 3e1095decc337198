"""A judge's question and answer, as far as a result keeps them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from scouter.evaluate.judge.port import Message
from scouter.evaluate.judge.shorten import is_cut, shorten

_MOST: Final = 8_000
"""Characters of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTalk:
    """The first question of one task about one record, and the answer that counted."""

    messages: tuple[Message, ...]
    """Long ones are cut in the middle, and say by how much."""
    answer: JsonValue = None
    """None where no answer could be used."""

    @property
    def asked(self) -> str:
        """The question as one text; empty where a part of it was cut, so that nobody knows it."""
        text = json.dumps(self.messages, ensure_ascii=False)
        return "" if is_cut(text) else text

    @staticmethod
    def of(messages: Sequence[Message], answer: JsonValue) -> "JudgeTalk":
        """Keep what was said, long messages cut."""
        kept = [Message(role=m["role"], content=shorten(m["content"], _MOST)) for m in messages]
        return JudgeTalk(messages=tuple(kept), answer=answer)

    def to_json(self) -> dict[str, JsonValue]:
        """Write both as plain JSON."""
        return {"messages": cast("list[JsonValue]", list(self.messages)), "answer": self.answer}
