"""Values in messages: as JSON, and short."""

import json
from json.encoder import encode_basestring
from typing import Final, cast

from pydantic import JsonValue

KEYS_SHOWN: Final = 10
"""Keys or names that a message lists."""
LIMIT: Final = 120
"""Characters of a value that a message shows."""

_encode: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode
"""Made once: `json.dumps` with options makes an encoder for every call."""


def show(value: JsonValue) -> str:
    """Write a value for a person to read: JSON, cut after `LIMIT` characters.

    Cost: linear in the value, except for texts, of which only the beginning is read.
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
            text = repr(value) if kind is int else _encode(value)
    except (ValueError, RecursionError):  # an int of thousands of digits; thousands of levels
        return f"{kind_of(value)} too large to show"
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}…"


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
