"""Texts of strangers on a terminal, on which they may not act, and names that a person meant."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

_LONGEST: Final = 100
"""Characters of a name that are compared; the cost grows with the square."""
_MOST: Final = 5_000
"""Names that are compared."""


def near(name: str, known: Iterable[str], most: int = 2) -> tuple[str, ...]:
    """Find the known names that a mistyped one is nearest to.

    Case, `-`, `_` and blanks count as nothing.

    Args:
        name: As it was typed.
        known: The names that there are.
        most: Names to return.

    Returns:
        At most so many names, the nearest first.

    Cost: linear in the known names, of which 5,000 are looked at.
    """
    import difflib  # only mistakes need it
    from itertools import islice

    plain: dict[str, str] = {}
    for each in islice(known, _MOST):
        plain.setdefault(_fold(each), each)
    found = difflib.get_close_matches(_fold(name), plain, n=most)
    return tuple(plain[each] for each in found)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Word the question, such as `did you mean 'airline'?`; empty if no name is near."""
    found = near(name, known)
    return f"did you mean {' or '.join(map(repr, found))}?" if found else ""


def or_meant(name: str, known: Iterable[str]) -> str:
    """Word the question as the end of a sentence: `; did you mean 'airline'?`, or nothing."""
    question = did_you_mean(name, known)
    return f"; {question}" if question else ""


def _fold(name: str) -> str:
    return "".join(letter for letter in name[:_LONGEST].casefold() if letter not in "-_ ")


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
