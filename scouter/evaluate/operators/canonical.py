"""Texts as a person sees them: `é` is one character, however it is put together."""

import re
import unicodedata
from functools import cache
from typing import Final

_LONGEST_RUN: Final = 30
"""Marks on one character. Bringing more into order takes the square of their number; Unicode's
Stream-Safe Text Format has no more, either."""
_FIRST_MARK: Final = 0x300
_BEHIND_LAST_MARK: Final = 0x1F000
_WINDOW: Final = 64
"""Characters; so many marks in a row are in order, or out of it, within twice as many."""
"""Characters of a text that is looked at, and of one that has to be written anew."""


def canonical(text: str) -> str:
    """Write a text in the composed form (NFC), in which texts that look the same are the same.

    Returns:
        The text itself if it is ASCII, or has more than 30 marks in a row somewhere.

    Cost: linear; nothing for ASCII.
    Source: Unicode Standard Annex #15, also for the bound (13, Stream-Safe Text Format).
    """
    if text.isascii():
        return text
    if _is_composed(text):
        return text
    if _too_many_marks().search(text):
        return text
    return unicodedata.normalize("NFC", text)


def same_text(left: str, right: str) -> bool:
    """Tell whether two texts are the same in the composed form."""
    if left == right:
        return True
    return not (left.isascii() and right.isascii()) and canonical(left) == canonical(right)


def _is_composed(text: str) -> bool:
    """Look for what is not composed, in windows: Unicode's own answer can take a square."""
    return all(
        unicodedata.is_normalized("NFC", text[at : at + 2 * _WINDOW])
        for at in range(0, max(1, len(text) - _WINDOW), _WINDOW)
    )


@cache
def _too_many_marks() -> re.Pattern[str]:
    marks = filter(unicodedata.combining, map(chr, range(_FIRST_MARK, _BEHIND_LAST_MARK)))
    return re.compile(f"[{''.join(marks)}]{{{_LONGEST_RUN + 1}}}")
