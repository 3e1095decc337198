"""Texts of strangers on a terminal: nothing in them may act on it."""

import unicodedata
from collections.abc import Sequence
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


def some_of(names: Sequence[str], most: int = 5, between: str = ", ", last: str = " ") -> str:
    """List the first few of some names, and say how many more there are.

    Args:
        names: All of them.
        most: Names that are listed.
        between: Text between two names.
        last: Text before the number of the others.
    """
    more = f"{last}and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def _escaped(letter: str) -> str:
    if unicodedata.category(letter) in {"Cc", "Cs"} or letter in _DIRECTIONS:
        return letter.encode("unicode_escape").decode("ascii")
    return letter
