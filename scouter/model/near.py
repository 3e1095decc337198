"""Names that a person probably meant, for the messages of errors."""

from collections.abc import Iterable
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


def _fold(name: str) -> str:
    return "".join(letter for letter in name[:_LONGEST].casefold() if letter not in "-_ ")
