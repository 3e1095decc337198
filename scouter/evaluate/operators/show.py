"""Values in messages: as JSON, and short, whatever their size."""

import json
from collections.abc import Iterable
from itertools import islice
from json.encoder import encode_basestring
from typing import Final, cast

from pydantic import JsonValue

from scouter.evaluate.files.json_text import beginning

KEYS_SHOWN: Final = 10
"""Keys or names that a message lists."""
LIMIT: Final = 120
"""Characters of a value that a message shows."""
_NAME: Final = 80
"""Characters of a key or name that a message shows."""

_encode: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode
"""Made once: `json.dumps` with options makes an encoder for every call."""


def show(value: JsonValue) -> str:
    """Write a value for a person to read: JSON, cut after `LIMIT` characters.

    Cost: constant; only the beginning of the value is read.
    """
    kind = type(value)
    if kind is float:
        return repr(value)
    if isinstance(value, str) and len(value) > LIMIT:
        return f"{_encode(value[:LIMIT])}… ({len(value)} characters)"
    try:
        if kind is str:
            text = encode_basestring(cast(str, value))
        else:
            text = repr(value) if kind is int else _encode(beginning(value, LIMIT + 1))
    except (ValueError, RecursionError):  # an int of thousands of digits; thousands of levels
        return f"{kind_of(value)} too large to show"
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}…"


def show_names(names: Iterable[str], count: int) -> str:
    """Write the first keys or names for a person to read, each of them short.

    Args:
        names: In the order in which they are shown; no more are read than are shown.
        count: Number of all names.

    Returns:
        Empty if there are none.
    """
    shown = ", ".join(show_name(name) for name in islice(names, KEYS_SHOWN))
    return f"{shown} and {count - KEYS_SHOWN} more" if count > KEYS_SHOWN else shown


def show_name(name: str) -> str:
    """Write a key or name for a person to read, short."""
    return repr(name) if len(name) <= _NAME else f"{name[:_NAME]!r}…"


def kind_of(value: JsonValue) -> str:
    """Name a value's type in JSON's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f"an object with {len(value)} keys"
