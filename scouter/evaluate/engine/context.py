"""A record's context as plain JSON, copied only where it has to be."""

import math
from collections.abc import Collection
from typing import Final, cast

from pydantic import JsonValue

from scouter.model.json_value import MAX_DEPTH, plain_text, to_json_value
from scouter.model.record import EvalRecord

_INT_LIMIT: Final = 2**63
"""Integers beyond it are left to `to_json_value`, which knows how large is too large."""
_MOST: Final = 2_500_000
"""Values of one context that are looked at: of the largest record that a collector takes. Beyond it
a context is copied, which has a limit of its own for parts that stand in many places."""


def plain_context(record: EvalRecord) -> JsonValue:
    """Give the context by the rule of `to_json_value`.

    A frozen record, and one whose context is plain JSON already, is read in place.

    Raises:
        DataError: Something in it has no JSON form; names the place.
    """
    context = record.context
    if record.is_frozen or _is_plain(context, MAX_DEPTH, [_MOST]):
        return context
    return to_json_value(context)


def _is_plain(value: object, depth: int, left: list[int]) -> bool:
    """Tell whether a value is what `to_json_value` would make of it.

    Exact types count: a subclass of dict or str may behave in its own way.

    Args:
        value: The value.
        depth: Levels that it may have.
        left: Number of values that may still be looked at; a list of one, as it goes down.
    """
    kind = type(value)
    if kind is str:
        return plain_text(cast(str, value)) is value
    if kind is int:
        return -_INT_LIMIT < cast(int, value) < _INT_LIMIT
    if kind is float:
        return math.isfinite(cast(float, value))
    if kind is not dict and kind is not list:
        return kind is bool or value is None
    items = cast("Collection[object]", value)
    left[0] -= len(items)
    if left[0] < 0 or depth == 0:
        return False
    if kind is dict:
        fields = cast("dict[object, object]", value)
        if not all(type(key) is str and plain_text(key) is key for key in fields):
            return False
        items = fields.values()
    return all(_is_plain(item, depth - 1, left) for item in items)
