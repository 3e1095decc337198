"""Equality of JSON values: deep, typed, numbers by value."""

from collections.abc import Hashable
from typing import cast

from pydantic import JsonValue


def deep_equal(left: JsonValue, right: JsonValue) -> bool:
    """Compare two JSON values.

    Args:
        left: Any JSON value.
        right: Any JSON value.

    Returns:
        True if both are the same kind and equal: numbers by value (1 and 1.0 are equal, NaN
        equals itself), booleans only with booleans, texts exactly, lists item by item in order,
        objects key by key in any order.

    Cost: linear in the smaller value.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list):
        return (
            isinstance(right, list)
            and len(left) == len(right)
            and all(map(deep_equal, left, right))
        )
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(key in right and deep_equal(item, right[key]) for key, item in left.items())
        )
    if left != left:  # NaN, the one value that is not itself
        return right != right
    return left == right


def identity(value: JsonValue) -> Hashable:
    """Give a key that is equal for two values exactly where `deep_equal` holds.

    Cost: linear in the value; sets of such keys make membership tests linear instead of square.
    """
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", *map(identity, value))
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(item)) for key, item in value.items()))
    if value != value:
        return ("nan",)
    return cast(Hashable, value)
