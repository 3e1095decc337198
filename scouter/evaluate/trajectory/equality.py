"""Three ways in which the arguments of two calls can be the same, each as a key.

Values are the same where their keys are equal, so that many calls are matched by hashing. Unlike
the operators' `deep_equal`, none of them takes two spellings of a letter for one: a trajectory is
matched by what was sent.
"""

import json
from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

from pydantic import JsonValue

KeyOf: TypeAlias = Callable[[JsonValue], Hashable]

_SMALL: Final = 1 << 31
_TRUE, _FALSE = ("true",), ("false",)


def json_key(value: JsonValue) -> Hashable:
    """Give the key of a JSON value: equal for what JSON holds to be the same.

    Numbers count by value (1 and 1.0 are one, integers stay exact), booleans are no numbers, null
    is not an absent key, the order of keys in an object is of no matter.

    Cost: linear in the value.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, list):
        return ("list", *map(json_key, value))
    return frozenset([(name, json_key(item)) for name, item in value.items()])


def _number(value: float) -> Hashable:
    """Give the key of a number: a small whole number as it is, any other one as bytes.

    Hashes of large numbers can be foreseen, those of bytes not. A sender could else make calls
    whose keys all fall on one hash.
    """
    if isinstance(value, float):
        if not value.is_integer():
            return repr(value).encode()
        value = int(value)
    return value if -_SMALL < value < _SMALL else hex(value).encode()


def python_key(value: JsonValue) -> Hashable:
    """Give the key of a value as Python's `==` on parsed JSON sees it: True is 1."""
    if isinstance(value, list):
        return ("list", *map(python_key, value))
    if isinstance(value, dict):
        return frozenset([(name, python_key(item)) for name, item in value.items()])
    return value


def wire_key(value: JsonValue) -> Hashable:
    """Give the text that Vertex's client sends: the order of keys counts, and 1 is not 1.0."""
    return json.dumps(value)
