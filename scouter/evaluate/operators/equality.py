"""Equality of JSON values: deep, typed, numbers by value, texts as a person sees them."""

import math
import re
import unicodedata
from collections.abc import Hashable
from fractions import Fraction
from functools import cache
from typing import Final, cast

from pydantic import JsonValue

_LONGEST_RUN: Final = 30
"""Marks on one character. Bringing more into order takes the square of their number; Unicode's
Stream-Safe Text Format has no more, either."""
_FIRST_MARK: Final = 0x300
_BEHIND_LAST_MARK: Final = 0x1F000
_WINDOW: Final = 64
"""Characters; so many marks in a row are in order, or out of it, within twice as many."""


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


_SMALL: Final = 1 << 31
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?")
_LARGEST_EXPONENT: Final = 400
"""Ten to this is more than any float is."""
_LONGEST: Final = 100
"""Characters of a text that is read as a number."""


def deep_equal(left: JsonValue, right: JsonValue) -> bool:
    """Compare two JSON values.

    Args:
        left: Any JSON value.
        right: Any JSON value.

    Returns:
        True if both are the same kind and equal: numbers by value (1 and 1.0 are equal, NaN
        equals itself), booleans only with booleans, texts in their composed form, lists item by
        item in order, objects key by key in any order.

    Cost: linear in the smaller value.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        return all(map(deep_equal, left, right))
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        if left.keys() != right.keys():
            left, right = _composed(left), _composed(right)
            if left.keys() != right.keys():
                return False
        return all(deep_equal(item, right[key]) for key, item in left.items())
    if left != left:  # NaN, the one value that is not itself
        return right != right
    if left == right:
        return True
    return isinstance(left, str) and isinstance(right, str) and same_text(left, right)


def _composed(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """An object with keys in the composed form; as it is, if two of them would be one."""
    found = {canonical(key): item for key, item in value.items()}
    return found if len(found) == len(value) else value


def number_in(text: str) -> Fraction | None:
    """Read a text that is a decimal number and nothing else: `42`, `-1.5`, `1e3`; exactly.

    Returns:
        None for every other text, as are those with blanks, `inf`, `nan`, and very long or large
        ones.
    """
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or abs(int((match[3] or "e0")[1:])) > _LARGEST_EXPONENT:
        return None
    return Fraction(text)


def is_this_number(exact: Fraction, number: float) -> bool:
    """Tell whether a number is the one that a text says.

    A float is the number that it holds, and the decimal that it is written as, too: 0.1 is "0.1".
    Nothing is rounded: 9007199254740993 is "9007199254740993.0", and 9007199254740992 is not.
    """
    if exact == number:
        return True
    return isinstance(number, float) and math.isfinite(number) and exact == Fraction(repr(number))


def text_is(text: str, number: float) -> bool:
    """Tell whether a text is a decimal number, nothing else, and this number."""
    if len(text) > _LONGEST:
        return False
    try:
        if float(text) != float(number):  # what is equal is rounded alike: most texts end here
            return False
    except ValueError:
        return False
    except OverflowError:  # an integer beyond all floats: compared exactly below
        pass
    exact = number_in(text)
    return exact is not None and is_this_number(exact, number)


def identity(value: JsonValue) -> Hashable:
    """Give a key that is equal for two values exactly where `deep_equal` holds.

    Cost: linear in the value; sets of such keys make membership tests linear instead of square.
    """
    kind = type(value)
    if kind is str:
        return canonical(cast("str", value))
    if value is None:
        return None
    if kind is int or kind is float:
        return number_key(cast("int | float", value))
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", *map(identity, value))
    if isinstance(value, dict):
        fields = _composed(value).items()
        return ("object", frozenset((key, identity(item)) for key, item in fields))
    return cast(Hashable, value)


def number_key(value: int | float) -> Hashable:
    """Give the key of a number: a small whole number as it is, any other one as bytes.

    Python's hash of a number can be foreseen, so that a record could be made whose items all fall
    on one hash, while that of bytes and texts is seeded anew by every process.
    """
    if isinstance(value, float):
        if not value.is_integer():  # a fraction, NaN or infinite
            return repr(value).encode()
        value = int(value)
    return value if -_SMALL < value < _SMALL else hex(value).encode()
