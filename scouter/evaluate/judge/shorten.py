"""Long texts made short, a judge's question and answer among them."""

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from scouter.evaluate.judge.port import Message

_ZWJ: Final = "\u200d"
_JAMO: Final = ((0x1100, 0x11FF), (0xA960, 0xA97F), (0xAC00, 0xD7FF))
"""Hangul: letters that stand together as one, and syllables that such letters can follow."""
_JOINED: Final = (
    (0x0E33, 0x0E33), (0x0EB3, 0x0EB3), (0xFF9E, 0xFF9F), (0x1F3FB, 0x1F3FF), (0xE0020, 0xE007F),
)  # fmt: skip
"""Vowels, voice marks, skin tones and tags: no marks by category, yet part of what is before."""
_LEADING: Final = (
    (0x0D4E, 0x0D4E), (0x111C2, 0x111C3), (0x113D1, 0x113D1), (0x1193F, 0x1193F),
    (0x11941, 0x11941), (0x11A84, 0x11A89), (0x11D46, 0x11D46), (0x11F02, 0x11F02),
)  # fmt: skip
"""Letters that are part of what is after them."""
_FLAGS: Final = (0x1F1E6, 0x1F1FF)
_LEFT_OUT: Final = "left out …]"
_VIRAMA: Final = 9
"""Combining class of what ties an Indic consonant to the next."""


def shorten(text: str, most: int, what: str = "") -> str:
    """Keep the beginning and the end of a text that is too long.

    Args:
        text: Any text.
        most: Characters that are stored, half of them (rounded up) at the beginning. Fewer where a
            cut would fall inside of what a reader sees as one character.
        what: Said of the rest, such as " of JSON; the rest is no whole value".

    Returns:
        The text itself if it has at most `most` characters; else both ends and, between them,
        `[… 1,234 characters left out …]`.

    Cost: linear in the length, as the text is copied.
    """
    if len(text) <= most:
        return text
    head = border_before(text, (most + 1) // 2)
    tail = border_after(text, len(text) - most // 2)
    return f"{text[:head]} [… {tail - head:,} characters{what} {_LEFT_OUT} {text[tail:]}"


def is_cut(text: str) -> bool:
    """Tell whether `shorten` may have cut a text."""
    return _LEFT_OUT in text


def border_before(text: str, at: int) -> int:
    """The last place up to this one where a text may be cut."""
    while at and not is_border(text, at):
        at -= 1
    return at


def border_after(text: str, at: int) -> int:
    """The first place from this one where a text may be cut."""
    while at < len(text) and not is_border(text, at):
        at += 1
    return at


def is_border(text: str, at: int) -> bool:
    """Tell whether a text may be cut before one of its characters.

    Never splits what a reader sees as one character: a letter and its marks, an emoji and what is
    joined to it, a flag, a Hangul syllable, a line's end of two characters, the halves of a
    surrogate pair. It is careful and refuses some cuts that would do no harm.
    Source: extended grapheme clusters, unicode.org/reports/tr29.

    Cost: constant, but for a row of flags or marks before the place, which is looked through.
    """
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if after < "\u0300" and before < "\u0300":
        return not (before == "\r" and after == "\n") and before != "\xad"
    if unicodedata.category(after)[0] == "M" or after in (_ZWJ, "\u200c") or _is_in(after, _JOINED):
        return False
    if unicodedata.category(before) == "Cf" or _is_in(before, _LEADING) or _is_tied(text, at):
        return False
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return False
    if _is_in(before, _JAMO) and _is_in(after, _JAMO):
        return False
    return not (_is_in(after, (_FLAGS,)) and _flags_before(text, at) % 2)


def _is_in(character: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    code = ord(character)
    return any(first <= code <= last for first, last in ranges)


def _is_tied(text: str, at: int) -> bool:
    """Tell whether a virama is among the marks before a place."""
    while at and (unicodedata.category(text[at - 1])[0] in "MC" or _is_in(text[at - 1], _JOINED)):
        at -= 1
        if unicodedata.combining(text[at]) == _VIRAMA:
            return True
    return False


def _flags_before(text: str, at: int) -> int:
    """Letters of flags directly before a place; two of them make a flag."""
    count = 0
    while count < at and _is_in(text[at - 1 - count], (_FLAGS,)):
        count += 1
    return count


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
        retained = [Message(role=m["role"], content=shorten(m["content"], _MOST)) for m in messages]
        return JudgeTalk(messages=tuple(retained), answer=answer)

    def to_json(self) -> dict[str, JsonValue]:
        """Write both as plain JSON."""
        return {"messages": cast("list[JsonValue]", list(self.messages)), "answer": self.answer}
