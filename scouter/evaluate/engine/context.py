"""A record's context as plain JSON, copied only where it has to be."""

import math
from collections.abc import Collection, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final, cast

from pydantic import JsonValue

from scouter.model.json_value import MAX_DEPTH, plain_text, to_json_value
from scouter.model.record import EvalRecord

_INT_LIMIT: Final = 2**63
"""Integers beyond it are left to `to_json_value`, which knows how large is too large."""
_WIDEST: Final = 2_500_000
"""Values of one level that are looked at together: of the largest record that a collector takes.
Beyond it a context is copied, which has a limit of its own for parts that stand in many places."""
_MOST: Final = 100_000
"""Values of one context that are looked at one by one."""


def plain_context(record: EvalRecord) -> JsonValue:
    """Give the context by the rule of `to_json_value`.

    A frozen record, and one whose context is plain JSON already, is read in place.

    Raises:
        DataError: Something in it has no JSON form; names the place.
    """
    context = record.context
    if record.is_frozen or _is_plain(context, MAX_DEPTH, [_MOST]) or are_plain((context,)):
        return context
    return to_json_value(context)


def are_plain(values: Sequence[object]) -> bool:
    """Tell whether all values are what `to_json_value` would make of them.

    Exact types count: a subclass of dict or str may behave in its own way. All values are walked
    together, a level at a time and by column where objects have the same keys, so that the loops
    run inside the interpreter; five times as fast as one by one. More than `_WIDEST` values on a
    level, as parts that are shared again and again can make, are left to the slow way: False.
    """
    level: list[Sequence[object]] = [values]
    for _ in range(MAX_DEPTH + 1):
        below: list[Sequence[object]] = []
        for column in level:
            kinds = set(map(type, column))
            for kind in kinds:
                same = column if len(kinds) == 1 else [v for v in column if type(v) is kind]
                if not _column_is_plain(kind, same, below):
                    return False
        if not below:
            return True
        if sum(map(len, below)) > _WIDEST:
            return False
        level = below
    return False


def _column_is_plain(
    kind: type[object], column: Sequence[object], below: list[Sequence[object]]
) -> bool:
    """Look at values of one type, and add what is inside of them to the next level."""
    values = cast("Sequence[Any]", column)
    if kind is str:
        return _texts_are_plain(values)
    if kind is float:
        return all(map(math.isfinite, values))
    if kind is int:
        return min(values) > -_INT_LIMIT and max(values) < _INT_LIMIT
    if kind is dict:
        keys = set[object](chain.from_iterable(values))
        if not set(map(type, keys)) <= {str} or not _texts_are_plain(cast("set[str]", keys)):
            return False
        if set(map(len, values)) == {len(keys)}:  # all have all keys: a column for each
            below += [list(map(itemgetter(key), values)) for key in keys]
        else:
            below.append(list(chain.from_iterable(map(dict[Any, Any].values, values))))
        return True
    if kind is list:
        below.append(list(chain.from_iterable(values)))
        return True
    return kind is bool or kind is type(None)


def _texts_are_plain(texts: Collection[str]) -> bool:
    return all(map(str.isascii, texts)) or all(plain_text(text) is text for text in texts)


def _is_plain(value: object, depth: int, left: list[int]) -> bool:
    """`are_plain` for one value, for which there is nothing to gather.

    Args:
        value: The value.
        depth: Levels that it may have.
        left: Number of values that may still be looked at; a list of one, as it goes down.
    """
    kind = type(value)
    items: Collection[object]
    if kind is dict:
        fields = cast("dict[object, object]", value)
        for key in fields:
            if type(key) is not str or not (key.isascii() or plain_text(key) is key):
                return False
        items = fields.values()
    elif kind is list:
        items = cast("list[object]", value)
    else:
        return _is_plain_leaf(kind, value)
    left[0] -= len(items)
    if left[0] < 0 or depth == 0:
        return False
    for item in items:
        kind = type(item)
        if kind is dict or kind is list:
            if not _is_plain(item, depth - 1, left):
                return False
        elif kind is str:
            text = cast(str, item)
            if not (text.isascii() or plain_text(text) is text):
                return False
        elif not _is_plain_leaf(kind, item):
            return False
    return True


def _is_plain_leaf(kind: type[object], value: object) -> bool:
    if kind is str:
        return plain_text(cast(str, value)) is value
    if kind is int:
        return -_INT_LIMIT < cast(int, value) < _INT_LIMIT
    if kind is float:
        return math.isfinite(cast(float, value))
    return kind is bool or value is None
