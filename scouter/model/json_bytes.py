"""A value as JSON text by the rule of `to_json_value`, the usual cases in C."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from scouter.model.json_value import MAX_DEPTH, MAX_VALUES, to_json_value

if TYPE_CHECKING:
    from pydantic import JsonValue  # at run time it loads half of pydantic

_PLAIN: Final = frozenset({str, int, bool, float, type(None)})
_CONTAINERS: Final = frozenset({dict, list, tuple})
_FEW: Final = 16
"""Most items that are looked at one by one; for more, one pass over all of them in C is faster."""


def to_json_bytes(value: object) -> bytes:
    """Write a value as JSON text by the rule of `to_json_value`.

    Args:
        value: Anything that rule names; it is read once, and later changes to it do not matter.

    Returns:
        UTF-8 without spaces.

    Raises:
        DataError: As `to_json_value` does.

    Cost: linear; for a tree of plain lists and dicts a fifth of `to_json_value` alone.
    """
    try:
        kind = type(value)
        if kind in _PLAIN or (kind in _CONTAINERS and _left_after(value, MAX_VALUES, 0) >= 0):
            return _dumps(value, None, _options)[:-1]
    except (TypeError, RuntimeError):
        pass  # half a character, a key that is no text, a large integer: the rule knows what to do
    return tree_bytes(to_json_value(value))


def tree_bytes(tree: "JsonValue") -> bytes:
    """Write what `to_json_value` gave as JSON text: UTF-8 without spaces."""
    try:
        return _dumps(tree, None, _options)[:-1]
    except TypeError:  # an integer of more than 64 bits
        from pydantic_core import to_json

        return to_json(tree)


def _load(value: object, default: None, options: int) -> bytes:
    """Take the place of `orjson.dumps` until the first call."""
    global _dumps, _options
    import orjson

    # It has rules of its own for some types, which another thread may put in at the last moment.
    # And it may leave kilobytes unused behind what it wrote (3.13 does, 4 of them for 7 bytes),
    # which are held for as long as a record waits: what is cut off for its last byte is a copy.
    _options = (
        orjson.OPT_APPEND_NEWLINE
        | orjson.OPT_PASSTHROUGH_DATACLASS
        | orjson.OPT_PASSTHROUGH_DATETIME
        | orjson.OPT_PASSTHROUGH_SUBCLASS
    )
    _dumps = orjson.dumps  # last: another thread reads it first
    return _dumps(value, None, _options)


_dumps: Callable[[object, None, int], bytes] = _load
_options = 0


def _left_after(value: object, left: int, depth: int) -> int:
    """Tell how many values more may come after this list or dict; -1 if it is not plain JSON.

    `dumps` has ideas of its own about other types, and no bound: a part that is shared is written
    wherever it stands. Exact types count. It refuses keys that are no text by itself.
    """
    items: Any = value  # without `cast`: this is the agent's own time
    kind: object = type(value)
    number = len(items)
    left -= number
    if left < 0 or depth >= MAX_DEPTH:
        return -1
    if kind is dict:
        items = items.values()
    if number > _FEW and _PLAIN.issuperset(map(type, items)):
        return left
    for item in items:
        if type(item) not in _PLAIN:
            if type(item) not in _CONTAINERS:
                return -1
            left = _left_after(item, left, depth + 1)
            if left < 0:
                return -1
    return left
