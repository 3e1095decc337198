"""A record's context as plain JSON, copied only where it has to be."""

from typing import Final

from pydantic import JsonValue

from scouter.model.json_value import MAX_DEPTH, to_json_value
from scouter.model.record import EvalRecord

_EXACT: Final = frozenset({str, int, bool, type(None)})
_TEXT: Final = frozenset({str})
_INFINITY: Final = float("inf")


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
    kind = type(value)
    if kind is dict:
        items = value.values()  # type: ignore[attr-defined]  # the exact type was just tested
        if not set(map(type, value)) <= _TEXT:  # type: ignore[call-overload]
            return False
    elif kind is list:
        items = value
    elif kind is float:
        return value == value and -_INFINITY < value < _INFINITY  # type: ignore[operator]
    else:
        return kind in _EXACT
    if set(map(type, items)) <= _EXACT:  # type: ignore[arg-type]
        return True
    if depth >= MAX_DEPTH:
        return False
    for item in items:  # type: ignore[attr-defined]
        if not _is_plain(item, depth + 1):
            return False
    return True
