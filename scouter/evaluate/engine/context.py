"""A record's context as plain JSON, copied only where it has to be."""

import math
from typing import Final, cast

from pydantic import JsonValue

from scouter.model.json_value import MAX_DEPTH, plain_text, to_json_value
from scouter.model.record import EvalRecord

_INT_LIMIT: Final = 2**63
"""Integers beyond it are left to `to_json_value`, which knows how large is too large."""


def plain_context(record: EvalRecord) -> JsonValue:
    """Give the context by the rule of `to_json_value`.

    A frozen record, and one whose context is plain JSON already, is read in place; looking is
    three times as fast as copying.

    Raises:
        DataError: Something in it has no JSON form; names the place.
    """
    context = record.context
    if record.is_frozen or _is_plain(context, 0):
        return context
    return to_json_value(context)


def _is_plain(value: object, depth: int) -> bool:
    """Tell whether a value is what `to_json_value` would make of it.

    Exact types count: a subclass of dict or str may behave in its own way. The loops look at
    ASCII texts themselves, as most values are such.
    """
    kind = type(value)
    if kind is str:
        return plain_text(cast(str, value)) is value
    if kind is int:
        return -_INT_LIMIT < cast(int, value) < _INT_LIMIT
    if kind is dict:
        return depth < MAX_DEPTH and _is_plain_object(cast("dict[object, object]", value), depth)
    if kind is list:
        return depth < MAX_DEPTH and _is_plain_array(cast("list[object]", value), depth)
    return value is None or kind is bool or (kind is float and math.isfinite(cast(float, value)))


def _is_plain_object(fields: dict[object, object], depth: int) -> bool:
    for key, item in fields.items():
        if type(key) is not str or not (key.isascii() or plain_text(key) is key):
            return False
        if type(item) is str and item.isascii():
            continue
        if not _is_plain(item, depth + 1):
            return False
    return True


def _is_plain_array(items: list[object], depth: int) -> bool:
    for item in items:
        if type(item) is str and item.isascii():
            continue
        if not _is_plain(item, depth + 1):
            return False
    return True
