"""Texts of strangers on a terminal: nothing in them may act on it."""

import unicodedata
from typing import Final

_DIRECTIONS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
"""Marks that turn the text that follows around, and separators that break lines."""


def visible(text: str) -> str:
    """Write control characters and half characters as escapes.

    Ids and values come from records; none of them may move a terminal's cursor, break a line of
    a table, or turn the direction of the text around it.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(letter) for letter in text)


def one_line(error: Exception | str) -> str:
    """Write what an error says as one line, `visible`."""
    return visible(" ".join(str(error).split()))


def _escaped(letter: str) -> str:
    if unicodedata.category(letter) in {"Cc", "Cs"} or letter in _DIRECTIONS:
        return letter.encode("unicode_escape").decode("ascii")
    return letter
