"""Equality of JSON values: deep, typed, numbers by value."""

import re
from collections.abc import Hashable
from typing import Final, cast

from pydantic import JsonValue

from scouter.evaluate.meter import charge

_SMALL: Final = 1 << 31
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?")
_ITEMS_PER_STEP: Final = 8
"""Of a list or an object that is compared with another."""
_LONGEST: Final = 100
"""Characters of a text that is read as a number."""


def deep_equal(left: JsonValue, right: JsonValue) -> bool:
    """Compare two JSON values.

    Args:
        left: Any JSON value.
        right: Any JSON value.

    Returns:
        True if both are the same kind and equal: numbers by value (1 and 1.0 are equal, NaN
        equals itself), booleans only with booleans, texts exactly, lists item by item in order,
        objects key by key in any order.

    Raises:
        TaskFault: It takes more than the tasks of one record may together (`Reason.LIMIT`).

    Cost: linear in the smaller value.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        charge(1 + len(left) // _ITEMS_PER_STEP)
        return all(map(deep_equal, left, right))
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        charge(1 + len(left) // _ITEMS_PER_STEP)
        return all(key in right and deep_equal(item, right[key]) for key, item in left.items())
    if left != left:  # NaN, the one value that is not itself
        return right != right
    return left == right


def number_in(text: str) -> int | float | None:
    """Read a text that is a decimal number and nothing else: `42`, `-1.5`, `1e3`.

    Returns:
        None for every other text, as are those with blanks, `inf`, `nan`, and very long ones.
    """
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    return float(text) if any(match.groups()) else int(text)


def identity(value: JsonValue) -> Hashable:
    """Give a key that is equal for two values exactly where `deep_equal` holds.

    Numbers beyond `_SMALL` and fractions become bytes: Python's hash of a number can be foreseen,
    so that a record could be made whose items all fall on one hash, while that of bytes and texts
    is seeded anew by every process.

    Cost: linear in the value; sets of such keys make membership tests linear instead of square.
    """
    kind = type(value)
    if kind is str or value is None:
        return cast(Hashable, value)
    if kind is int or kind is float:
        return _number(cast("int | float", value))
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", *map(identity, value))
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(item)) for key, item in value.items()))
    return cast(Hashable, value)


def _number(value: int | float) -> Hashable:
    if isinstance(value, float):
        if not value.is_integer():  # a fraction, NaN or infinite
            return repr(value).encode()
        value = int(value)
    return value if -_SMALL < value < _SMALL else hex(value).encode()
